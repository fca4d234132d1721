"""Running an engine: its options, its queues, and its ways to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest
import trio

from aar import Agent, ToolRegistry, tool
from aar.driving import open_engine, thinking_patch
from aar.engine import Options, QueueMode, ToolExecutionMode, TurnDone
from aar.errors import NothingToContinue, SessionError, SessionInUse, StoreUnavailable
from aar.messages.events import Notice, ToolCall, UserMessage
from aar.messages.provider import ImageLimits
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.messages.tools import ToolOutcome
from aar.runtime import open_runtime
from aar.testing import Fault, MemoryStore, ScriptedProvider

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAAB"
    "JRU5ErkJggg=="
)


@tool
async def look(at: str) -> str:
    return f"a {at}"


@tool
async def wait(seconds: float) -> str:
    await trio.sleep(seconds)
    return f"{seconds:g}"


@tool(execution="parallel")
async def wait_beside(seconds: float) -> str:
    await trio.sleep(seconds)
    return f"{seconds:g}"


@tool(execution="sequential")
async def wait_alone(seconds: float) -> str:
    await trio.sleep(seconds)
    return f"{seconds:g}"


WAITING = [wait, wait_beside, wait_alone]


def waits(*names: str) -> ScriptedProvider:
    return ScriptedProvider().calls(*((name, {"seconds": 1}) for name in names)).text("done")


def said_to(model: ScriptedProvider, request: int) -> list[str]:
    """The texts of people in a request."""
    messages = model.requests[request].messages
    return [str(message["content"]) for message in messages if isinstance(message["content"], str)]


async def seconds_of(it: Any) -> float:
    started = trio.current_time()
    await it.run("go")
    return round(trio.current_time() - started, 1)


# --- options and state ------------------------------------------------------------------------


@pytest.mark.covers("ENG-55")
def test_options_have_these_fields_and_defaults() -> None:
    options = Options()
    assert {field.name: getattr(options, field.name) for field in fields(options)} == {
        "tool_execution_mode": "batch",
        "steering_mode": "one_at_a_time",
        "followup_mode": "one_at_a_time",
        "before_tool_call": None,
        "after_tool_call": None,
        "on_event": None,
        "get_steering_messages": None,
        "get_follow_up_messages": None,
        "should_stop_after_turn": None,
        "transform_context": None,
        "get_ephemeral_messages": None,
    }


@pytest.mark.covers("ENG-01")
async def test_the_state_shows_what_happens_at_this_moment(autojump_clock: Any, engine: Any) -> None:
    gate = trio.Event()

    @tool
    async def stand(ctx: Any) -> str:
        ctx.report("here")
        await gate.wait()
        return "ok"

    states: dict[str, Any] = {}
    model = ScriptedProvider().calls(("stand", {}), text="abc").text("done")
    async with engine(model, tools=[stand], steering_mode="all") as it:

        def look_at(event: Any) -> None:
            states.setdefault(event.type, it.state)
            if event.type == "tool_execution_update":
                it.steer("faster")
                states["steered"] = it.state
                gate.set()

        it.subscribe(look_at)
        await it.run("go")
        states["after"] = it.state
    during = states["message_update"]
    assert (during.is_streaming, during.streaming_message.text) == (True, "abc")
    assert states["tool_execution_update"].pending_tool_calls == {"call_1"}
    assert [one.content for one in states["steered"].steering_queue] == ["faster"]
    after = states["after"]
    assert (after.is_streaming, after.streaming_message, after.pending_tool_calls) == (False, None, frozenset())
    assert (after.error_message, after.steering_queue, after.follow_up_queue) == (None, (), ())
    assert [one.name for one in after.tools if one.name == "stand"] == ["stand"]
    assert {field.name for field in fields(after)} == {
        *("system_prompt", "messages", "pending_tool_calls", "is_streaming", "error_message", "streaming_message"),
        *("thinking_level", "llm", "tools", "follow_up_queue", "steering_queue"),
    }


@pytest.mark.covers("ENG-04")
async def test_a_list_of_tools_that_is_changed_later_changes_nothing(autojump_clock: Any, engine: Any) -> None:
    tools = [look]
    model = ScriptedProvider().call("look", at="cat").text("ok")
    async with engine(model, tools=tools, on_event=lambda event: tools.clear()) as it:
        await it.run("go")
    assert [[one.name for one in request.tools or () if one.name == "look"] for request in model.requests] == [
        ["look"],
        ["look"],
    ]


@pytest.mark.covers("ENG-09")
async def test_how_much_the_model_thinks_can_change_between_two_turns(autojump_clock: Any, tmp_path: Any) -> None:
    asked: list[Any] = []

    class Thinking(ScriptedProvider):
        async def stream(self, request: Any) -> Any:
            asked.append(self.config.extra.get("reasoning_effort"))
            async for delta in script.stream(request):
                yield delta

    script = ScriptedProvider().call("look", at="cat").text("ok")
    config = AgentConfig(provider=ProviderConfig(name="generic", model="m", base_url="http://127.0.0.1:9/v1"))
    async with (
        open_runtime(config, home=tmp_path, build_provider=Thinking) as runtime,
        open_engine(runtime, tmp_path, tools=[look]) as it,
    ):

        async def think_more(event: Any) -> None:
            if event.type == "turn_end":
                await it.set_thinking_level("high")

        it.subscribe(think_more)
        await it.run("go")
        assert it.state.thinking_level == "high"
    assert asked == [None, "high"]


@pytest.mark.parametrize(
    ("provider", "off", "high"),
    [
        (
            "anthropic",
            {"thinking": {"type": "disabled", "budget_tokens": None}},
            {"thinking": {"type": "enabled", "budget_tokens": 16384}},
        ),
        ("gemini", {"thinking_budget": 0}, {"thinking_budget": 16384}),
        ("ollama", {"think": False}, {"think": "high"}),
        ("openai", {"reasoning_effort": "minimal"}, {"reasoning_effort": "high"}),
    ],
)
def test_a_thinking_level_is_said_in_the_words_of_each_provider(provider: str, off: Any, high: Any) -> None:
    assert thinking_patch("off", provider) == {"provider": {"extra": off}}
    assert thinking_patch("high", provider) == {"provider": {"extra": high}}
    with pytest.raises(ValueError, match="Use one of: off, low, medium, high"):
        thinking_patch("very", provider)


# --- going on ---------------------------------------------------------------------------------


@pytest.mark.covers("ENG-06", "ENG-14")
async def test_a_run_that_was_stopped_after_its_tools_goes_on_with_nothing_new_said(
    autojump_clock: Any, engine: Any
) -> None:
    done: list[TurnDone] = []
    model = ScriptedProvider().call("look", at="cat").text("ok")
    async with engine(model, tools=[look], should_stop_after_turn=lambda one: done.append(one) or True) as it:
        ended = await it.run("go")
        assert (ended.stop, len(model.requests)) == ("end_turn", 1)
        assert [message.role for message in it.messages] == ["user", "assistant", "tool_result"]
        assert [result.text for result in done[0].results] == ["a cat"]
        assert done[0].message is it.messages[1]
        await it.run_continue()
    assert [message.role for message in it.messages] == ["user", "assistant", "tool_result", "assistant"]
    assert [message["role"] for message in model.requests[1].messages] == ["user", "assistant", "user"]


@pytest.mark.covers("ENG-07", "ENG-08")
async def test_after_an_answer_only_what_is_queued_can_be_continued_with(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    model = ScriptedProvider().text("ok").forever()
    async with engine(model) as it:
        events = told(it)
        with pytest.raises(NothingToContinue, match="nothing to answer: say something"):
            await it.run_continue()
        assert events == []
        await it.run("go")
        events.clear()
        with pytest.raises(NothingToContinue):
            await it.run_continue()
        assert events == []
        it.steer("and?")
        await it.run_continue()
        it.follow_up("and then?")
        await it.run_continue()
    assert [said_to(model, n)[-1] for n in range(3)] == ["go", "and?", "and then?"]


async def test_one_run_at_a_time_and_one_engine_for_a_session(autojump_clock: Any, tmp_path: Any) -> None:
    gate = trio.Event()
    model = ScriptedProvider().text("ok").after(gate)
    async with (
        open_runtime(AgentConfig(streaming=True), provider=model, home=tmp_path) as runtime,
        open_engine(runtime, tmp_path, session_id="abc") as it,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(it.run, "go")
        await model.reached(1)
        with pytest.raises(SessionError, match="in a run"):
            await it.run("go")
        with pytest.raises(SessionInUse, match="close it before"):
            async with open_engine(runtime, tmp_path, session_id="abc"):
                pass
        gate.set()


def test_modes_may_be_given_by_name() -> None:
    assert Options(steering_mode="all").steering_mode is QueueMode.ALL  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="followup_mode: 'some' is not a valid QueueMode"):
        Options(followup_mode="some")  # type: ignore[arg-type]


async def test_a_stored_session_is_gone_on_with(autojump_clock: Any, tmp_path: Any) -> None:
    model = ScriptedProvider().call("look", at="cat").text("ok")
    async with open_runtime(AgentConfig(), provider=model, store=MemoryStore(), home=tmp_path) as runtime:
        stop = Options(should_stop_after_turn=lambda done: True)
        async with open_engine(runtime, tmp_path, stop, tools=[look], session_id="abc") as it:
            await it.run("go")
        async with open_engine(runtime, tmp_path, tools=[look], session_id="abc") as it:
            assert [message.text for message in it.messages] == ["go", "", "a cat"]
            await it.run_continue()
            assert it.messages[-1].text == "ok"


async def test_what_others_say_in_the_session_is_no_business_of_the_engine(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    pulled: list[int] = []
    model = ScriptedProvider().text("ok").forever()
    async with engine(model, get_steering_messages=lambda: pulled.append(1)) as it:
        events = told(it)
        it.follow_up("later")
        await it._session.prompt("from elsewhere")
        assert (events, len(model.requests), pulled) == ([], 1, [])
        await it.run("go")
        assert len(pulled) == 3
    assert [message.text for message in it.messages if message.role == "user"] == ["from elsewhere", "go", "later"]


# --- the context of one call ------------------------------------------------------------------


@pytest.mark.covers("ENG-15")
async def test_a_context_is_transformed_for_the_call_and_not_in_the_conversation(
    autojump_clock: Any, engine: Any
) -> None:
    model = ScriptedProvider().text("ok").forever()
    async with engine(model, transform_context=lambda messages: messages[-1:]) as it:
        await it.run("one")
        await it.run("two")
    assert [len(request.messages) for request in model.requests] == [1, 1]
    assert [message.text for message in it.messages] == ["one", "ok", "two", "ok"]


@pytest.mark.covers("ENG-16")
async def test_ephemeral_messages_are_asked_for_each_turn_and_never_kept(autojump_clock: Any, engine: Any) -> None:
    fresh = iter(["t1", "t2"])

    async def screen() -> Sequence[str]:
        return [next(fresh)]

    model = ScriptedProvider().call("look", at="cat").text("ok")
    async with engine(model, tools=[look], get_ephemeral_messages=screen) as it:
        await it.run("go")
    assert [said_to(model, n) for n in range(2)] == [["go", "t1"], ["go", "t2"]]
    assert [message.text for message in it.messages] == ["go", "", "a cat", "ok"]


def _raises() -> Any:
    raise ValueError("no screen")


@pytest.mark.covers("ENG-17")
@pytest.mark.parametrize(("source", "why"), [(_raises, "no screen"), (trio.sleep_forever, "longer than 2 s")])
async def test_ephemeral_messages_that_cannot_be_had_are_done_without(
    autojump_clock: Any, engine: Any, source: Any, why: str
) -> None:
    async with engine(ScriptedProvider().text("ok"), get_ephemeral_messages=source) as it:
        assert await seconds_of(it) <= 2.1
        notices = [record.event for record in it._session.records() if isinstance(record.event, Notice)]
    assert it.messages[-1].text == "ok"
    assert [why in notice.text for notice in notices] == [True]


@pytest.mark.covers("ENG-18")
async def test_an_image_may_be_ephemeral_and_is_not_stored(autojump_clock: Any, engine: Any) -> None:
    picture = UserMessage.of([{"type": "image_url", "image_url": {"url": PIXEL}}])
    model = ScriptedProvider().text("a dot")
    async with engine(model, get_ephemeral_messages=lambda: [picture]) as it:
        await it.run("go")
        stored = "".join(record.event.model_dump_json() for record in it._session.records())
    assert list(model.requests[0].messages)[-1]["content"][0]["image_url"]["url"] == PIXEL
    assert "image_url" not in stored


@pytest.mark.parametrize("how", ["ephemeral", "transformed"])
async def test_an_image_of_one_call_is_left_out_for_a_model_that_takes_none_which_is_told_once(
    autojump_clock: Any, engine: Any, how: str
) -> None:
    picture = UserMessage.of([{"type": "image_url", "image_url": {"url": PIXEL}}])
    added = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}
    model = ScriptedProvider().call("look", at="cat").text("no dot")
    model.image_limits = ImageLimits(at_most=0)
    options: dict[str, Any] = {
        "ephemeral": {"get_ephemeral_messages": lambda: [picture]},
        "transformed": {"transform_context": lambda messages: [*messages, added]},
    }[how]
    async with engine(model, tools=[look], **options) as it:
        await it.run("go")
        told = [record.event.text for record in it._session.records() if isinstance(record.event, Notice)]
    assert "data:" not in str([list(request.messages) for request in model.requests])
    assert "image left out" in str(list(model.requests[1].messages)[-1])
    assert [text.partition(": ")[2] for text in told] == ["the model takes no images."]


# --- tools ------------------------------------------------------------------------------------


@pytest.mark.covers("ENG-26", "ENG-27", "ENG-28", "ENG-30", "AURA-78")
@pytest.mark.parametrize(
    ("mode", "names", "seconds"),
    [
        ("sequential", ["wait", "wait_beside", "wait"], 3),
        ("parallel", ["wait", "wait_beside", "wait"], 1),
        ("parallel", ["wait", "wait_alone", "wait"], 3),
        ("parallel", ["wait", "wait", "wait_alone"], 2),
        ("batch", ["wait_beside", "wait_beside", "wait", "wait"], 3),
        ("batch", ["wait", "wait_beside", "wait_beside", "wait_alone"], 3),
    ],
)
async def test_tools_run_as_their_mode_and_they_themselves_say(
    autojump_clock: Any, engine: Any, mode: str, names: list[str], seconds: float
) -> None:
    async with engine(waits(*names), tools=WAITING, tool_execution_mode=ToolExecutionMode(mode)) as it:
        assert await seconds_of(it) == seconds


@pytest.mark.covers("ENG-26", "ENG-29")
async def test_a_tool_that_runs_alone_is_a_barrier_and_results_keep_the_order_of_calls(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    async with engine(waits("wait", "wait_beside", "wait_beside", "wait"), tools=WAITING) as it:
        events = told(it)
        await it.run("go")
    assert [" ".join(event.split()[:2]) for event in events if event.startswith("tool_")] == [
        "tool_execution_start call_1",
        "tool_execution_end call_1",
        "tool_execution_start call_2",
        "tool_execution_start call_3",
        "tool_execution_end call_2",
        "tool_execution_end call_3",
        "tool_execution_start call_4",
        "tool_execution_end call_4",
    ]
    results = [message.tool_call_id for message in it.messages if message.role == "tool_result"]
    assert results == ["call_1", "call_2", "call_3", "call_4"]


@pytest.mark.covers("ENG-31", "ENG-38")
async def test_an_unknown_tool_and_one_that_raises_are_results_and_the_loop_goes_on(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    @tool
    async def fails() -> str:
        raise ValueError("no")

    model = ScriptedProvider().calls(("nosuch", {}), ("fails", {})).text("ok")
    async with engine(model, tools=[fails]) as it:
        events = told(it)
        await it.run("go")
    assert [event for event in events if event.startswith("tool_execution_start")] == ["tool_execution_start call_2"]
    results = [message for message in it.messages if message.role == "tool_result"]
    assert [result.is_error for result in results] == [True, True]
    assert "nosuch" in results[0].text
    assert "ValueError" in results[1].text
    assert len(list(model.requests[1].messages)[-1]["content"]) == 2


@pytest.mark.covers("ENG-32")
async def test_a_call_that_is_answered_beforehand_is_not_run(autojump_clock: Any, engine: Any, told: Any) -> None:
    def guard(call: ToolCall, signal: trio.Event) -> ToolOutcome | None:
        return ToolOutcome("not now", is_error=True) if call.arguments["at"] == "dog" else None

    model = ScriptedProvider().calls(("look", {"at": "cat"}), ("look", {"at": "dog"})).text("ok")
    async with engine(model, tools=[look], before_tool_call=guard) as it:
        events = told(it)
        await it.run("go")
    assert [event for event in events if event.startswith("tool_execution_start")] == ["tool_execution_start call_1"]
    assert [message.text for message in it.messages if message.role == "tool_result"] == ["a cat", "not now"]


@pytest.mark.covers("ENG-37")
async def test_a_result_that_is_patched_is_the_one_that_is_shown_and_sent(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    async def patch(call: ToolCall, outcome: ToolOutcome, signal: trio.Event) -> ToolOutcome:
        return outcome._replace(output=outcome.output.upper())

    model = ScriptedProvider().call("look", at="cat").text("ok")
    async with engine(model, tools=[look], after_tool_call=patch) as it:
        events = told(it)
        await it.run("go")
    assert "tool_execution_end call_1 A CAT" in events
    assert list(model.requests[1].messages)[-1]["content"][0]["content"] == "A CAT"


@pytest.mark.covers("ENG-34")
async def test_a_tool_knows_its_call_its_arguments_and_a_way_to_report(autojump_clock: Any, engine: Any) -> None:
    seen: list[Any] = []

    @tool
    async def note(word: str, ctx: Any) -> str:
        seen.extend([ctx.tool_call_id, word, ctx.report])
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            seen.append("cancelled")
            raise
        return ""

    async with engine(ScriptedProvider().call("note", word="hm"), tools=[note]) as it:
        it.subscribe(lambda event: it.cancel() if event.type == "tool_execution_start" else None)
        await it.run("go")
    assert (seen[:2], callable(seen[2]), seen[3:]) == (["call_1", "hm"], True, ["cancelled"])


@pytest.mark.covers("ENG-39")
@pytest.mark.parametrize(("which", "requests"), [(["last", "last"], 1), (["last", "look"], 2)])
async def test_a_run_ends_with_a_turn_whose_results_all_ask_for_it(
    autojump_clock: Any, engine: Any, which: list[str], requests: int
) -> None:
    @tool
    def last(at: str) -> ToolOutcome:
        return ToolOutcome(at, terminate=True)

    model = ScriptedProvider().calls(*((name, {"at": "cat"}) for name in which)).text("ok")
    async with engine(model, tools=[look, last]) as it:
        ended = await it.run("go")
    assert (ended.stop, len(model.requests)) == ("end_turn", requests)
    assert [message.role for message in it.messages][:4] == ["user", "assistant", "tool_result", "tool_result"]


# --- queues -----------------------------------------------------------------------------------


@pytest.mark.covers("ENG-12", "ENG-40", "ENG-41", "ENG-46")
async def test_what_is_said_while_a_tool_runs_comes_after_its_result_and_before_the_next_call(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    model = ScriptedProvider().call("wait", seconds=10).text("ok")
    async with engine(model, tools=WAITING) as it:
        events = told(it)
        it.subscribe(lambda event: it.steer("hurry") if event.type == "tool_execution_start" else None)
        await it.run("go")
    assert (said_to(model, 0), said_to(model, 1)) == (["go"], ["go", "hurry"])
    assert list(model.requests[1].messages)[-1] == {"role": "user", "content": "hurry"}
    at = events.index("message_start user", 2)
    assert events[at - 1 : at + 3] == ["turn_end", "message_start user", "message_end user hurry", "turn_start"]


@pytest.mark.covers("ENG-41")
async def test_even_what_is_said_at_the_end_of_a_turn_is_in_the_next(autojump_clock: Any, engine: Any) -> None:
    model = ScriptedProvider().call("look", at="cat").text("ok").text("and")
    async with engine(model, tools=[look]) as it:
        it.subscribe(lambda event: it.steer("hm") if event.type == "turn_end" and len(model.requests) < 3 else None)
        await it.run("go")
    assert [said_to(model, n) for n in range(2)] == [["go"], ["go", "hm"]]


@pytest.mark.covers("ENG-13", "ENG-42")
async def test_a_follow_up_waits_until_the_model_stops(autojump_clock: Any, engine: Any) -> None:
    model = ScriptedProvider().call("look", at="cat").call("look", at="dog").text("ok").text("more")
    async with engine(model, tools=[look]) as it:
        it.follow_up("and?")
        await it.run("go")
    assert ["and?" in said_to(model, n) for n in range(4)] == [False, False, False, True]


QUEUED = ["one", "two", "three"]


@pytest.mark.covers("ENG-43", "ENG-44", "ENG-45", "AURA-04")
@pytest.mark.parametrize("steering", ["one_at_a_time", "all"])
@pytest.mark.parametrize("followup", ["one_at_a_time", "all"])
async def test_each_queue_is_said_in_its_own_mode(
    autojump_clock: Any, engine: Any, steering: str, followup: str
) -> None:
    model = ScriptedProvider().text("ok").forever()
    modes = {"steering_mode": QueueMode(steering), "followup_mode": QueueMode(followup)}
    async with engine(model, **modes) as it:
        for word in QUEUED:
            it.steer(f"s {word}")
            it.follow_up(f"f {word}")
        await it.run("go")
    new = [said_to(model, n)[len(said_to(model, n - 1)) + 1 if n else 0 :] for n in range(len(model.requests))]
    s, f = [f"s {word}" for word in QUEUED], [f"f {word}" for word in QUEUED]
    steered = [["go", *s]] if steering == "all" else [["go", s[0]], [s[1]], [s[2]]]
    assert new == [*steered, *([f] if followup == "all" else [[one] for one in f])]


@pytest.mark.covers("ENG-47")
async def test_what_was_cleared_is_never_said(autojump_clock: Any, engine: Any) -> None:
    model = ScriptedProvider().text("ok").forever()
    async with engine(model) as it:
        it.steer("s")
        it.follow_up("f")
        it.clear_steering()
        await it.run("one")
        assert [said_to(model, n)[-1] for n in range(len(model.requests))] == ["one", "f"]
        it.steer("s")
        it.follow_up("f")
        it.clear_follow_up()
        await it.run("two")
        it.steer("s")
        it.follow_up("f")
        it.clear_all_queues()
        await it.run("three")
    assert said_to(model, -1) == ["one", "ok", "f", "ok", "two", "s", "ok", "three"]


@pytest.mark.covers("ENG-48")
async def test_messages_may_be_pulled_where_queues_are_drained(autojump_clock: Any, engine: Any) -> None:
    steering, follow_ups = iter([[], ["s"]]), iter([["f"]])
    model = ScriptedProvider().call("look", at="cat").text("ok").text("more")
    pull = {
        "get_steering_messages": lambda: next(steering, []),
        "get_follow_up_messages": lambda: next(follow_ups, []),
    }
    async with engine(model, tools=[look], **pull) as it:
        await it.run("go")
    assert [said_to(model, n) for n in range(3)] == [["go"], ["go", "s"], ["go", "s", "ok", "f"]]


# --- stopping ---------------------------------------------------------------------------------


@pytest.mark.covers("ENG-49")
async def test_an_abort_lets_the_tool_finish_and_asks_the_model_no_more(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    model = ScriptedProvider().call("wait", seconds=10).text("never")
    async with engine(model, tools=WAITING) as it:
        events = told(it)
        it.subscribe(lambda event: it.abort() if event.type == "tool_execution_start" else None)
        ended = await it.run("go")
    assert (ended.stop, len(model.requests), it.messages[-1].text) == ("cancelled", 1, "10")
    assert [event.split()[0] for event in events[-3:]] == ["agent_error", "turn_end", "agent_end"]
    assert it.signal.is_set()


@pytest.mark.covers("ENG-50")
async def test_a_cancel_ends_a_silent_model_at_once_and_the_conversation_stays_valid(
    autojump_clock: Any, engine: Any, problems_of: Any
) -> None:
    model = ScriptedProvider().calls(("wait", {"seconds": 100}), ("look", {"at": "cat"})).hang().text("ok")
    async with engine(model, tools=[look, *WAITING]) as it:
        async with trio.open_nursery() as nursery:

            async def cancel_in_a_moment() -> None:
                await trio.sleep(1)
                await it.cancel()

            nursery.start_soon(cancel_in_a_moment)
            assert await seconds_of(it) == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_in_a_moment)
            await it.run("again")
        assert model.streaming_now == 0
        await it.run("well?")
    assert it.messages[-1].text == "ok"
    assert problems_of(list(model.requests[-1].messages)) == []


async def test_a_limit_on_steps_ends_a_run_as_ever_and_what_is_queued_waits(autojump_clock: Any, engine: Any) -> None:
    config = AgentConfig(max_steps=1)
    model = ScriptedProvider().text("ok").forever()
    async with engine(model, config=config) as it:
        assert (await it.run("go")).stop == "end_turn"
        it.follow_up("more")
        assert (await it.run("go")).stop == "max_steps"
        assert [one.content for one in it.state.follow_up_queue] == ["more"]


# --- agents -----------------------------------------------------------------------------------


@pytest.mark.covers("ENG-56")
async def test_an_agent_with_options_runs_by_them(autojump_clock: Any, tmp_path: Any) -> None:
    kinds: list[str] = []
    options = Options(
        on_event=lambda event: kinds.append(event.type),
        get_ephemeral_messages=lambda: ["the time is 12:00"],
        before_tool_call=lambda call, signal: ToolOutcome("a cat, perhaps"),
        should_stop_after_turn=lambda done: len(done.messages) > 3,
    )
    model = ScriptedProvider().call("look", at="cat").call("look", at="dog").text("never")
    agent = Agent(provider=model, registry=ToolRegistry([look]), cwd=tmp_path, home=tmp_path, options=options)
    session = await agent.run("go")
    assert (session.state, len(model.requests)) == ("completed", 2)
    assert [said_to(model, n) for n in range(2)] == [["go", "the time is 12:00"]] * 2
    assert (kinds[0], kinds[-1], kinds.count("turn_end")) == ("agent_start", "agent_end", 2)
    assert [fact.output for fact in session.events if fact.type == "tool_result"] == ["a cat, perhaps"] * 2
    model.text("more")
    await agent.run("again", session)
    assert said_to(model, 2)[:2] == ["go", "again"]


async def test_an_agent_whose_run_is_cancelled_tells_the_engines_subscribers_of_the_end(
    autojump_clock: Any, tmp_path: Any
) -> None:
    kinds: list[str] = []
    options = Options(on_event=lambda event: kinds.append(event.type))
    async with Agent(provider=ScriptedProvider().hang(), cwd=tmp_path, home=tmp_path, options=options) as agent:
        with trio.move_on_after(1):
            await agent.run("go")
    assert kinds == [
        *("agent_start", "message_start", "message_end", "turn_start"),
        *("agent_error", "turn_end", "agent_end"),
    ]


# --- more of the session ----------------------------------------------------------------------


async def test_the_state_follows_the_model_the_prompt_and_the_tools_in_force(
    autojump_clock: Any, tmp_path: Any
) -> None:
    config = AgentConfig(provider=ProviderConfig(name="generic", model="m", base_url="http://127.0.0.1:9/v1"))
    async with (
        open_runtime(
            config, home=tmp_path, build_provider=lambda _: ScriptedProvider().text("ok").forever()
        ) as runtime,
        open_engine(runtime, tmp_path) as it,
    ):
        assert it.state.llm == "generic/m"
        session = await runtime.sessions.load(it.session_id)
        await session.configure({"provider": {"name": "ollama", "model": "n"}, "system_prompt": "Be brief."})
        await it.run("go")
        assert (it.state.llm, "Be brief." in it.state.system_prompt) == ("ollama/n", True)
        await it.set_thinking_level("low")
        patches = [record.event.patch for record in session.records() if record.event.type == "config_changed"]
        assert patches[-1] == {"provider": {"extra": {"think": "low"}}}


async def test_who_has_a_handle_on_the_session_answers_its_questions(autojump_clock: Any, tmp_path: Any) -> None:
    model = ScriptedProvider().call("write_file", path="a.txt", content="hi").text("ok")
    async with (
        open_runtime(AgentConfig(), provider=model, home=tmp_path / "home") as runtime,
        open_engine(runtime, tmp_path) as it,
    ):
        session = await runtime.sessions.load(it.session_id)
        async with session.attend(), trio.open_nursery() as nursery:

            async def approve() -> None:
                with session.follow(after=session.seq) as records:
                    async for record in records:
                        if record.event.type == "approval_requested":
                            await session.decide(record.event.tool_call_id, "allow")
                            break

            nursery.start_soon(approve)
            await it.run("go")
    assert (tmp_path / "a.txt").read_text() == "hi"


async def test_a_subscriber_that_hangs_does_not_keep_a_cancelled_run_for_long(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    async def hang(event: Any) -> None:
        if event.type == "message_update":
            await trio.sleep_forever()

    async with engine(ScriptedProvider().hang("hm")) as it:
        it.subscribe(hang)
        events = told(it)
        async with trio.open_nursery() as nursery:

            async def cancel_in_a_moment() -> None:
                await trio.sleep(1)
                await it.cancel()

            nursery.start_soon(cancel_in_a_moment)
            assert await seconds_of(it) == 6
    assert events[-1] == "agent_end"


@pytest.mark.covers("ENG-05")
async def test_a_run_whose_end_cannot_be_recorded_has_an_end_all_the_same(
    autojump_clock: Any, tmp_path: Any, told: Any
) -> None:
    full = StoreUnavailable("no space left")
    store = MemoryStore(faults=dict.fromkeys(range(3, 100), Fault(error=full)))
    model = ScriptedProvider().text("ok")
    async with (
        open_runtime(AgentConfig(), provider=model, store=store, home=tmp_path) as runtime,
        open_engine(runtime, tmp_path) as it,
    ):
        events = told(it)
        with pytest.raises(StoreUnavailable):
            await it.run("go")
    assert [event.split()[0] for event in events] == [
        *("agent_start", "message_start", "message_end", "turn_start"),
        *("agent_error", "turn_end", "agent_end"),
    ]


async def test_what_could_not_be_put_on_record_is_said_later(autojump_clock: Any, tmp_path: Any) -> None:
    store = MemoryStore(faults={3: Fault(error=StoreUnavailable("no space left"))})
    model = ScriptedProvider().text("ok").forever()
    async with (
        open_runtime(AgentConfig(), provider=model, store=store, home=tmp_path) as runtime,
        open_engine(runtime, tmp_path) as it,
    ):
        it.steer("listen")
        await it.run("go")
        assert it.state.error_message == "no space left"
        assert [one.content for one in it.state.steering_queue] == ["listen"]
        await it.run("again")
    assert said_to(model, -1) == ["go", "again", "listen"]
