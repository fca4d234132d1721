"""Cancelling a turn, at every moment of its life. However it ends, the conversation stays valid and goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
import trio.testing

from aar.errors import ProviderUnavailable
from aar.hooks import Hooks
from aar.messages.events import (
    AgentState,
    ApprovalRequested,
    Notice,
    PromptQueued,
    StreamChunk,
    ToolOutput,
    ToolResult,
    ToolStarted,
    TurnEnded,
    UserMessage,
)
from aar.messages.settings import AgentConfig
from aar.testing import Fault, MemoryStore, ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry

CANCELLED = ["error Agent cancelled", "turn_ended cancelled"]


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, "streaming": True, **fields})


@pytest.fixture
def goes_on(problems_of):
    """`await goes_on(session, provider)`: the history is valid and the session takes the next prompt."""

    async def check(session, provider) -> None:
        assert (await session.status()).state is AgentState.CANCELLED
        assert session.snapshot().open_calls == {}
        assert problems_of(session.snapshot().to_messages()) == []
        provider.text("I am here")
        with trio.fail_after(10):
            assert (await session.prompt("are you there?")).stop == "end_turn"
        assert problems_of(list(provider.requests[-1].messages)) == []

    return check


async def cancelled(session, when, *, turn_id=None) -> TurnEnded:
    """Prompt, wait for `when()`, cancel, and answer with how the prompt ended."""
    async with session.running("go") as (_, ended):
        await when()
        await session.cancel(turn_id)
        with trio.fail_after(10):
            return await ended()


async def a_second() -> None:
    await trio.sleep(1)


# --- at every moment --------------------------------------------------------------------------


async def test_cancelled_before_its_first_fact(live, story, goes_on) -> None:
    provider = ScriptedProvider()
    async with live(provider, settings()) as session:
        ended = await cancelled(session, trio.lowlevel.cancel_shielded_checkpoint)
        assert ended.stop == "cancelled"
        assert story(session) == ["turn_started", "prompt: go", *CANCELLED]
        await goes_on(session, provider)
    assert len(provider.requests) == 1


async def test_cancelled_while_its_first_fact_is_being_written(live, story, goes_on, autojump_clock) -> None:
    provider = ScriptedProvider()
    async with live(provider, settings(), store=MemoryStore(faults={2: Fault(delay=5)})) as session:
        ended = await cancelled(session, a_second)
        assert ended.stop == "cancelled"
        assert story(session) == ["turn_started", "prompt: go", *CANCELLED]
        await goes_on(session, provider)
    assert len(provider.requests) == 1


async def test_rules_that_are_a_pipe_keep_no_turn_waiting(live, story, tmp_path) -> None:
    rules = tmp_path / "project" / ".agent" / "rules.md"
    rules.parent.mkdir(parents=True)
    os.mkfifo(rules)
    async with live(ScriptedProvider().text("hi"), settings()) as session:
        with trio.fail_after(10):
            assert (await session.prompt("go")).stop == "end_turn"
        assert story(session)[-2:] == ["assistant end_turn: hi", "turn_ended end_turn"]


async def _quiet(waiting) -> None:
    await waiting
    await trio.testing.wait_all_tasks_blocked()


async def _two_are_done(session) -> None:
    """The first result is on record, and the third call says that it is finished and waits."""
    missing = {"result", "finished"}
    with session.follow(pace=100) as records:
        async for record in records:
            if isinstance(record.event, ToolResult):
                missing.discard("result")
            elif isinstance(record.event, ToolOutput) and record.event.finished:
                missing.discard("finished")
            if not missing:
                return


async def test_cancelled_before_the_first_byte(live, story, goes_on) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider, settings()) as session:
        ended = await cancelled(session, lambda: provider.reached(1))
        assert ended.stop == "cancelled"
        assert story(session) == ["turn_started", "prompt: go", *CANCELLED]
        assert provider.streaming_now == 0
        await goes_on(session, provider)


@pytest.mark.covers("AURA-03")
async def test_cancelled_in_the_middle_of_an_answer(live, story, until, goes_on) -> None:
    provider = ScriptedProvider().hang("so far so ")
    async with live(provider, settings()) as session:
        ended = await cancelled(session, lambda: until(session, StreamChunk))
        assert ended.stop == "cancelled"
        assert story(session)[2:] == ["assistant cancelled: so far so  (partial)", *CANCELLED]
        assert provider.streaming_now == 0
        await goes_on(session, provider)


@pytest.mark.covers("EV-16")
async def test_a_cancelled_stream_is_finished_once(live, until) -> None:
    provider = ScriptedProvider().hang("so far")
    async with live(provider, settings()) as session:
        with session.follow(after=1, pace=100) as records:
            await cancelled(session, lambda: until(session, StreamChunk))
            chunks = []
            async for _, _, event in records:
                if isinstance(event, StreamChunk):
                    chunks.append((event.text, event.finished))
                if isinstance(event, TurnEnded):
                    break
    assert chunks == [("so far", False), ("", True)]


@pytest.mark.covers("LOOP-12", "AURA-53")
@pytest.mark.parametrize("after_step", [True, False])
async def test_cancelled_while_it_waits_to_try_again(live, story, until, goes_on, autojump_clock, after_step) -> None:
    provider = ScriptedProvider().error(ProviderUnavailable("down", retry_after=50))
    async with live(provider, settings()) as session:
        async with session.running("go") as (_, ended):
            await until(session, Notice)
            started = trio.current_time()
            await session.cancel(after_step=after_step)
            assert (await ended()).stop == "cancelled"
            assert trio.current_time() - started < 0.1
        assert story(session)[2:] == ["notice retry", *CANCELLED]
        assert len(provider.requests) == 1
        await goes_on(session, provider)


async def test_cancelled_while_a_question_waits_for_its_answer(live, story, until, goes_on) -> None:
    provider = ScriptedProvider().calls(("bash", {"command": "touch here"}), ("bash", {"command": "touch there"}))
    async with live(provider) as session, session.attend():
        ended = await cancelled(session, lambda: until(session, ApprovalRequested))
        assert ended.stop == "cancelled"
        told = story(session)
        assert told[3:6] == ["tool_call call_1 bash", "tool_call call_2 bash", "assistant tool_use: "]
        assert [line for line in told if line.startswith("tool_result")] == [
            f"tool_result call_{number} failed: The turn was cancelled before this tool call was finished."
            for number in (1, 2)
        ]
        asked = [event for event in facts_of(session) if isinstance(event, ApprovalRequested)]
        assert len(asked) == 1
        assert await session.decide(asked[0].tool_call_id, "allow") is False  # the question is withdrawn
        assert os.listdir(session.cwd) == []
        await goes_on(session, provider)


@pytest.mark.covers("LOOP-11")
async def test_cancelled_while_a_command_with_children_runs(live, until, goes_on, tmp_path) -> None:
    command = "sleep 1000 & echo $! >pids; setsid sleep 1000 & echo $! >>pids; echo $$ >>pids; echo ready; wait"
    provider = ScriptedProvider().call("bash", command=command)
    config = AgentConfig(safety={"require_approval_for_execute": False, "allowed_paths": []})
    async with live(provider, config) as session:
        ended = await cancelled(session, lambda: until(session, ToolOutput))
        pids = [int(line) for line in (tmp_path / "project" / "pids").read_text().split()]
        assert len(pids) == 3
        assert [pid for pid in pids if _is_alive(pid)] == []
        assert ended.stop == "cancelled"
        (result,) = [event for event in facts_of(session) if isinstance(event, ToolResult)]
        assert result.output == "ready\nThe turn was cancelled before this tool call was finished."
        assert result.is_error
        await goes_on(session, provider)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_cancelled_between_results_keeps_those_that_are_there(live, story, until, goes_on) -> None:
    tools = ToolRegistry()

    @tools.register("quick")
    async def quick(text: str) -> str:
        return text

    @tools.register("stuck")
    async def stuck() -> None:
        await trio.sleep_forever()

    provider = ScriptedProvider().calls(("quick", {"text": "one"}), ("stuck", {}), ("quick", {"text": "three"}))
    async with live(provider, settings(), tools=tools) as session:
        ended = await cancelled(session, lambda: _two_are_done(session))
        assert ended.stop == "cancelled"
        assert [line for line in story(session) if line.startswith("tool_result")] == [
            "tool_result call_1 ok: one",
            "tool_result call_2 failed: The turn was cancelled before this tool call was finished.",
            "tool_result call_3 ok: three",
        ]
        await goes_on(session, provider)


async def test_cancelled_at_its_very_end_it_has_ended_already(live, story, autojump_clock) -> None:
    provider = ScriptedProvider().text("done").text("next")
    store = MemoryStore(faults={4: Fault(delay=5)})  # the write of turn_ended
    async with live(provider, settings(), store=store) as session:
        ended = await cancelled(session, a_second)
        assert ended.stop == "end_turn"
        assert story(session)[-2:] == ["assistant end_turn: done", "turn_ended end_turn"]
        assert (await session.prompt("again")).stop == "end_turn"


async def test_cancelled_while_it_writes_what_the_model_said_the_answer_is_kept(live, story, autojump_clock) -> None:
    provider = ScriptedProvider().text("done")
    async with live(provider, settings(), store=MemoryStore(faults={3: Fault(delay=5)})) as session:
        ended = await cancelled(session, a_second)
        assert story(session)[3] == "assistant end_turn: done"
        assert len([line for line in story(session) if line.startswith("assistant")]) == 1
        assert story(session)[-1] == f"turn_ended {ended.stop}"


# --- how often, and whom ----------------------------------------------------------------------


async def test_cancelling_twice_is_cancelling_once(live, story, goes_on) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider, settings()) as session:
        async with session.running("go") as (turn_id, ended):
            await provider.reached(1)
            await session.cancel()
            await session.cancel(turn_id)
            await session.cancel(after_step=True)
            await ended()
        assert story(session)[2:] == CANCELLED
        await goes_on(session, provider)


async def test_a_late_cancel_cannot_hit_the_next_turn(live, story) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("one").text("two").after(gate)
    async with live(provider, settings()) as session:
        async with session.running("first") as (first, ended):
            await ended()
        async with session.running("second") as (_, ended):
            await provider.reached(2)
            await session.cancel(first)
            await session.cancel("000000000000")
            await session.status()  # the cancels were dealt with
            gate.set()
            assert (await ended()).stop == "end_turn"


async def test_cancelling_nothing_does_nothing(live, story) -> None:
    async with live(ScriptedProvider().text("x"), settings()) as session:
        await session.cancel()
        await session.cancel(after_step=True)
        await session.status()
        assert story(session) == []
        assert (await session.prompt("go")).stop == "end_turn"


async def test_a_prompt_that_waits_is_cancelled_by_its_id(live, story, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("one").after(gate).text("three")
    async with live(provider, settings()) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "first")
        await provider.reached(1)
        async with session.running("second") as (second, ended):
            nursery.start_soon(session.prompt, "third")
            await until(session, PromptQueued, times=2)
            await session.cancel(second)
            answer = await ended()
            assert (answer.stop, answer.data["never_ran"]) == ("cancelled", True)
        assert [item.content for item in (await session.queue()).items] == ["third"]
        gate.set()
        await until(session, TurnEnded, times=2)
        assert [line for line in story(session) if line.startswith(("prompt", "assistant"))] == [
            "prompt: first",
            "prompt_queued second",
            "prompt_queued third",
            "prompts_cleared 1",
            "assistant end_turn: one",
            "prompt: third",
            "assistant end_turn: three",
        ]


# --- softly -----------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-09")
async def test_a_soft_cancel_lets_the_step_finish_and_starts_no_other(live, story, until) -> None:
    tools = ToolRegistry()
    gate = trio.Event()

    @tools.register("slow")
    async def slow() -> str:
        await gate.wait()
        return "finished"

    provider = ScriptedProvider().call("slow")
    async with live(provider, settings(), tools=tools) as session:
        async with session.running("go") as (_, ended):
            await until(session, ToolStarted)
            await session.cancel(after_step=True)
            await session.status()
            gate.set()
            assert (await ended()).stop == "cancelled"
        assert story(session)[-3:] == ["tool_result call_1 ok: finished", *CANCELLED]
    assert len(provider.requests) == 1


@pytest.mark.covers("LOOP-08")
async def test_a_soft_cancel_before_the_first_step_asks_no_model(live, story) -> None:
    provider, heard = ScriptedProvider(), trio.Event()

    async def listen(said: UserMessage) -> None:
        await heard.wait()

    async with live(provider, settings(), hooks=Hooks(before_user_message=(listen,))) as session:
        async with session.running("go") as (turn_id, ended):
            await session.cancel(turn_id, after_step=True)
            await session.status()  # by now it has arrived
            heard.set()
            assert (await ended()).stop == "cancelled"
        assert story(session) == ["turn_started", "prompt: go", *CANCELLED]
    assert provider.requests == []


async def test_a_hard_cancel_overtakes_a_soft_one(live, story) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider, settings()) as session:
        async with session.running("go") as (_, ended):
            await provider.reached(1)
            await session.cancel(after_step=True)
            await session.cancel()
            assert (await ended()).stop == "cancelled"
        assert story(session)[2:] == CANCELLED


# --- by leaving -------------------------------------------------------------------------------


async def test_who_owns_a_turn_and_leaves_has_cancelled_it_on_leaving(live, story, goes_on) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider, settings()) as session:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "go")
                await provider.reached(1)
                scope.cancel()
        assert story(session)[2:] == CANCELLED
        await goes_on(session, provider)


async def test_who_only_prompts_and_leaves_leaves_the_turn_running(live, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("for whoever watches").after(gate)
    async with live(provider, settings()) as session:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.prompt, "go")
                await provider.reached(1)
                scope.cancel()
        gate.set()
        assert (await until(session, TurnEnded)).event.stop == "end_turn"


async def test_a_turn_that_ended_by_itself_is_not_cancelled_by_its_owner(live) -> None:
    async with live(ScriptedProvider().text("x"), settings()) as session:
        async with session.running("go") as (_, ended):
            await ended()
        mailbox = session._ref.statistics()
        assert mailbox.waiting == 0


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_hundred_cancels_leave_nothing_behind(live, streaming) -> None:
    provider = ScriptedProvider().hang("text").forever()
    async with live(provider, settings(streaming=streaming)) as session:
        for number in range(1, 101):
            assert (await cancelled(session, lambda count=number: provider.reached(count))).stop == "cancelled"
        tasks = trio.lowlevel.current_statistics().tasks_living
        await cancelled(session, lambda: provider.reached(101))
        assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert provider.streaming_now == 0
