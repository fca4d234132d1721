"""What subscribers of an engine are told, and in what order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import trio

from aar import tool
from aar.engine import EVENT_KINDS, EngineEvent, EngineEvents
from aar.errors import ProviderUnavailable
from aar.messages.events import TurnEnded
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider


@tool
async def look(at: str) -> str:
    return f"a {at}"


@tool
async def wait(seconds: float) -> str:
    await trio.sleep(seconds)
    return f"{seconds:g}"


@pytest.mark.covers("ENG-05", "ENG-10", "ENG-19", "ENG-52")
async def test_a_plain_answer_is_told_piece_by_piece_within_its_frame(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    async with engine(ScriptedProvider().text("abc", chunks=3, delay=0.1)) as it:
        events = told(it)
        await it.run("go")
    assert events == [
        "agent_start",
        "message_start user",
        "message_end user go",
        "turn_start",
        "message_start assistant",
        "message_update text a",
        "message_update text b",
        "message_update text c",
        "message_end assistant abc",
        "turn_end",
        "agent_end",
    ]


@pytest.mark.covers("ENG-10", "ENG-20")
async def test_thoughts_are_updates_of_their_own_kind(autojump_clock: Any, engine: Any, told: Any) -> None:
    async with engine(ScriptedProvider().text("So.", delay=0.1).reasoning("hm")) as it:
        events = told(it)
        await it.run("go")
    assert events[3:-1] == [
        "turn_start",
        "message_start assistant",
        "message_update thinking hm",
        "message_update text So.",
        "message_end assistant So.",
        "turn_end",
    ]
    assert (it.messages[-1].thinking, it.messages[-1].text) == ("hm", "So.")


@pytest.mark.covers("ENG-02", "ENG-10", "ENG-12", "ENG-22", "ENG-33", "ENG-36", "ENG-51", "ENG-52")
async def test_a_turn_with_two_tools_is_told_to_its_end_before_the_next_begins(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    model = ScriptedProvider().calls(("look", {"at": "cat"}), ("look", {"at": "dog"})).text("Two.")
    async with engine(model, tools=[look], config=AgentConfig()) as it:
        events = told(it)
        await it.run("go")
    assert events == [
        "agent_start",
        "message_start user",
        "message_end user go",
        "turn_start",
        "message_start assistant",
        "message_end assistant",
        "tool_execution_start call_1",
        "tool_execution_end call_1 a cat",
        "message_start tool_result",
        "message_end tool_result a cat",
        "tool_execution_start call_2",
        "tool_execution_end call_2 a dog",
        "message_start tool_result",
        "message_end tool_result a dog",
        "turn_end",
        "turn_start",
        "message_start assistant",
        "message_end assistant Two.",
        "turn_end",
        "agent_end",
    ]
    assert [message.role for message in it.messages] == ["user", "assistant", "tool_result", "tool_result", "assistant"]
    assert [call.arguments["at"] for call in it.messages[1].tool_calls] == ["cat", "dog"]
    assert {event.split()[0] for event in events} <= set(EVENT_KINDS)
    assert len(EVENT_KINDS) == 11


@pytest.mark.covers("ENG-02")
async def test_messages_only_grow_and_stay_the_same_objects(autojump_clock: Any, engine: Any) -> None:
    seen: list[list[Any]] = []
    two = (("look", {"at": "cat"}), ("look", {"at": "dog"}))
    model = ScriptedProvider().calls(*two).calls(*two).text("Two.")
    async with engine(model, tools=[look], on_event=lambda event: seen.append(list(it.messages))) as it:
        await it.run("go")
    for earlier, later in pairwise(seen):
        assert [id(message) for message in earlier] == [id(message) for message in later[: len(earlier)]]
    results = ["tool_result", "tool_result"]
    roles = [message.role for message in it.messages]
    assert roles == ["user", "assistant", *results, "assistant", *results, "assistant"]


@pytest.mark.covers("ENG-11", "ENG-23", "ENG-25")
async def test_an_answer_that_fails_keeps_its_text_and_says_why(autojump_clock: Any, engine: Any, told: Any) -> None:
    model = ScriptedProvider().error(ProviderUnavailable("away", provider="scripted"), after="Half an")
    async with engine(model) as it:
        events = told(it)
        ended = await it.run("go")
    assert [event.split()[0] for event in events[3:]] == [
        "turn_start",
        "message_start",
        "message_update",
        "message_end",
        "agent_error",
        "turn_end",
        "agent_end",
    ]
    assert (ended.stop, len(model.requests)) == ("error", 1)
    cut = it.messages[-1]
    assert (cut.text, cut.stop_reason) == ("Half an", "error")
    assert cut.error
    assert cut.error == it.state.error_message


@pytest.mark.covers("ENG-24")
async def test_a_message_carries_what_it_cost_and_why_it_ended(autojump_clock: Any, engine: Any) -> None:
    async with engine(ScriptedProvider().text("Hi.").usage(7, 3)) as it:
        await it.run("go")
    assert (it.messages[-1].usage[:2], it.messages[-1].stop_reason) == ((7, 3), "end_turn")


@pytest.mark.covers("ENG-35")
async def test_what_a_tool_reports_is_told_before_it_ends(autojump_clock: Any, engine: Any, told: Any) -> None:
    @tool
    async def count(ctx: Any) -> str:
        for number in range(5):
            ctx.report(f"{number}")
            await trio.sleep(0.1)
        return "done"

    async with engine(ScriptedProvider().call("count").text("ok"), tools=[count]) as it:
        events = told(it)
        await it.run("go")
    mine = [event for event in events if event.startswith("tool_")]
    updates = [f"tool_execution_update call_1 {number}" for number in range(5)]
    assert mine == ["tool_execution_start call_1", *updates, "tool_execution_end call_1 done"]


# --- subscribers ------------------------------------------------------------------------------


@pytest.mark.covers("ENG-53")
async def test_subscribers_are_told_in_order_and_the_loop_waits_for_a_slow_one(
    autojump_clock: Any, engine: Any
) -> None:
    seen: list[tuple[str, int]] = []

    async def slow(event: EngineEvent) -> None:
        seen.append(("slow", id(event)))
        if event.type == "turn_end":
            await trio.sleep(20)  # longer than any hook may take

    model = ScriptedProvider().call("look", at="cat").text("One.")
    async with engine(model, tools=[look]) as it:
        it.subscribe(slow)
        it.subscribe(lambda event: seen.append(("quick", id(event))))
        started = trio.current_time()
        ended = await it.run("go")
        assert 40 <= trio.current_time() - started < 42
    assert ended.stop == "end_turn"
    assert [name for name, _ in seen] == ["slow", "quick"] * (len(seen) // 2)
    assert [event for _, event in seen[::2]] == [event for _, event in seen[1::2]]


@pytest.mark.covers("ENG-54")
async def test_a_subscriber_that_fails_costs_the_others_nothing_and_is_removed(
    autojump_clock: Any, engine: Any, told: Any
) -> None:
    failed: list[str] = []

    def fails(event: EngineEvent) -> None:
        failed.append(event.type)
        raise ValueError("no")

    async with engine(ScriptedProvider().text("Hi.")) as it:
        it.subscribe(fails)
        events = told(it)
        await it.run("go")
        notices = [record.event for record in it._session.records() if record.event.type == "notice"]
    assert len(failed) == 3
    assert len(events) == 9
    assert [notice.kind for notice in notices] == ["subscriber_removed"]


async def test_a_subscriber_can_be_taken_away(autojump_clock: Any, engine: Any) -> None:
    seen: list[str] = []
    async with engine(ScriptedProvider().text("Hi.").forever()) as it:
        leave = it.subscribe(lambda event: seen.append(event.type))
        await it.run("go")
        count = len(seen)
        leave()
        await it.run("go")
    assert len(seen) == count


@pytest.mark.covers("ENG-54")
async def test_any_session_can_be_read_as_events_at_the_readers_own_pace(
    autojump_clock: Any, live: Any, line: Callable[[EngineEvent], str], tmp_path: Any
) -> None:
    model = ScriptedProvider().call("look", at="cat").text("abcdef", chunks=6, delay=0.001)
    async with live(model, AgentConfig(streaming=True)) as session:
        events: list[str] = []
        with session.follow(after=session.seq) as records:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.prompt, "go")
                async for event in EngineEvents(records, known=session.records()):
                    events.append(line(event))
                    if event.type == "message_update":
                        await trio.sleep(1)  # nobody waits: what came meanwhile is one update
                    if event.type == "agent_end":
                        break
    kinds = [event.split()[0] for event in events]
    assert kinds[:3] == ["agent_start", "message_start", "message_end"]
    assert kinds.count("turn_start") == kinds.count("turn_end") == 2
    assert kinds[-3:] == ["message_end", "turn_end", "agent_end"]
    assert kinds.count("message_update") < 6


# --- every way out ----------------------------------------------------------------------------


async def _stop(it: Any) -> None:
    await it.run("go")


async def _abort(it: Any) -> None:
    it.subscribe(lambda event: it.abort() if event.type == "turn_start" else None)
    await it.run("go")


async def _cancel(it: Any) -> None:
    it.subscribe(lambda event: it.cancel() if event.type == "turn_start" else None)
    await it.run("go")


async def _leave(it: Any) -> None:
    with trio.move_on_after(1):
        await it.run("go")


def _looks() -> ScriptedProvider:
    return ScriptedProvider().call("look", at="cat").text("One.")


EXITS = {
    "stop": (_stop, _looks, {}),
    "error": (_stop, lambda: ScriptedProvider().error(ProviderUnavailable("away", provider="x")), {}),
    "abort": (_abort, _looks, {}),
    "cancel": (_cancel, lambda: ScriptedProvider().hang("hm"), {}),
    "callback": (_stop, _looks, {"should_stop_after_turn": lambda done: True}),
    "caller leaves": (_leave, lambda: ScriptedProvider().hang("hm"), {}),
}


@pytest.mark.covers("ENG-05")
@pytest.mark.parametrize("way", EXITS)
async def test_every_run_has_one_start_and_one_end_that_carries_the_messages(
    autojump_clock: Any, engine: Any, way: str
) -> None:
    leave, model, options = EXITS[way]
    events: list[EngineEvent] = []
    async with engine(model(), tools=[look], **options) as it:
        it.subscribe(events.append)
        with trio.fail_after(60):
            await leave(it)
        last = it._session.records()[-1].event
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("agent_start", "agent_end")
    assert (kinds.count("agent_start"), kinds.count("agent_end")) == (1, 1)
    assert kinds.count("turn_start") == kinds.count("turn_end")
    assert kinds.count("message_start") == kinds.count("message_end")
    assert list(events[-1].messages) == it.messages
    assert isinstance(last, TurnEnded)
    assert (it.state.is_streaming, it.state.streaming_message, it.state.pending_tool_calls) == (
        False,
        None,
        frozenset(),
    )
