"""The store in memory keeps the promises of a store, and fails when it is told to."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from aar.errors import SequenceConflict, SessionInUse, SessionNotFound, StoreUnavailable
from aar.journal.jsonl import JsonlStore
from aar.journal.memory import Fault, MemoryStore
from aar.journal.store import Header, Store, Stored
from aar.messages.events import AgentState, Recorded, ToolCall, UserMessage

Build = Callable[[Path], Store]
stores = pytest.mark.parametrize("build", [lambda _: MemoryStore(), JsonlStore], ids=["memory", "jsonl"])


def prompts(*seqs: int) -> list[Recorded]:
    return [Recorded(seq, "0123456789ab", UserMessage(content=f"prompt {seq}")) for seq in seqs]


@stores
async def test_what_is_appended_is_there_for_readers_and_for_the_next_writer(build: Build, tmp_path: Path) -> None:
    store = build(tmp_path)
    records = prompts(1, 2, 3)
    last = Header("s1", state=AgentState.COMPLETED, step_count=2, metadata={"cwd": "/here", "title": "t"})
    async with store.open("s1", create=True) as log:
        assert log.stored == Stored(Header("s1"))
        assert list(await log.append(0, records[:2], header=Header("s1", metadata={"cwd": "/here"}))) == records[:2]
        await log.append(2, records[2:], header=last, sync=True)
        assert await store.load("s1") == Stored(last, records)
    async with store.open("s1", create=False) as log:
        assert log.stored == Stored(last, records)
        await log.rewrite(last, records[1:])
        await log.append(3, prompts(4))
        counts = log.statistics()
        assert (counts.appends, counts.records, counts.syncs, counts.rewrites) == (1, 1, 0, 1)
    assert [record.seq for record in (await store.load("s1")).records] == [2, 3, 4]
    (entry,), cursor = await store.list(cwd="/here")
    assert (entry.session_id, entry.title, entry.state, entry.step_count, cursor) == ("s1", "t", "completed", 2, "")


@stores
async def test_a_session_opened_and_never_written_does_not_exist(build: Build, tmp_path: Path) -> None:
    store = build(tmp_path)
    async with store.open("s1", create=True):
        pass
    assert (await store.ids(), await store.list(), await store.delete("s1")) == ([], ([], ""), False)
    with pytest.raises(SessionNotFound, match=r"^Session not found: s1$"):
        await store.load("s1")
    with pytest.raises(SessionNotFound, match=r"^Session not found: s1$"):
        async with store.open("s1", create=False):
            pass


@stores
async def test_the_wrong_place_is_a_conflict_and_the_second_writer_is_refused(build: Build, tmp_path: Path) -> None:
    store = build(tmp_path)
    async with store.open("s1", create=True) as log:
        await log.append(0, prompts(1))
        with pytest.raises(SequenceConflict):
            await log.append(0, prompts(1))
        with pytest.raises(SessionInUse, match=r"^Session s1 is "):
            async with store.open("s1", create=True):
                pass
        with pytest.raises(SessionInUse):
            await store.delete("s1")
    assert [await store.delete("s1"), await store.delete("s1")] == [True, False]


@stores
async def test_pages_follow_one_another(build: Build, tmp_path: Path) -> None:
    store = build(tmp_path)
    for number in range(5):
        async with store.open(f"s{number}", create=True) as log:
            await log.append(0, prompts(1), header=Header(f"s{number}", metadata={"cwd": f"/{number % 2}"}))
    seen = []
    cursor = ""
    while True:
        page, cursor = await store.list(cwd="/0", limit=1, cursor=cursor)
        seen += [entry.session_id for entry in page]
        if not cursor:
            break
    assert sorted(seen) == ["s0", "s2", "s4"]
    assert await store.ids() == ["s0", "s1", "s2", "s3", "s4"]


@stores
async def test_the_answer_to_an_append_is_what_is_kept(build: Build, tmp_path: Path) -> None:
    store = build(tmp_path)
    call = ToolCall(tool_name="a\ud800", arguments={"n": math.nan})
    async with store.open("s1", create=True) as log:
        kept = await log.append(0, [Recorded(1, "t", call)])
    assert list(kept) == (await store.load("s1")).records
    assert kept[0].event == call.model_copy(update={"tool_name": "a\ufffd", "arguments": {"n": None}})


@stores
@pytest.mark.parametrize("session_id", ["../x", "", "x" * 129, "x\n"])
async def test_an_invalid_id_is_refused(build: Build, tmp_path: Path, session_id: str) -> None:
    store = build(tmp_path)
    with pytest.raises(ValueError, match=r"^Invalid session_id: "):
        await store.load(session_id)
    with pytest.raises(ValueError, match=r"^Invalid session_id: "):
        async with store.open(session_id, create=True):
            pass


async def test_what_a_reader_got_does_not_grow() -> None:
    store = MemoryStore()
    async with store.open("s1", create=True) as log:
        await log.append(0, prompts(1))
        before = await store.load("s1")
        await log.append(1, prompts(2))
    assert [record.seq for record in before.records] == [1]


async def test_a_fault_meets_the_append_it_is_for_and_keeps_nothing(autojump_clock: trio.testing.MockClock) -> None:
    error = StoreUnavailable("no room")
    store = MemoryStore(faults={2: Fault(error), 3: Fault(delay=5.0), 4: Fault(error, delay=1.0)})
    async with store.open("s1", create=True) as log:
        await log.append(0, prompts(1))
        with pytest.raises(StoreUnavailable, match="no room"):
            await log.append(1, prompts(2))
        began = trio.current_time()
        await log.append(1, prompts(2))
        assert trio.current_time() - began == 5.0
        with pytest.raises(StoreUnavailable, match="no room"):
            await log.rewrite(Header("s1"), [])
        assert trio.current_time() - began == 6.0
        await log.append(2, prompts(3))
    assert [record.seq for record in (await store.load("s1")).records] == [1, 2, 3]


async def test_a_slow_append_that_is_cancelled_keeps_nothing(autojump_clock: trio.testing.MockClock) -> None:
    store = MemoryStore(faults={1: Fault(delay=60.0)})
    async with store.open("s1", create=True) as log:
        with trio.move_on_after(1) as scope:
            await log.append(0, prompts(1))
        assert scope.cancelled_caught
        assert await store.ids() == []
        await log.append(0, prompts(1))
