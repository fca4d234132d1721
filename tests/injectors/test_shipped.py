"""The injectors that come with Aar, each by itself and switched on by the settings."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aar.errors import InvalidSetting
from aar.injectors.choosing import SHIPPED, chosen_injectors
from aar.injectors.forgetting import with_short_arguments, without_failed_calls
from aar.messages.events import ErrorEvent, ToolCall, ToolResult, UserMessage
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text="": text)
    registry.register("edit_file")(lambda path="", text="": text)

    @registry.register("fail")
    def fail(text: str = "") -> str:
        raise ValueError(text)

    return registry


def config(*builtins: str, **fields: Any) -> AgentConfig:
    steps = {"guardrails": {"max_repeated_tool_steps": 100}}
    return AgentConfig(**{"tools": {"enabled_builtins": list(builtins)}, **steps, **fields})


def with_(name: str, value: object = True, *builtins: str, **fields: Any) -> AgentConfig:
    return config(*builtins, injectors={name: value}, **fields)


def texts(request: Any) -> list[str]:
    return [one["content"] for one in request.messages if one["role"] == "user" and isinstance(one["content"], str)]


def errors(session: Any) -> list[str]:
    return [fact.message for fact in facts_of(session) if isinstance(fact, ErrorEvent)]


def count(session: Any, kind: type) -> int:
    return sum(isinstance(fact, kind) for fact in facts_of(session))


def todo(*statuses: str) -> dict[str, Any]:
    return {"items": [{"text": f"item {index}", "status": status} for index, status in enumerate(statuses, 1)]}


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.covers("AURA-94")
def test_nothing_is_on_without_a_word_and_each_is_switched_on_by_name() -> None:
    assert chosen_injectors({}) == []
    assert chosen_injectors(dict.fromkeys(SHIPPED, False)) == []
    assert chosen_injectors(dict.fromkeys(SHIPPED, True)) == [kind() for kind in SHIPPED.values()]
    assert chosen_injectors({"loop_detection": {"after": 5}})[0].after == 5


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"loop_detecton": True}, "injectors.loop_detecton: there is no such injector. Did you mean 'loop_detection'?"),
        ({"max_steps": "yes"}, "injectors.max_steps: must be true, false or an object, not 'yes'"),
        ({"max_steps": {"after": 1}}, "injectors.max_steps.after: there is no such setting. Known here: none."),
        ({"loop_detection": {"after": 0}}, "injectors.loop_detection.after: must be an integer, 1 or more"),
        ({"loop_detection": {"action": "no"}}, 'injectors.loop_detection.action: must be "stop" or "warn"'),
    ],
)
async def test_a_mistake_is_told_and_leaves_no_session_behind(live, said: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(why)):
        async with live(ScriptedProvider(), config(injectors=said)):
            raise AssertionError("it was opened")


# --- circles ----------------------------------------------------------------------------------


@pytest.mark.covers("AURA-94")
async def test_a_loop_of_identical_calls_is_stopped_at_the_count(live, tools) -> None:
    provider = ScriptedProvider().call("echo", text="other").call("echo", text="same").forever()
    async with live(provider, with_("loop_detection", {"after": 4}), tools=tools) as session:
        assert (await session.prompt("go")).stop == "error"
        assert count(session, ToolResult) == 5
        assert errors(session) == ["Stopped: echo was called 4 times with the same arguments."]


async def test_a_loop_may_also_only_be_told(live, tools) -> None:
    provider = ScriptedProvider().call("echo").call("echo").call("echo").text("done")
    async with live(provider, with_("loop_detection", {"action": "warn"}), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
    said = [texts(request)[1:] for request in provider.requests]
    assert said == [[], [], [], ["echo was called 3 times with the same arguments."]]


@pytest.mark.covers("AURA-94")
async def test_three_different_failures_stop_the_turn_and_a_call_that_goes_well_starts_anew(live, tools) -> None:
    provider = ScriptedProvider()
    for name, text in (("fail", "1"), ("fail", "2"), ("echo", "3"), ("fail", "4"), ("fail", "5"), ("fail", "6")):
        provider = provider.call(name, text=text)
    async with live(provider, with_("failure_breaker"), tools=tools) as session:
        assert (await session.prompt("go")).stop == "error"
        assert (count(session, ToolResult), errors(session)) == (6, ["Stopped: The last 3 tool calls have failed."])
    provider = ScriptedProvider().call("fail", text="1").call("fail", text="1").call("fail", text="1").text("done")
    async with live(provider, with_("failure_breaker"), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"


@pytest.mark.covers("AURA-94")
async def test_the_fifth_change_of_one_file_is_told(live, tools) -> None:
    provider = ScriptedProvider()
    for path in ("a", "a", "b", "a", "a", "a", "b"):
        provider = provider.call("edit_file", path=path)
    async with live(provider.text("done"), with_("repeated_patch"), tools=tools) as session:
        await session.prompt("go")
    said = [len(texts(request)) - 1 for request in provider.requests]
    assert said == [0, 0, 0, 0, 0, 0, 1, 0]
    assert texts(provider.requests[6])[1].startswith("a was changed 5 times in this turn.")


async def test_a_patch_changes_every_file_that_it_names(live, tools) -> None:
    tools.register("patch")(lambda patch: "patched")
    provider = ScriptedProvider()
    for number in range(5):
        provider = provider.call("patch", patch=f"*** Update File: a\n*** Add File: b{number}\n*** Delete File: c")
    async with live(provider.text("done"), with_("repeated_patch"), tools=tools) as session:
        await session.prompt("go")
    assert [len(texts(request)) - 1 for request in provider.requests] == [0, 0, 0, 0, 0, 1]
    assert texts(provider.requests[5])[1].startswith("a was changed 5 times in this turn.")


# --- reminders --------------------------------------------------------------------------------


@pytest.mark.covers("AURA-94", "AURA-12")
async def test_the_turn_goes_on_until_the_list_is_done(live) -> None:
    provider = ScriptedProvider().call("todo", **todo("done", "pending", "pending")).text("I stop here.")
    provider = provider.call("todo", **todo("done", "done", "in_progress")).text("And here.")
    provider = provider.call("todo", **todo("done", "done", "done")).text("All done.")
    async with live(provider, with_("todo_not_finished", True, "todo")) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        said = [fact.content for fact in facts_of(session) if isinstance(fact, UserMessage)]
    assert len(provider.requests) == 6
    assert said == [
        "go",
        "Not all is done. Go on, or take off what is not needed:\n[ ] item 2\n[ ] item 3",
        "Not all is done. Go on, or take off what is not needed:\n[~] item 3",
    ]


async def test_a_model_that_will_not_go_on_is_told_so_often_and_then_left(live) -> None:
    provider = ScriptedProvider().call("todo", **todo("pending")).text("No.").forever()
    async with live(provider, with_("todo_not_finished", {"most": 2}, "todo")) as session:
        assert (await session.prompt("go")).stop == "end_turn"
    assert len(provider.requests) == 4


@pytest.mark.covers("AURA-94")
async def test_the_list_is_shown_every_so_many_steps_for_one_call(live, tools) -> None:
    provider = ScriptedProvider().call("todo", **todo("pending", "done"))
    for _ in range(4):
        provider = provider.call("echo")
    async with live(provider.text("done"), with_("todo_reminder", {"every": 2}, "todo"), tools=tools) as session:
        await session.prompt("go")
    said = [texts(request)[1:] for request in provider.requests]
    reminder = ["Still to be done:\n[ ] item 1"]
    assert said == [[], reminder, [], reminder, [], reminder]


@pytest.mark.covers("AURA-94", "AURA-10")
async def test_behind_the_last_step_there_is_one_without_tools(live, tools) -> None:
    provider = ScriptedProvider().call("echo").forever()
    async with live(provider, with_("max_steps", max_steps=50), tools=tools) as session:
        assert (await session.prompt("go")).stop == "max_steps"
        assert errors(session) == ["Reached max steps (50)"]
        blocked = [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult) and fact.is_error]
    assert [request.tools is None for request in provider.requests] == [False] * 50 + [True]
    assert texts(provider.requests[50])[-1].startswith("No more steps are left")
    assert blocked == ["Error [blocked]: tool 'echo' was not offered in this step"]
    provider = ScriptedProvider().call("echo").text("That is how far I came.")
    async with live(provider, with_("max_steps", max_steps=1), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert session.snapshot().last_text() == "That is how far I came."


@pytest.mark.covers("AURA-94")
async def test_an_empty_answer_is_not_taken_for_the_end(live) -> None:
    provider = ScriptedProvider().text("").text("Here I am.")
    async with live(provider, with_("empty_response")) as session:
        await session.prompt("go")
        assert session.snapshot().last_text() == "Here I am."
    provider = ScriptedProvider().text("").forever()
    async with live(provider, with_("empty_response", {"most": 3})) as session:
        assert (await session.prompt("go")).stop == "end_turn"
    assert len(provider.requests) == 4


@pytest.mark.covers("AURA-94")
async def test_the_model_is_told_how_far_the_session_has_come(live, tools) -> None:
    provider = ScriptedProvider().call("echo", text="x" * 400).text("one").text("two").text("three")
    fields = {"context_window": 1000}
    async with live(provider, with_("session_stats", {"every": 2}, **fields), tools=tools) as session:
        for prompt in ("a", "b", "c"):
            await session.prompt(prompt)
    said = [texts(request)[-1] for request in provider.requests]
    assert said[:2] == ["a", "a"]
    assert said[2].startswith("This session so far: turn 2, 1 tool calls, about 20")
    assert said[2].endswith(" tokens of 1000 (20 %).")
    assert said[3] == "c"


# --- done -------------------------------------------------------------------------------------


@pytest.mark.covers("AURA-13")
async def test_a_turn_ends_with_the_step_in_which_the_model_says_that_it_is_done(live, tools) -> None:
    provider = ScriptedProvider().calls(("echo", {"text": "a"}), ("done", {"summary": "Greeted."}), ("echo", {}))
    async with live(provider, config("done"), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult)] == ["a", "Greeted.", ""]
    assert len(provider.requests) == 1


@pytest.mark.covers("AURA-94")
async def test_a_model_that_stops_without_done_is_reminded_once(live) -> None:
    provider = ScriptedProvider().text("I think that is all.").call("done")
    async with live(provider, with_("done_reminder", True, "done")) as session:
        await session.prompt("go")
    assert texts(provider.requests[1])[-1] == "If the task is finished, call `done`. If it is not, go on with it."
    provider = ScriptedProvider().text("No.").forever()
    for builtins, expected in ((["done"], 2), ([], 3)):
        async with live(provider, with_("done_reminder", True, *builtins)) as session:
            await session.prompt("go")
        assert len(provider.requests) == expected


# --- calls that were never made ---------------------------------------------------------------


@pytest.mark.covers("AURA-21")
async def test_a_call_that_could_not_be_made_is_shown_once_and_then_left_out_with_its_result(
    live, tools, problems_of
) -> None:
    provider = ScriptedProvider().call("nonsense").call("echo", raw="{").call("echo", text="fine")
    provider = provider.text("done").text("again")
    async with live(provider, with_("forget_failed_calls"), tools=tools) as session:
        await session.prompt("go")
        await session.prompt("on")
        assert count(session, ToolCall) == 3  # what is stored stays
    names = [
        [block["name"] for one in request.messages if isinstance(one["content"], list) for block in one["content"]
         if block["type"] == "tool_use"]
        for request in provider.requests
    ]  # fmt: skip
    assert names == [[], ["nonsense"], ["echo"], ["echo"], ["echo"]]
    assert [problems_of(request.messages) for request in provider.requests] == [[]] * 5


outcomes = st.sampled_from(["fine", "Error [blocked]: no", "Error [unknown_tool]: no", "Error [exception]: no"])
steps = st.lists(st.tuples(st.sampled_from(["", "said"]), st.lists(outcomes, max_size=3)), max_size=6)


@pytest.mark.covers("AURA-21")
@given(steps)
def test_what_is_left_of_any_conversation_is_valid(problems_of: Any, steps: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for step, (text, results) in enumerate(steps):
        blocks = [{"type": "reasoning", "text": "hm", "data": {}}] if results else []
        blocks += [{"type": "text", "text": text}] if text else []
        calls = [f"{step}.{index}" for index in range(len(results))]
        blocks += [{"type": "tool_use", "id": call, "name": "a", "input": {}} for call in calls]
        messages += [{"role": "assistant", "content": blocks}] if blocks else []
        if results:
            told = [
                {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": text != "fine"}
                for call, text in zip(calls, results, strict=True)
            ]
            messages.append({"role": "user", "content": told})
    left = without_failed_calls(messages)
    assert problems_of(messages) == []
    if left is not None:
        assert problems_of(left) == []
        assert all(one["content"] for one in left)
        assert without_failed_calls(left) is None
        last = max(at for at, one in enumerate(messages) if one["role"] == "assistant")
        assert left[-len(messages[last:]) :] == messages[last:]  # the newest ones are shown


@pytest.mark.covers("AURA-101")
async def test_long_arguments_of_old_calls_are_cut_and_the_newest_part_stays(live, tools) -> None:
    texts_of_calls = ["a" * 1000, "b" * 1000, "c" * 1000]
    provider = ScriptedProvider()
    for text in texts_of_calls:
        provider = provider.call("edit_file", path=text[0], text=text)
    said = {"longest": 10, "protect": 40}
    async with live(provider.text("done"), with_("forget_long_arguments", said), tools=tools) as session:
        await session.prompt("go")
        assert [fact.arguments["text"] for fact in facts_of(session) if isinstance(fact, ToolCall)] == texts_of_calls
    inputs = [
        block["input"]["text"]
        for one in provider.requests[-1].messages
        if isinstance(one["content"], list)
        for block in one["content"]
        if block["type"] == "tool_use"
    ]
    assert inputs == ["a" * 10 + "[...]", "b" * 10 + "[...]", "c" * 1000]


values = st.recursive(
    st.integers() | st.text(max_size=30), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@pytest.mark.covers("AURA-101")
@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.sampled_from("ab"), values), max_size=6), st.integers(1, 100))
def test_what_is_protected_is_untouched_and_nothing_gets_longer_but_by_its_mark(inputs: Any, protect: int) -> None:
    messages: list[Any] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": str(at), "name": "t", "input": one}]}
        for at, one in enumerate(inputs)
    ]
    short = with_short_arguments(messages, 5, protect)
    assert len(short) == len(messages)
    sizes = [len(str(one["content"])) for one in messages]
    for at, (before, after) in enumerate(zip(messages, short, strict=True)):
        if sum(sizes[at + 1 :]) < sum(sizes) * protect / 100:
            assert after == before
        assert [block["id"] for block in after["content"]] == [block["id"] for block in before["content"]]
