"""A journal and its readers: facts in order, hints merged, everybody at their own pace."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import InvalidMessage, SequenceConflict, SessionClosed, StoreUnavailable
from aar.journal.journal import Journal, Journals, merge_hints
from aar.journal.state import Session
from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    Notice,
    StepRestarted,
    StreamChunk,
    ToolOutput,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from aar.testing import Fault, MemoryStore


@pytest.fixture
async def open_journal():
    """`journal = await open_journal(store)`: one on a store, closed with the test."""
    async with trio.open_nursery() as nursery:

        async def hold(store: MemoryStore, task_status: trio.TaskStatus[Journal]) -> None:
            async with store.open("one", create=True) as log:
                journal = Journal(log, Session.of(log.stored), log.stored.records)
                task_status.started(journal)
                await trio.sleep_forever()

        async def start(store: MemoryStore | None = None) -> Journal:
            return await nursery.start(hold, store or MemoryStore())

        yield start
        nursery.cancel_scope.cancel()


def said(*texts: str) -> list[UserMessage]:
    return [UserMessage(content=text) for text in texts]


async def take(reader, count: int) -> list[str]:
    """The next items of a reader: facts as `seq`, hints as their text."""
    taken = []
    for _ in range(count):
        record = await anext(reader)
        taken.append(str(record.seq) if record.seq else f"{record.event.text}{'.' * record.event.finished}")
    return taken


# --- facts ------------------------------------------------------------------------------------


async def test_facts_are_stored_then_folded_then_seen(open_journal) -> None:
    store = MemoryStore()
    journal = await open_journal(store)
    records = await journal.append(*said("a", "b"), turn_id="t")
    assert [(record.seq, record.turn_id, record.event.content) for record in records] == [(1, "t", "a"), (2, "t", "b")]
    assert journal.records == records == (await store.load("one")).records
    assert journal.session.seq == journal.seq == 2
    assert await journal.append() == []


async def test_a_write_that_fails_has_not_happened(open_journal) -> None:
    store = MemoryStore(faults={2: Fault(error=StoreUnavailable("full")), 3: Fault(error=SequenceConflict("other"))})
    journal = await open_journal(store)
    await journal.append(*said("a"))
    for error in (StoreUnavailable, SequenceConflict):
        with pytest.raises(error):
            await journal.append(*said("b", "c"))
    assert [record.seq for record in journal.records] == [1]
    assert journal.session.to_messages() == [{"role": "user", "content": "a"}]
    (again,) = await journal.append(*said("d"))
    assert again.seq == 2


async def test_facts_that_are_held_are_nowhere_until_they_are_first_in_the_next_write(open_journal) -> None:
    store = MemoryStore()
    journal = await open_journal(store)
    await journal.append(TurnStarted(), turn_id="t1")
    journal.hold(*said("a", "b"))
    journal.hold(*said("c"))
    assert journal.seq == len(journal.records) == len((await store.load("one")).records) == 1
    assert [record.seq for record in await journal.append(*said("d"))] == [5]
    found = [(record.seq, record.turn_id) for record in journal.records]
    assert found == [(1, "t1"), (2, "t1"), (3, "t1"), (4, "t1"), (5, "t1")]
    assert [event.content for event in journal.session.events[1:]] == ["a", "b", "c", "d"]
    assert (await store.load("one")).records == journal.records
    assert store._writes == 2


async def test_flushing_writes_what_is_held_and_otherwise_nothing(open_journal) -> None:
    store = MemoryStore()
    journal = await open_journal(store)
    await journal.flush()
    assert store._writes == 0
    journal.hold(*said("a"))
    await journal.flush()
    await journal.flush()
    assert (store._writes, journal.seq) == (1, 1)


async def test_what_is_held_outlives_a_write_that_fails_and_no_crash(open_journal) -> None:
    journal = await open_journal(MemoryStore(faults={1: Fault(error=StoreUnavailable("full"))}))
    journal.hold(*said("a"))
    with pytest.raises(StoreUnavailable):
        await journal.append(*said("b"))
    assert journal.records == []
    await journal.append(*said("c"))
    assert [event.content for event in journal.session.events] == ["a", "c"]
    journal.hold(*said("d"))
    journal.refold()
    await journal.flush()
    assert [event.content for event in journal.session.events] == ["a", "c"]


async def test_what_is_held_while_a_write_is_under_way_comes_after_it(open_journal, autojump_clock) -> None:
    journal = await open_journal(MemoryStore(faults={1: Fault(delay=1)}))
    journal.hold(*said("a"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.append, *said("b"))
        await trio.testing.wait_all_tasks_blocked()
        journal.hold(*said("c"))
    await journal.append(*said("d"))
    assert [event.content for event in journal.session.events] == ["a", "b", "c", "d"]


async def test_a_hint_cannot_be_held(open_journal) -> None:
    journal = await open_journal()
    with pytest.raises(InvalidMessage):
        journal.hold(StreamChunk(text="x"))


async def test_a_write_that_has_begun_is_not_cancelled(open_journal, autojump_clock) -> None:
    store = MemoryStore(faults={1: Fault(delay=5)})
    journal = await open_journal(store)
    with trio.move_on_after(1) as scope:
        await journal.append(*said("a"))
    assert not scope.cancelled_caught
    assert journal.seq == 1


async def test_a_store_that_is_silent_is_given_up(open_journal, autojump_clock) -> None:
    journal = await open_journal(MemoryStore(faults={1: Fault(delay=1000)}))
    with pytest.raises(StoreUnavailable, match="30 s"):
        await journal.append(*said("a"))
    assert trio.current_time() < 31
    assert journal.seq == 0


async def test_writers_take_turns(open_journal, autojump_clock) -> None:
    store = MemoryStore(faults={number: Fault(delay=1) for number in range(1, 6)})
    journal = await open_journal(store)
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(journal.append, *said(f"{number}a", f"{number}b"))
    texts = [record.event.content for record in journal.records]
    assert [record.seq for record in journal.records] == list(range(1, 11))
    assert all(texts[at][0] == texts[at + 1][0] for at in range(0, 10, 2))


async def test_a_closed_journal_takes_no_facts(open_journal) -> None:
    journal = await open_journal()
    journal.close()
    with pytest.raises(SessionClosed):
        await journal.append(*said("a"))


async def test_facts_belong_to_the_running_turn(open_journal) -> None:
    journal = await open_journal()
    await journal.append(TurnStarted(), turn_id="t1")
    await journal.append(ErrorEvent(message="x"))
    await journal.append(TurnEnded())
    await journal.append(*said("between"))
    assert [record.turn_id for record in journal.records] == ["t1", "t1", "t1", ""]


async def test_refolding_gives_the_same_session_from_the_facts_alone(open_journal) -> None:
    journal = await open_journal()
    await journal.append(TurnStarted(), *said("a"), turn_id="t1")
    before = journal.session
    before.queued["junk"] = None  # what a crash may leave behind
    journal.refold()
    assert journal.session is not before
    assert journal.session.queued == {}
    for name in ("seq", "state", "turn_id", "run_id", "trace_id", "events", "metadata"):
        assert getattr(journal.session, name) == getattr(before, name)


# --- readers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [0, 3])
async def test_a_reader_gets_what_was_and_what_comes_and_ends_with_the_session(open_journal, pace) -> None:
    journal = await open_journal()
    await journal.append(*said("a", "b"))
    seen = []

    async def read() -> None:
        with journal.follow(pace=pace) as records:
            seen.extend([record.seq async for record in records])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await journal.append(*said("c"))
        await journal.append(*said("d", "e"))
        journal.close()
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("pace", [0, 3])
@pytest.mark.parametrize("after", range(4))
async def test_a_reader_begins_after_what_it_has(open_journal, pace, after) -> None:
    journal = await open_journal()
    await journal.append(*said("a", "b", "c"))
    with journal.follow(after=after, pace=pace) as records:
        await journal.append(*said("d"))
        journal.close()
        assert [record.seq async for record in records] == list(range(1, 5))[after:]


async def test_a_reader_of_a_pruned_journal_begins_with_what_there_is(open_journal) -> None:
    journal = await open_journal()
    await journal.append(*said("a", "b", "c"))
    del journal.records[0]
    for after, expected in ((0, [2, 3]), (1, [2, 3]), (2, [3]), (9, [])):
        with journal.follow(after=after) as records:
            assert [journal.records[index].seq for index in range(records._next, 2)] == expected


async def test_hints_come_merged_to_a_slow_reader_and_facts_come_all(open_journal, autojump_clock) -> None:
    journal = await open_journal()
    with journal.follow(every=1) as slow:
        journal.hint(StreamChunk(text="a"))
        assert await take(slow, 1) == ["a"]
        for text in "bcd":
            journal.hint(StreamChunk(text=text))
        before = trio.current_time()
        assert await take(slow, 1) == ["bcd"]
        assert trio.current_time() - before == pytest.approx(1)
        journal.hint(StreamChunk(text="e"))
        await journal.append(*said("all of it"))
        assert await take(slow, 2) == ["e", "1"]  # one that has kept up gets the hints before the fact


async def test_hints_are_gone_with_the_fact_that_contains_them(open_journal) -> None:
    journal = await open_journal()
    journal.hint(StreamChunk(text="a"))
    await journal.append(Notice(kind="retry", text="has nothing to do with them"))
    assert journal.statistics().hints == 1
    await journal.append(AssistantMessage(content="a"))
    journal.hint(StreamChunk(text="b"))
    with journal.follow(after=2) as records:
        assert await take(records, 1) == ["b"]
    assert journal.statistics().hints == 1


async def test_a_hint_is_no_fact(open_journal) -> None:
    journal = await open_journal()
    with pytest.raises(InvalidMessage):
        await journal.append(StreamChunk(text="a"))
    assert journal.seq == 0


async def test_a_reader_that_comes_late_sees_the_whole_fragment(open_journal) -> None:
    journal = await open_journal()
    for text in "abc":
        journal.hint(StreamChunk(text=text))
    with journal.follow() as records:
        assert await take(records, 1) == ["abc"]


async def test_hints_of_a_session_that_closes_are_still_read(open_journal) -> None:
    journal = await open_journal()
    with journal.follow() as records:
        journal.hint(StreamChunk(text="a"))
        journal.close()
        assert [record.event.text async for record in records] == ["a"]


async def test_a_paced_reader_gets_every_item_and_the_writer_waits_for_it(open_journal) -> None:
    journal = await open_journal()
    with journal.follow(pace=2) as records:
        written = []

        async def write() -> None:
            for text in "abcdef":
                await journal.room()
                journal.hint(StreamChunk(text=text))
                written.append(text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await trio.testing.wait_all_tasks_blocked()
            assert written == ["a", "b"]
            assert journal.statistics().furthest_behind == 2
            assert await take(records, 1) == ["a"]
            await trio.testing.wait_all_tasks_blocked()
            assert written == ["a", "b", "c"]
            assert await take(records, 5) == list("bcdef")


async def test_facts_do_not_wait_for_a_paced_reader(open_journal) -> None:
    journal = await open_journal()
    with journal.follow(pace=1) as records:
        for text in "abc":
            await journal.append(*said(text))
        assert await take(records, 3) == ["1", "2", "3"]


async def test_a_paced_reader_that_leaves_lets_the_writer_go_on(open_journal) -> None:
    journal = await open_journal()
    async with trio.open_nursery() as nursery:
        with journal.follow(pace=1):
            journal.hint(StreamChunk(text="a"))
            nursery.start_soon(journal.room)
            await trio.testing.wait_all_tasks_blocked()
            assert nursery.child_tasks
    assert journal.statistics().readers == 0


async def test_waiting_for_a_paced_reader_can_be_cancelled(open_journal, autojump_clock) -> None:
    journal = await open_journal()
    with journal.follow(pace=1):
        journal.hint(StreamChunk(text="a"))
        with trio.move_on_after(1) as scope:
            await journal.room()
    assert scope.cancelled_caught


async def test_a_hundred_readers_cost_the_writer_nothing_to_wait_for(open_journal) -> None:
    journal = await open_journal()
    counts = []

    async def read() -> None:
        with journal.follow() as records:
            counts.append(len([record async for record in records]))

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert journal.statistics().readers == 100
        for number in range(20):
            await journal.append(*said(str(number)))
        journal.close()
    assert counts == [20] * 100


# --- merging ----------------------------------------------------------------------------------

_text = st.text("ab", max_size=2)
_chunks = st.builds(StreamChunk, text=_text, reasoning_text=_text, finished=st.booleans())
_outputs = st.builds(
    ToolOutput, tool_call_id=st.sampled_from(["1", "2"]), text=st.text("ab", max_size=2), finished=st.booleans()
)
_hints = st.lists(_chunks | _outputs | st.builds(StepRestarted), max_size=12)


def shown(hints: list[Event]) -> list[tuple]:
    """What a screen makes of hints: the text of each stream between its ends."""
    found: list[tuple] = []
    for hint in hints:
        if isinstance(hint, StepRestarted):
            found = []
            continue
        key = hint.tool_call_id if isinstance(hint, ToolOutput) else ""
        more = (hint.text, getattr(hint, "reasoning_text", ""))
        if found and found[-1][0] == key and not found[-1][3]:
            _, text, thought, _ = found.pop()
            more = (text + more[0], thought + more[1])
        found.append((key, *more, hint.finished))
    return found


@given(_hints)
def test_merged_hints_show_the_same(hints) -> None:
    merged = merge_hints(hints)
    assert shown(merged) == shown(hints)
    assert len(merged) <= len(hints)
    assert merge_hints(merged) == merged


@given(_hints)
def test_no_end_of_a_stream_is_lost_or_passed_over(hints) -> None:
    since = max((at + 1 for at, hint in enumerate(hints) if isinstance(hint, StepRestarted)), default=0)
    for key in ("", "1", "2"):
        ends = [hint for hint in hints[since:] if getattr(hint, "finished", False) and _of(hint) == key]
        kept = [hint for hint in merge_hints(hints) if getattr(hint, "finished", False) and _of(hint) == key]
        assert len(kept) == len(ends)


def _of(hint: Event) -> str:
    return hint.tool_call_id if isinstance(hint, ToolOutput) else ""


async def test_a_reader_that_slept_through_a_retry_sees_only_the_new_attempt(open_journal) -> None:
    journal = await open_journal()
    for hint in (StreamChunk(text="old", finished=True), StepRestarted()):
        journal.hint(hint)
    for text in ("n", "ew"):
        journal.hint(StreamChunk(text=text))
    with journal.follow() as records:
        assert [type((await anext(records)).event) for _ in range(2)] == [StepRestarted, StreamChunk]


# --- the open ones ----------------------------------------------------------------------------


async def test_open_journals_are_found_by_their_session(open_journal) -> None:
    journals, journal = Journals(), await open_journal()
    assert journals.find("one") is None
    journals.add(journal)
    assert journals.find("one") is journal
    journals.remove(journal)
    journals.remove(journal)
    assert journals.find("one") is None


async def test_a_journal_counts(open_journal) -> None:
    journal = await open_journal()
    await journal.append(*said("a", "b"))
    journal.hint(StreamChunk(text="x"))
    counts = journal.statistics()
    assert (counts.seq, counts.facts, counts.hints, counts.readers) == (2, 2, 1, 0)
