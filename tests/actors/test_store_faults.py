"""Stores that fail in the middle: whoever asked hears of it, nobody waits for ever, and the session goes on."""

from __future__ import annotations

import pytest
import trio

from aar.errors import ActorCrashed, SequenceConflict, StoreUnavailable
from aar.messages.events import PromptQueued, TurnEnded
from aar.messages.settings import AgentConfig
from aar.testing import Fault, MemoryStore, ScriptedProvider
from aar.tools.registry import ToolRegistry

FULL = StoreUnavailable("No space left on device")
TURN = range(2, 10)  # the appends of the turn below: the first one of the store opens the session


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text: text)
    registry.register("ask", side_effects=["write"])(lambda text: text)
    return registry


def scripted() -> ScriptedProvider:
    return ScriptedProvider().calls(("echo", {"text": "1"}), ("ask", {"text": "2"}), text="let me").text("done")


async def allow_everything(session) -> None:
    with session.follow(after=1) as records:
        async for record in records:
            if record.event.type == "approval_requested":
                await session.decide(record.event.tool_call_id, "allow")


async def test_the_turn_below_writes_as_often_as_the_next_test_lets_it_fail(live, tools) -> None:
    store = MemoryStore()
    async with live(scripted(), AgentConfig(streaming=True), tools=tools, store=store) as session:
        async with session.attend(), trio.open_nursery() as nursery:
            nursery.start_soon(allow_everything, session)
            assert (await session.prompt("go")).stop == "end_turn"
            nursery.cancel_scope.cancel()
        # Two results that come at the same moment are one write; on a busy machine they may come one after the other.
        assert TURN[-1] <= store._writes <= TURN[-1] + 1


@pytest.mark.parametrize("number", TURN)
async def test_a_write_that_fails_is_told_to_the_asker_and_the_session_goes_on(
    live, tools, problems_of, number
) -> None:
    provider = scripted()
    store = MemoryStore(faults={number: Fault(error=FULL)})
    async with live(provider, AgentConfig(streaming=True), tools=tools, store=store) as session:
        async with session.attend(), trio.open_nursery() as nursery:
            nursery.start_soon(allow_everything, session)
            with pytest.raises(StoreUnavailable, match="No space left"), trio.fail_after(10):
                await session.prompt("go")
            nursery.cancel_scope.cancel()
        assert problems_of(session.snapshot().to_messages()) == []
        provider._script.clear()
        provider.text("I am here")
        with trio.fail_after(10):
            assert (await session.prompt("are you there?")).stop == "end_turn"
        assert problems_of(list(provider.requests[-1].messages)) == []
        seqs = [record.seq for record in session.records()]
        assert seqs == list(range(1, len(seqs) + 1))
        stored = await store.load(session.session_id)
        assert stored.records == session.records()
        started = [record.event.type for record in stored.records if record.event.type.startswith("turn_")]
        assert started in (["turn_started", "turn_ended"], ["turn_started", "turn_ended"] * 2)


@pytest.mark.parametrize("number", TURN)
async def test_a_store_that_stays_broken_fails_every_prompt_and_hangs_none(live, tools, number) -> None:
    store = MemoryStore(faults=dict.fromkeys(range(number, 100), Fault(error=FULL)))
    async with live(scripted(), AgentConfig(streaming=True), tools=tools, store=store) as session:
        async with session.attend(), trio.open_nursery() as nursery:
            nursery.start_soon(allow_everything, session)
            for _ in range(3):
                with pytest.raises(StoreUnavailable), trio.fail_after(10):
                    await session.prompt("go")
            nursery.cancel_scope.cancel()
        with pytest.raises(StoreUnavailable):
            await session.configure({"max_steps": 3})
        assert (await session.status()).seq == session.seq


@pytest.mark.parametrize("number", range(4, 8))
async def test_calls_that_stand_side_by_side_fail_as_one(live, tools, number, autojump_clock) -> None:
    provider = ScriptedProvider().calls(*(("sleepy", {"seconds": n}) for n in (0, 0, 0, 1, 1, 2))).text("done")
    tools.register("sleepy")(trio.sleep)
    store = MemoryStore(faults=dict.fromkeys(range(number, 100), Fault(delay=0.5, error=FULL)))
    async with live(provider, AgentConfig(), tools=tools, store=store) as session:
        with pytest.raises(StoreUnavailable), trio.fail_after(30):
            await session.prompt("go")


async def test_a_store_that_does_not_answer_is_given_up_in_time(live, autojump_clock) -> None:
    store = MemoryStore(faults={3: Fault(delay=10_000)})
    async with live(ScriptedProvider().text("x").text("y"), AgentConfig(), store=store) as session:
        started = trio.current_time()
        with pytest.raises(StoreUnavailable, match="did not take a write within 30 s"):
            await session.prompt("go")
        assert 30 <= trio.current_time() - started < 31
        assert (await session.prompt("again")).stop == "end_turn"


async def test_a_slow_write_of_one_thing_does_not_leave_the_end_of_a_turn_unanswered(live, autojump_clock) -> None:
    gate = trio.Event()
    store = MemoryStore(faults={3: Fault(delay=20)})  # a prompt that has to wait
    provider = ScriptedProvider().text("x").after(gate).text("y")
    async with (
        live(provider, AgentConfig(), store=store) as session,
        trio.open_nursery() as nursery,
        session.running("go") as (_, ended),
    ):
        await provider.reached(1)
        nursery.start_soon(session.prompt, "second")
        await trio.sleep(1)
        gate.set()  # the turn wants to write while the store is still busy
        with trio.fail_after(60):
            assert (await ended()).stop == "end_turn"


async def test_the_end_of_a_turn_waits_for_a_busy_store(live, autojump_clock) -> None:
    store = MemoryStore(faults={3: Fault(delay=25)})
    provider = ScriptedProvider().hang().text("x").text("y")
    async with live(provider, AgentConfig(timeout=2), store=store) as session:
        async with trio.open_nursery() as nursery, session.running("go") as (_, ended):
            await provider.reached(1)
            nursery.start_soon(session.prompt, "second")
            with trio.fail_after(100):  # the deadline passes while the store is busy with the prompt that waits
                assert (await ended()).stop == "timed_out"
        assert (await session.prompt("third")).stop == "end_turn"
        assert session.snapshot().turn_id == ""


async def test_a_prompt_whose_waiting_cannot_be_recorded_is_refused(live) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("x").after(gate)
    store = MemoryStore(faults={3: Fault(error=FULL)})
    async with live(provider, AgentConfig(), store=store) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "first")
        await provider.reached(1)
        with pytest.raises(StoreUnavailable):
            await session.prompt("second")
        assert (await session.queue()).items == []
        gate.set()


async def test_a_waiting_prompt_is_answered_also_when_its_cancel_cannot_be_recorded(live, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("x").after(gate)
    store = MemoryStore(faults={4: Fault(error=FULL)})
    async with live(provider, AgentConfig(), store=store) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "first")
        await provider.reached(1)
        async with session.running("second") as (second, ended):
            await until(session, PromptQueued)
            await session.cancel(second)
            with pytest.raises(StoreUnavailable), trio.fail_after(5):
                await ended()
        gate.set()


async def test_waiting_prompts_are_answered_also_when_clearing_them_cannot_be_recorded(live, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("x").after(gate)
    store = MemoryStore(faults={4: Fault(error=FULL)})
    async with live(provider, AgentConfig(), store=store) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "first")
        await provider.reached(1)
        async with session.running("second") as (_, ended):
            await until(session, PromptQueued)
            with pytest.raises(StoreUnavailable):
                await session.clear_queue()
            with pytest.raises(StoreUnavailable), trio.fail_after(5):
                await ended()
        gate.set()


async def test_a_journal_that_somebody_else_has_written_is_not_written_any_more(live) -> None:
    store = MemoryStore(faults=dict.fromkeys(range(3, 50), Fault(error=SequenceConflict("somebody else"))))
    async with live(ScriptedProvider().text("x").forever(), AgentConfig(), store=store) as session:
        with pytest.raises(SequenceConflict):
            await session.prompt("go")


async def test_what_was_said_meanwhile_is_not_lost_when_it_cannot_be_recorded(live, tools) -> None:
    provider = ScriptedProvider().call("echo", text="1").text("one").text("two")
    store = MemoryStore(faults={3: Fault(error=FULL)})
    async with live(provider, AgentConfig(), tools=tools, store=store) as session:
        await session.steer("look left")
        with pytest.raises(StoreUnavailable):
            await session.prompt("go")
        await session.prompt("again")
        said = [message["content"] for message in provider.requests[-1].messages if message["role"] == "user"]
        assert "look left" in said


async def test_a_store_with_a_bug_ends_the_turn_and_not_the_session(live, story) -> None:
    store = MemoryStore(faults={3: Fault(error=KeyError("bug"))})
    async with live(ScriptedProvider().text("x").text("y"), AgentConfig(), store=store) as session:
        assert (await session.prompt("go")).stop == "error"
        assert story(session)[-2].startswith("error Internal error (KeyError)")
        assert (await session.prompt("again")).stop == "end_turn"


@pytest.mark.parametrize("number", [2, 4])
async def test_a_store_with_a_bug_where_no_wall_stands_restarts_the_session(live, until, number) -> None:
    store = MemoryStore(faults={number: Fault(error=KeyError("bug"))})
    async with live(ScriptedProvider().text("x").forever(), AgentConfig(), store=store) as session:
        with pytest.raises(ActorCrashed):
            await session.prompt("go")
        with trio.fail_after(5):
            assert (await session.prompt("again")).stop == "end_turn"
        assert session.snapshot().turn_id == ""
        assert [record.event.stop for record in session.records() if isinstance(record.event, TurnEnded)][-1:] == [
            "end_turn"
        ]
