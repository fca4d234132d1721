"""Injectors in the turns of a session: what the model sees, what is on record, and what cannot harm a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from aar.errors import ProviderUnavailable, SessionError
from aar.hooks import Hooks
from aar.injectors import (
    AfterResponseInjection,
    AfterToolInjection,
    BeforeChatInjection,
    BeforeCompactionInjection,
    CompactionChange,
    ErrorChange,
    Injection,
    Injectors,
    OnErrorInjection,
    Preamble,
    RequestChange,
    ResponseChange,
    Timing,
    preamble,
)
from aar.messages.events import AssistantMessage, Notice, ToolResult, UserMessage
from aar.messages.settings import AgentConfig
from aar.testing import MemoryStore, ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolRegistry


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text="": text)
    registry.register("other")(lambda: "other")
    return registry


def settings(**fields: Any) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, "system_prompt": "Be good.", **fields})


def asked(timing: str, ask: Callable[..., Any], **told: Any) -> Injectors:
    """One function that is asked at a timing."""
    injectors = Injectors()
    injectors.add_function(Timing(timing), ask, Preamble(**{"name": "one", **told}))
    return injectors


def giving(timing: str, *given: Any) -> Injectors:
    """Gives these one after the other, and nothing from then on."""
    left = list(given)

    def give(*_: Any) -> Any:
        return left.pop(0) if left else None

    return asked(timing, give)


def hooks(*several: Injectors) -> Hooks:
    together = Hooks()
    for one in several:
        together = together.and_then(Hooks(injectors=one))
    return together


def said_to(provider: ScriptedProvider) -> list[list[Any]]:
    """The contents of what users say in each request, without results of tools."""
    return [
        [one["content"] for one in request.messages if one["role"] == "user" and isinstance(one["content"], str)]
        for request in provider.requests
    ]


def notices(session: Any, kind: str) -> list[str]:
    return [fact.text for fact in facts_of(session) if isinstance(fact, Notice) and fact.kind == kind]


# --- the nine timings -------------------------------------------------------------------------


class _Trace:
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def before_chat(self, at: Any) -> None:
        self.seen.append(f"before_chat {at.step}")

    async def after_response(self, at: Any, response: Any) -> None:
        self.seen.append(f"after_response {response.content}")

    async def before_tool_execution(self, at: Any, call: Any) -> None:
        self.seen.append(f"before_tool_execution {call.tool_name}")

    async def after_tool_execution(self, at: Any, call: Any, outcome: Any) -> None:
        self.seen.append(f"after_tool_execution {outcome.output}")

    async def on_error(self, at: Any, error: Exception) -> None:
        self.seen.append(f"on_error {error}")

    async def before_compaction(self, at: Any) -> None:
        self.seen.append("before_compaction")

    async def after_compaction(self, at: Any, done: Any) -> None:
        self.seen.append(f"after_compaction {done.summary}")

    async def on_agent_switch(self, at: Any, switch: Any) -> None:
        self.seen.append(f"on_agent_switch {switch.before.system_prompt} {switch.after.system_prompt}")

    async def transform_messages(self, at: Any, messages: list[Any]) -> None:
        self.seen.append(f"transform_messages {len(messages)}")


@pytest.mark.covers("AURA-86")
async def test_each_of_the_nine_timings_comes_at_its_place(live, tools) -> None:
    trace = _Trace()
    provider = ScriptedProvider().call("echo", text="hi").text("done").text("short").error(ProviderUnavailable("gone"))
    async with live(provider, settings(max_retries=1), tools=tools, hooks=hooks(Injectors([trace]))) as session:
        await session.prompt("go")
        await session.compact()
        await session.configure({"system_prompt": "Be brief."})
        await session.prompt("again")
    assert trace.seen == [
        "before_chat 1",
        "transform_messages 1",
        "after_response ",
        "before_tool_execution echo",
        "after_tool_execution hi",
        "before_chat 2",
        "transform_messages 3",
        "after_response done",
        "before_compaction",
        "after_compaction short",
        "on_agent_switch Be good. Be brief.",
        "before_chat 1",
        "transform_messages 2",
        "on_error gone",
    ]


@pytest.mark.covers("AURA-01")
async def test_a_turn_makes_room_asks_runs_tools_and_goes_on_with_what_waits_until_nothing_is_left(live, tools) -> None:
    trace = _Trace()
    provider = ScriptedProvider().text("a" * 1000).text("b" * 1000).text("c" * 1000)
    provider.text("Short.").call("echo", text="hi").text("done").text("that, too")
    config = settings(context_window=1000, compact_at=0.8, compact_keep=4)
    async with live(provider, config, tools=tools, hooks=hooks(Injectors([trace]))) as session:
        for text in ("1", "2", "3"):
            await session.prompt(text * 100)
        trace.seen.clear()
        await session.follow_up("and then?")
        assert (await session.prompt("go")).stop == "end_turn"
    assert trace.seen == [
        "before_compaction",
        "after_compaction Short.",
        "before_chat 1",
        "transform_messages 5",
        "after_response ",
        "before_tool_execution echo",
        "after_tool_execution hi",
        "before_chat 2",
        "transform_messages 7",
        "after_response done",
        "before_chat 3",
        "transform_messages 9",
        "after_response that, too",
    ]
    assert said_to(provider)[-1][-2:] == ["go", "and then?"]


# --- the seven fields -------------------------------------------------------------------------


@pytest.mark.covers("AURA-87")
async def test_a_message_is_on_record_and_one_to_be_ejected_is_seen_once(live, tools) -> None:
    for eject, expected in ((False, [["go", "> look"]] * 2), (True, [["go", "> look"], ["go"]])):
        provider = ScriptedProvider().call("echo", text="hi").text("done")
        one = giving("before_chat", Injection(content="look", prefix="> ", eject=eject, name="me"))
        async with live(provider, settings(), tools=tools, hooks=hooks(one)) as session:
            await session.prompt("go")
            stored = [(fact.content, fact.data) for fact in facts_of(session) if isinstance(fact, UserMessage)][1:]
        assert said_to(provider) == expected
        assert stored == ([] if eject else [("> look", {"kind": "injected", "injector": "me"})])


@pytest.mark.covers("AURA-87")
async def test_what_a_system_injection_says_stands_in_the_system_prompt_and_is_never_stored(live, tools) -> None:
    for eject, later in ((False, "Be good.\n\nNow."), (True, "Be good.")):
        provider = ScriptedProvider().call("echo", text="hi").text("done").text("next turn")
        one = giving("before_chat", Injection(content="Now.", role="system", eject=eject))
        async with live(provider, settings(), tools=tools, hooks=hooks(one)) as session:
            await session.prompt("go")
            await session.prompt("next")
        assert [request.system for request in provider.requests] == ["Be good.\n\nNow.", later, "Be good."]
        assert [len(said) for said in said_to(provider)] == [1, 1, 2]


@pytest.mark.covers("AURA-87")
async def test_a_filter_leaves_some_tools_for_one_call_and_the_others_are_blocked(live, tools) -> None:
    provider = ScriptedProvider().call("other").call("other").text("done")
    narrow = giving("before_chat", Injection(tools=["e*", "other"]))
    narrower = giving("before_chat", Injection(tools=["echo"]))
    async with live(provider, settings(), tools=tools, hooks=hooks(narrow, narrower)) as session:
        await session.prompt("go")
        results = [(fact.output, fact.is_error) for fact in facts_of(session) if isinstance(fact, ToolResult)]
    assert [[tool.name for tool in request.tools or ()] for request in provider.requests] == [
        ["echo"],
        ["echo", "other"],
        ["echo", "other"],
    ]
    assert results == [("Error [blocked]: tool 'other' was not offered in this step", True), ("other", False)]


@pytest.mark.covers("AURA-87")
async def test_what_is_only_to_be_shown_is_on_record_and_no_model_sees_it(live) -> None:
    provider = ScriptedProvider().text("done")
    one = giving("before_chat", Injection(content="thinking hard", display_only=True))
    async with live(provider, settings(), hooks=hooks(one)) as session:
        await session.prompt("go")
        assert notices(session, "display_only") == ["thinking hard"]
    assert said_to(provider) == [["go"]]


async def test_whoever_watches_sees_what_is_not_stored(live, watched) -> None:
    provider = ScriptedProvider().text("done")
    one = giving("before_chat", Injection(content="psst", eject=True))
    async with live(provider, settings(), hooks=hooks(one)) as session:
        seen = await watched(session, "go")
        assert [one.text for one in seen if isinstance(one, Notice)] == ["psst"]
        assert [fact for fact in facts_of(session) if isinstance(fact, Notice)] == []


# --- the five that decide ---------------------------------------------------------------------


@pytest.mark.covers("AURA-88")
async def test_a_request_gets_more_system_prompt_or_is_not_made(live) -> None:
    provider = ScriptedProvider().text("done")
    more = BeforeChatInjection(request=RequestChange(append_system="Really."))
    skip = BeforeChatInjection(content="no call", display_only=True, request=RequestChange(skip=True))
    async with live(provider, settings(), hooks=hooks(giving("before_chat", more, skip))) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert (await session.prompt("again")).stop == "end_turn"
        assert notices(session, "display_only") == ["no call"]
    assert [request.system for request in provider.requests] == ["Be good.\n\nReally."]


@pytest.mark.covers("AURA-88")
async def test_an_answer_is_replaced_or_was_never_given(live, tools) -> None:
    provider = ScriptedProvider().text("bad word").call("echo", text="x").text("third")
    change = AfterResponseInjection(response=ResponseChange(content="good word"))
    drop = AfterResponseInjection(response=ResponseChange(skip_storing=True))
    async with live(provider, settings(), tools=tools, hooks=hooks(giving("after_response", change, drop))) as session:
        await session.prompt("one")
        await session.prompt("two")
        await session.prompt("three")
        assert [fact.content for fact in facts_of(session) if isinstance(fact, AssistantMessage)] == [
            "good word",
            "",
            "third",
        ]
        assert [fact for fact in facts_of(session) if isinstance(fact, ToolResult)] == []
        assert (await session.status()).step_count == 3  # it was paid for
    assert [list(map(dict, request.messages)) for request in provider.requests][2] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "good word"},
        {"role": "user", "content": "two"},
        {"role": "user", "content": "three"},
    ]


@pytest.mark.covers("AURA-88")
async def test_the_output_of_a_tool_is_replaced(live, tools) -> None:
    provider = ScriptedProvider().call("echo", text="secret").text("done")
    one = giving("after_tool_execution", AfterToolInjection(output="***"))
    async with live(provider, settings(), tools=tools, hooks=hooks(one)) as session:
        await session.prompt("go")
        assert [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult)] == ["***"]


@pytest.mark.covers("AURA-88", "AURA-09")
async def test_a_failed_call_is_made_again_three_times_at_most(live) -> None:
    provider = ScriptedProvider()
    for _ in range(9):
        provider = provider.error(ProviderUnavailable("gone"))
    always = asked("on_error", lambda at, error: OnErrorInjection(error=ErrorChange(retry=True, skip=True)))
    async with live(provider, settings(max_retries=1), hooks=hooks(always)) as session:
        assert (await session.prompt("go")).stop == "error"
    assert len(provider.requests) == 4


@pytest.mark.covers("AURA-88", "AURA-09")
async def test_a_failed_call_is_passed_over(live) -> None:
    provider = ScriptedProvider().error(ProviderUnavailable("gone")).error(ProviderUnavailable("gone")).text("ok")
    skip = OnErrorInjection(error=ErrorChange(skip=True))
    go_on = OnErrorInjection(content="Try again.", error=ErrorChange(skip=True))
    async with live(provider, settings(max_retries=1), hooks=hooks(giving("on_error", skip, go_on))) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert len(notices(session, "error_skipped")) == 1
        assert (await session.prompt("again")).stop == "end_turn"
    assert said_to(provider)[-1] == ["go", "again", "Try again."]


@pytest.mark.covers("AURA-88")
async def test_a_conversation_is_not_compacted_when_an_injector_keeps_it(live) -> None:
    provider = ScriptedProvider().text("done")
    keep = giving("before_compaction", BeforeCompactionInjection(compaction=CompactionChange(skip=True)))
    async with live(provider, settings(), hooks=hooks(keep)) as session:
        await session.prompt("go")
        with pytest.raises(SessionError, match="not compacted"):
            await session.compact()
    assert len(provider.requests) == 1


@pytest.mark.covers("AURA-88")
async def test_an_injection_of_another_timing_is_refused(live) -> None:
    provider = ScriptedProvider().text("done")
    wrong = giving("before_chat", AfterToolInjection(content="no", output="x"))
    async with live(provider, settings(), hooks=hooks(wrong)) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        [problem] = notices(session, "hook_failed")
    assert problem == "Injector 'one', before_chat: it gave a AfterToolInjection, which does not fit here"
    assert said_to(provider) == [["go"]]


# --- the loop ---------------------------------------------------------------------------------


@pytest.mark.covers("AURA-91")
async def test_a_message_after_the_answer_makes_one_more_step_and_one_without_content_none(live) -> None:
    for injection, expected in (
        (Injection(content="Are you sure?"), [["go"], ["go", "Are you sure?"]]),
        (Injection(content="Are you sure?", eject=True), [["go"], ["go", "Are you sure?"]]),
        (Injection(), [["go"]]),
        (Injection(content="shown", display_only=True), [["go"]]),
    ):
        provider = ScriptedProvider().text("done").text("yes")
        async with live(provider, settings(), hooks=hooks(giving("after_response", injection))) as session:
            assert (await session.prompt("go")).stop == "end_turn"
        assert said_to(provider) == expected


async def test_a_message_after_an_answer_with_calls_comes_behind_their_results(live, tools, problems_of) -> None:
    provider = ScriptedProvider().call("echo", text="hi").text("done")
    one = giving("after_response", Injection(content="Mind the gap."))
    two = giving("after_tool_execution", Injection(content="It spoke."))
    async with live(provider, settings(), tools=tools, hooks=hooks(one, two)) as session:
        await session.prompt("go")
    messages = list(provider.requests[1].messages)
    assert problems_of(messages) == []
    assert [one["content"] for one in messages[3:]] == ["Mind the gap.", "It spoke."]


@pytest.mark.covers("AURA-89")
async def test_arguments_go_from_one_injector_to_the_next_and_are_looked_at_again(live, tools) -> None:
    @tools.register("add", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    def add(a: int) -> str:
        return str(a)

    seen: list[dict[str, Any]] = []

    async def guard(call: Any) -> None:
        seen.append(call.arguments)

    first = asked("before_tool_execution", lambda at, call: {"a": call.arguments["a"] + 1}, name="first")
    bad = asked("before_tool_execution", lambda at, call: {"a": "many"}, name="bad")
    second = asked("before_tool_execution", lambda at, call: {"a": call.arguments["a"] * 10}, name="second")
    provider = ScriptedProvider().call("add", a=1).text("done")
    together = hooks(first, bad, second).and_then(Hooks(before_tool_call=(guard,)))
    async with live(provider, settings(), tools=tools, hooks=together) as session:
        await session.prompt("go")
        assert [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult)] == ["20"]
        [problem] = notices(session, "hook_failed")
    assert seen == [{"a": 20}]
    assert problem.startswith("Injector 'bad', before_tool_execution: it gave arguments that do not fit 'add'")


@pytest.mark.covers("AURA-89")
async def test_messages_go_through_all_that_transform_them_for_this_call_only(live, tools) -> None:
    def shout(at: Any, messages: list[Any]) -> Any:
        return [{**one, "content": one["content"].upper()} if one["role"] == "user" else one for one in messages][:1]

    def answer(at: Any, messages: list[Any]) -> Any:
        return [*messages, {"role": "user", "content": f"{len(messages)} so far"}]

    provider = ScriptedProvider().text("one").text("two")
    together = hooks(asked("transform_messages", shout), asked("transform_messages", answer))
    async with live(provider, settings(), hooks=together) as session:
        await session.prompt("go")
        await session.prompt("on")
        assert [one["content"] for one in session.snapshot().to_messages()] == ["go", "one", "on", "two"]
    assert said_to(provider) == [["GO", "1 so far"], ["GO", "1 so far"]]


@pytest.mark.covers("AURA-19")
async def test_what_a_model_did_not_see_waits_for_the_next_call_of_the_turn_and_not_for_the_next_turn(live) -> None:
    gone = ProviderUnavailable("gone")
    provider = ScriptedProvider().error(gone).text("heard").error(gone).text("new turn")
    retry = OnErrorInjection(error=ErrorChange(retry=True))
    given = giving("before_chat", Injection(content="psst", eject=True), Injection(content="lost", eject=True))
    async with live(provider, settings(max_retries=1), hooks=hooks(given, giving("on_error", retry))) as session:
        assert (await session.prompt("one")).stop == "end_turn"
        assert (await session.prompt("two")).stop == "error"
        assert (await session.prompt("three")).stop == "end_turn"
    assert said_to(provider) == [
        ["one", "psst"],
        ["one", "psst"],
        ["one", "two", "lost"],
        ["one", "two", "three"],
    ]


async def test_what_is_said_between_two_turns_is_for_the_next_one_alone(live) -> None:
    provider = ScriptedProvider().text("ok").forever()
    given = giving("on_agent_switch", Injection(content="You are new.", role="system"), Injection(content="Welcome."))
    async with live(provider, settings(), hooks=hooks(given)) as session:
        await session.configure({"system_prompt": "One."})
        await session.configure({"system_prompt": "Two."})
        await session.prompt("a")
        await session.prompt("b")
    assert [request.system for request in provider.requests] == ["Two.\n\nYou are new.", "Two."]
    assert said_to(provider) == [["a", "Welcome."], ["a", "Welcome.", "b"]]


@pytest.mark.covers("AURA-20")
@pytest.mark.parametrize(("length", "expected"), [(390, ["twice", "other", "twice"]), (420, ["other", "twice"])])
async def test_what_is_said_twice_is_said_once_when_half_the_window_is_full(live, length, expected) -> None:
    texts = [Injection(content=text, eject=True) for text in ("twice", "other", "twice")]
    provider = ScriptedProvider().text("done")
    together = hooks(*(giving("before_chat", one) for one in texts))
    async with live(provider, settings(context_window=200), hooks=together) as session:
        await session.prompt("x" * length)
    assert said_to(provider)[0][1:] == expected


# --- the preamble -----------------------------------------------------------------------------


@pytest.mark.covers("AURA-92")
async def test_an_injector_that_speaks_once_has_spoken_also_when_the_session_is_opened_again(tmp_path) -> None:
    @preamble("welcome", once=True)
    class Welcome:
        async def before_chat(self, at: Any) -> Injection:
            return Injection(content="Welcome.", eject=True)

    store, provider = MemoryStore(), ScriptedProvider().text("ok").forever()
    for session_id in (None, "same"):
        given = hooks(Injectors([Welcome()]))
        async with open_test_runtime(provider, settings(), hooks=given, store=store, home=tmp_path) as runtime:
            if session_id is None:
                session = await runtime.sessions.open("/")
                opened = session.session_id
                await session.prompt("one")
                await session.prompt("two")
            else:
                session = await runtime.sessions.load(opened)
                await session.prompt("three")
    assert said_to(provider) == [["one", "Welcome."], ["one", "two"], ["one", "two", "three"]]


@pytest.mark.covers("AURA-92")
async def test_an_injector_is_asked_only_when_its_condition_holds_and_sees_only_its_variables(
    live, monkeypatch
) -> None:
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("THEIRS", "2")
    seen: list[tuple[int, dict[str, str]]] = []

    @preamble("second", when=lambda at: at.step == 2, env=["MINE", "MISSING"])
    class Second:
        async def before_chat(self, at: Any) -> None:
            seen.append((at.step, dict(at.environ)))

    provider = ScriptedProvider().call("nothing").call("nothing").text("done")
    async with live(provider, settings(), hooks=hooks(Injectors([Second()]))) as session:
        await session.prompt("go")
    assert seen == [(2, {"MINE": "1"})]


@pytest.mark.covers("AURA-92")
async def test_a_condition_may_be_a_line_of_text(live, tools) -> None:
    provider = ScriptedProvider().call("echo", text="x").call("echo", text="y").text("done")
    late = asked("before_chat", lambda at: Injection(content="late", eject=True), when="tool_calls_gt:1")
    wrong = asked("before_chat", lambda at: Injection(content="never"), name="wrong", when="sometimes")
    async with live(provider, settings(), tools=tools, hooks=hooks(late, wrong)) as session:
        await session.prompt("go")
        assert notices(session, "hook_failed")[0].startswith("Injector 'wrong', before_chat: InvalidSetting: ")
    assert said_to(provider) == [["go"], ["go"], ["go", "late"]]


async def test_an_injector_that_speaks_once_does_so_also_beside_calls_that_run_side_by_side(live, tools) -> None:
    async def look(at: Any, call: Any, outcome: Any) -> Injection:
        await trio.testing.wait_all_tasks_blocked()
        return Injection(content="Once.")

    provider = ScriptedProvider().calls(("echo", {"text": "a"}), ("other", {})).text("done")
    together = hooks(asked("after_tool_execution", look, once=True))
    async with live(provider, settings(), tools=tools, hooks=together) as session:
        await session.prompt("go")
    assert said_to(provider)[1] == ["go", "Once."]


# --- harm -------------------------------------------------------------------------------------


def _raise(*_: Any) -> None:
    raise KeyError("hook")


def _exit(*_: Any) -> None:
    raise SystemExit(3)


async def _hang(*_: Any) -> None:
    await trio.sleep_forever()


@pytest.mark.covers("AURA-93")
@pytest.mark.parametrize("timing", list(Timing))
@pytest.mark.parametrize(
    ("harm", "told"),
    [(_raise, "KeyError: 'hook'"), (_exit, "SystemExit: 3"), (_hang, "it took longer than 10 s"), (lambda *_: 7, None)],
)
async def test_an_injector_that_fails_is_told_and_skipped(live, tools, autojump_clock, timing, harm, told) -> None:
    provider = ScriptedProvider().call("echo", text="hi").text("done").text("short").error(ProviderUnavailable("gone"))
    given = hooks(asked(timing, harm), giving(timing))
    async with live(provider, settings(max_retries=1), tools=tools, hooks=given) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        await session.compact()
        await session.configure({"system_prompt": "Be brief."})
        assert (await session.prompt("again")).stop == "error"
        problems = notices(session, "hook_failed")
        assert [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult)] == ["hi"]
    assert set(problems) == {f"Injector 'one', {timing}: {told or 'it gave a int, which does not fit here'}"}
    assert said_to(provider)[:2] == [["go"], ["go"]]


async def test_a_turn_that_is_to_stop_after_its_step_asks_no_model_after_an_injector_either(live, tools) -> None:
    async def stop(at: Any) -> None:
        if at.step == 2:
            await session.cancel(after_step=True)
            await trio.testing.wait_all_tasks_blocked()

    provider = ScriptedProvider().call("echo").text("never")
    async with live(provider, settings(), tools=tools, hooks=hooks(asked("before_chat", stop))) as session:
        assert (await session.prompt("go")).stop == "cancelled"
    assert len(provider.requests) == 1


async def test_a_turn_is_cancelled_while_an_injector_thinks(live) -> None:
    thinking = trio.Event()

    async def think(at: Any) -> None:
        thinking.set()
        await trio.sleep_forever()

    async with live(ScriptedProvider(), settings(), hooks=hooks(asked("before_chat", think))) as session:

        async def cancel() -> None:
            await thinking.wait()
            await session.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            with trio.fail_after(5):
                assert (await session.prompt("go")).stop == "cancelled"
