"""The outbox of a step: what one call hands over is on record, whatever becomes of the others."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from aar.actors.outbox import Outbox
from aar.errors import StoreUnavailable
from aar.journal.journal import Journal
from aar.journal.state import Session
from aar.kernel.alone import errors_alone
from aar.messages.events import Notice, ToolOutput, ToolResult, ToolStarted
from aar.testing import Fault, MemoryStore


def journal_of(log) -> Journal:
    return Journal(log, Session("one"))


@pytest.mark.parametrize("again", range(10))  # who of the two comes first is left to chance
async def test_live_output_that_is_not_wanted_any_more_takes_no_facts_of_others_with_it(autojump_clock, again) -> None:
    """It may be the one that writes for all; its own call ends while it waits for the journal."""
    async with MemoryStore(faults={1: Fault(delay=5)}).open("one", create=True) as log:
        journal = journal_of(log)
        live, started = trio.CancelScope(), ToolStarted(tool_call_id="b")

        async def show() -> None:
            with live:
                await outbox.put(ToolOutput(tool_call_id="a", text="so far"))

        async def start() -> None:
            await outbox.put(started)
            assert [record.event for record in journal.records][-1:] == [started]

        async with trio.open_nursery() as nursery:
            outbox = Outbox(journal, nursery, is_shared=True)
            nursery.start_soon(journal.append, Notice(kind="busy", text="a slow disk"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(show)
            nursery.start_soon(start)
            await trio.testing.wait_all_tasks_blocked()
            live.cancel()
        assert [record.event.type for record in journal.records] == ["notice", "tool_started"]


async def test_of_what_was_taken_to_write_nothing_is_lost_and_nothing_is_written_twice(autojump_clock) -> None:
    results = [ToolResult(tool_call_id=name, tool_name="t", output=name) for name in "abc"]
    async with MemoryStore(faults={1: Fault(delay=1)}).open("one", create=True) as log:
        journal = journal_of(log)
        live = trio.CancelScope()

        async def show() -> None:
            with live:
                await outbox.put(results[0], ToolOutput(tool_call_id="x", text="so far"), results[1])

        async with trio.open_nursery() as nursery:
            outbox = Outbox(journal, nursery, is_shared=True)
            nursery.start_soon(show)
            await trio.testing.wait_all_tasks_blocked()
            live.cancel()
            await trio.testing.wait_all_tasks_blocked()
            await outbox.put(results[2])
        assert [record.event for record in journal.records] == results


async def test_a_write_that_fails_fails_for_the_one_who_made_it_and_is_not_made_again(autojump_clock) -> None:
    async with MemoryStore(faults={1: Fault(error=StoreUnavailable("full"))}).open("one", create=True) as log:
        journal = journal_of(log)
        async with trio.open_nursery() as nursery:
            outbox = Outbox(journal, nursery, is_shared=False)
            with pytest.raises(StoreUnavailable, match="full"):
                await outbox.put(ToolStarted(tool_call_id="a"))
            await outbox.put()
        assert journal.records == []


async def test_who_waits_behind_a_write_that_fails_does_not_go_on_as_if_its_facts_were_on_record(
    autojump_clock,
) -> None:
    """One call writes for all. The others must not run a tool whose start was lost with that write."""
    fault = Fault(error=StoreUnavailable("full"), delay=1)
    went_on: list[str] = []

    async def start(name: str, outbox: Outbox) -> None:
        await outbox.put(ToolStarted(tool_call_id=name))
        went_on.append(name)

    async def step(journal: Journal) -> None:
        with errors_alone():
            async with trio.open_nursery() as nursery:
                outbox = Outbox(journal, nursery, is_shared=True)
                for name in "abc":
                    nursery.start_soon(start, name, outbox)

    async with MemoryStore(faults={1: fault}).open("one", create=True) as log:
        with pytest.raises(StoreUnavailable, match="full"):
            await step(journal_of(log))
    assert went_on == []
