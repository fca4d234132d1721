"""What becomes of options, messages and tools of a wrong kind."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aar.driving import open_engine
from aar.engine import Engine, Options
from aar.errors import InvalidMessage
from aar.messages.events import Notice, UserMessage
from aar.messages.tools import ToolOutcome
from aar.testing import ScriptedProvider, open_test_runtime
from aar.tools.registry import tool


@tool
async def look(at: str) -> str:
    return f"a {at}"


def roles_and_texts(engine: Engine) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in engine.messages]


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(record.exc_info[1]) for record in caplog.records if record.exc_info]


def test_an_option_that_is_no_function_and_a_mode_there_is_none_of_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="on_event must be a function, not 5"):
        Options(on_event=5)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"steering_mode: 'some' is not a valid QueueMode\. Use one of: one_at.*, all$"
    ):
        Options(steering_mode="some")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"options must be Options\(\.\.\.\), not \{\}"):
        Engine({})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a subscriber must be a function, not 5"):
        Engine().subscribe(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [5, None, ["x"], {"role": "user", "content": "x"}])
def test_only_text_and_messages_can_be_said(given: Any) -> None:
    engine = Engine()
    for say in (engine.steer, engine.follow_up):
        with pytest.raises(TypeError, match="a message is text or a UserMessage, not "):
            say(given)
    assert (engine.state.steering_queue, engine.state.follow_up_queue) == ((), ())


@pytest.mark.parametrize("given", ["hey", UserMessage(content="hey"), ["hey"], ("hey",)])
async def test_one_message_may_be_given_where_several_are_asked_for(
    autojump_clock: Any, engine: Any, given: Any
) -> None:
    answers = iter([None, given])
    async with engine(ScriptedProvider().text("a").text("b"), get_follow_up_messages=lambda: next(answers, None)) as it:
        await it.run("go")
        await it.run("on")
    assert [text for role, text in roles_and_texts(it) if role == "user"] == ["go", "on", "hey"]


@pytest.mark.parametrize("given", [5, [5], [None], ["good", 5], {"role": "user"}])
@pytest.mark.parametrize("option", ["get_steering_messages", "get_follow_up_messages"])
async def test_what_cannot_be_said_is_logged_and_done_without(
    autojump_clock: Any, engine: Any, caplog: pytest.LogCaptureFixture, option: str, given: Any
) -> None:
    async with engine(ScriptedProvider().text("ok"), **{option: lambda: given}) as it:
        assert (await it.run("go")).stop == "end_turn"
        assert [record.event for record in it._session.records() if isinstance(record.event, Notice)] == []
    assert roles_and_texts(it) == [("user", "go"), ("assistant", "ok")]
    assert all("a message is text or a UserMessage, not" in one for one in complaints(caplog))
    assert complaints(caplog) != []


@pytest.mark.parametrize("given", ["no!", True, False, {"output": "no"}])
async def test_a_guard_that_gives_no_outcome_blocks_the_call(autojump_clock: Any, engine: Any, given: Any) -> None:
    model = ScriptedProvider().call("look", at="cat").text("ok")
    async with engine(model, tools=[look], before_tool_call=lambda call, signal: given) as it:
        assert (await it.run("go")).stop == "end_turn"
    [said] = [text for role, text in roles_and_texts(it) if role == "tool_result"]
    assert said.startswith("Error [blocked]: a check before this call failed (before_tool_call must give a ToolOutcome")


async def test_a_patch_that_is_no_outcome_leaves_the_result(
    autojump_clock: Any, engine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    model = ScriptedProvider().call("look", at="cat").text("ok")
    async with engine(model, tools=[look], after_tool_call=lambda call, outcome, signal: "a dog") as it:
        await it.run("go")
    assert ("tool_result", "a cat") in roles_and_texts(it)
    assert complaints(caplog) == ["after_tool_call must give a ToolOutcome or None, not 'a dog' (str)"]


@pytest.mark.parametrize("given", [None, "x", [5], {}])
async def test_a_context_that_is_no_list_of_messages_is_not_sent(autojump_clock: Any, engine: Any, given: Any) -> None:
    model = ScriptedProvider().text("ok")
    async with engine(model, transform_context=lambda messages: given) as it:
        await it.run("go")
        [notice] = [record.event for record in it._session.records() if isinstance(record.event, Notice)]
    assert [message["content"] for message in model.requests[0].messages] == ["go"]
    assert notice.text.startswith("A before_provider_call hook failed: transform_context must give a list of messages")


async def test_an_ephemeral_text_is_one_message(autojump_clock: Any, engine: Any) -> None:
    model = ScriptedProvider().text("ok")
    async with engine(model, get_ephemeral_messages=lambda: "a screen") as it:
        await it.run("go")
    assert [message["content"] for message in model.requests[0].messages] == ["go", "a screen"]


async def test_prompts_and_tools_of_a_wrong_kind_are_refused_with_what_is_wanted(
    autojump_clock: Any, engine: Any, tmp_path: Any
) -> None:
    async with engine(ScriptedProvider().text("ok")) as it:
        with pytest.raises(TypeError, match="a prompt is text or a list of content blocks, not 5"):
            await it.run(5)
        with pytest.raises(InvalidMessage, match="the prompt is empty"):
            await it.run(" ")
        assert (await it.run("go")).stop == "end_turn"
    async with open_test_runtime(ScriptedProvider(), home=tmp_path) as runtime:
        for tools, wanted in (
            ("bash", "of a registry"),
            (print, "of a registry"),
            (["bash"], "@tool"),
            ([print], "@tool"),
        ):
            with pytest.raises(TypeError, match=wanted):
                async with open_engine(runtime, tmp_path, tools=tools):  # type: ignore[arg-type]
                    pass
        assert (await runtime.sessions.list()).sessions == []


async def test_functions_may_be_plain_where_others_are_coroutines_and_the_other_way_round(
    autojump_clock: Any, engine: Any
) -> None:
    async def stops(done: Any) -> bool:
        return True

    async def patches(call: Any, outcome: ToolOutcome, signal: Any) -> ToolOutcome:
        return ToolOutcome("a dog")

    model = ScriptedProvider().call("look", at="cat")
    options = {
        "should_stop_after_turn": stops,
        "after_tool_call": patches,
        "before_tool_call": lambda call, signal: None,
    }
    async with engine(model, tools=[look], **options) as it:
        await it.run("go")
    assert roles_and_texts(it)[-1] == ("tool_result", "a dog")
