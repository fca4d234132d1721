"""Sessions as files: format, writing, one writer at a time."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.errors import (
    SequenceConflict,
    SessionClosed,
    SessionInUse,
    SessionNotFound,
    StoreUnavailable,
)
from aar.journal.jsonl import JsonlStore
from aar.journal.store import Header, Stored
from aar.messages.events import (
    AgentState,
    AssistantMessage,
    Event,
    Recorded,
    ToolCall,
    ToolResult,
    UserMessage,
)

INVALID_ID = r"^Invalid session_id: "


def records_of(*events: Event, after: int = 0, turn_id: str = "0123456789ab") -> list[Recorded]:
    return [Recorded(after + offset, turn_id, event) for offset, event in enumerate(events, start=1)]


def prompts(count: int, *, after: int = 0) -> list[Recorded]:
    return records_of(*(UserMessage(content=f"prompt {after + number}") for number in range(1, count + 1)), after=after)


def a_step() -> list[Event]:
    return [
        UserMessage(content="go"),
        ToolCall(tool_name="a", tool_call_id="c1", arguments={"p": [1, None, "ä\n"]}),
        AssistantMessage(content="ok"),
        ToolResult(tool_call_id="c1", tool_name="a", output="1", duration_ms=2.5),
        AssistantMessage(content="done"),
    ]


async def write(store: JsonlStore, session_id: str, records: Sequence[Recorded], header: Header | None = None) -> None:
    async with store.open(session_id, create=True) as log:
        await log.append(0, records, header=header or Header(session_id))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path / "deep" / "sessions")


def put(store: JsonlStore, session_id: str, data: bytes) -> Path:
    store.directory.mkdir(parents=True, exist_ok=True)
    path = store.path_of(session_id)
    path.write_bytes(data)
    return path


# --- format -------------------------------------------------------------------------------------


@pytest.mark.covers("SES-13")
async def test_a_header_line_comes_first_and_then_a_line_per_event_with_later_headers_between(
    store: JsonlStore,
) -> None:
    events = a_step()
    records = records_of(*events)
    async with store.open("s1", create=True) as log:
        await log.append(0, records[:2], header=Header("s1", run_id="r"))
        await log.append(2, records[2:], header=Header("s1", run_id="r", step_count=1), sync=True)
        await log.append(5, [], header=Header("s1", run_id="r", step_count=2))
    lines = lines_of(store.path_of("s1"))
    assert ["_meta" if line.get("_meta") else line["type"] for line in lines] == [
        "_meta",
        "user_message",
        "tool_call",
        "assistant_message",
        "tool_result",
        "assistant_message",
        "_meta",
        "_meta",
    ]
    events_read = [line for line in lines if "_meta" not in line]
    assert [(line["seq"], line["turn_id"]) for line in events_read] == [(n, "0123456789ab") for n in range(1, 6)]
    assert [list(line)[:4] for line in events_read] == [["id", "type", "timestamp", "data"]] * 5
    assert (await store.load("s1")) == Stored(Header("s1", run_id="r", step_count=2), records)


@pytest.mark.covers("SES-14")
async def test_a_header_has_eleven_keys(store: JsonlStore) -> None:
    await write(store, "s1", [])
    assert list(lines_of(store.path_of("s1"))[0]) == [
        "_meta",
        "schema_version",
        "session_id",
        "run_id",
        "trace_id",
        "state",
        "step_count",
        "metadata",
        "total_input_tokens",
        "total_output_tokens",
        "total_cost",
    ]


@pytest.mark.covers("SES-15")
async def test_everything_comes_back(store: JsonlStore) -> None:
    header = Header(
        "s1",
        run_id="0123456789ab",
        trace_id="ba9876543210",
        state=AgentState.COMPLETED,
        step_count=3,
        metadata={"cwd": "/tmp", "guardrails": {"x": [1, 2.5, None]}, "title": "Grüße \ud800"},
        total_input_tokens=10,
        total_output_tokens=20,
        total_cost=0.125,
    )
    records = records_of(*a_step())
    await write(store, "s1", records, header)
    assert await store.load("s1") == Stored(header, records)
    async with store.open("s1", create=False) as log:
        assert log.stored == Stored(header, records)
        await log.append(5, prompts(1, after=5))
    assert (await store.load("s1")).records == [*records, *(await store.load("s1")).records[5:]]
    assert (await store.load("s1")).header == header


async def test_big_texts_come_back(store: JsonlStore) -> None:
    big = UserMessage(content="\x00ä" * 5_000_000)
    async with store.open("s1", create=True) as log:
        await log.append(0, records_of(big), sync=True)
    (record,) = (await store.load("s1")).records
    assert record.event == big


@pytest.mark.covers("SES-16")
async def test_a_missing_session_is_not_found(store: JsonlStore) -> None:
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match=r"^Session not found: x$"):
            await store.load("x")
        with pytest.raises(SessionNotFound, match=r"^Session not found: x$"):
            async with store.open("x", create=False):
                pass
        store.directory.mkdir(parents=True, exist_ok=True)
    assert os.listdir(store.directory) == []


@pytest.mark.covers("SES-17")
@pytest.mark.parametrize("session_id", ["../x", "", "x" * 129, "x\n", "a/b", "a.b", "ä", "a b", "\x00"])
async def test_an_id_that_is_no_plain_name_is_refused_everywhere(store: JsonlStore, session_id: str) -> None:
    with pytest.raises(ValueError, match=INVALID_ID):
        await store.load(session_id)
    with pytest.raises(ValueError, match=INVALID_ID):
        await store.delete(session_id)
    with pytest.raises(ValueError, match=INVALID_ID):
        await store.compact(session_id)
    with pytest.raises(ValueError, match=INVALID_ID):
        async with store.open(session_id, create=True):
            pass
    with pytest.raises(ValueError, match=INVALID_ID):
        await store.save(Header(session_id), [])
    assert not store.directory.exists()


async def test_an_id_of_128_letters_digits_dashes_and_underscores_is_fine(store: JsonlStore) -> None:
    session_id = "aZ0-_" * 25 + "xyz"
    await write(store, session_id, prompts(1))
    assert await store.ids() == [session_id]


async def test_nothing_is_made_before_the_first_session_and_all_of_it_is_private(store: JsonlStore) -> None:
    assert (await store.list(), await store.ids(), await store.delete("s1")) == (([], ""), [], False)
    assert not store.directory.parent.exists()
    async with store.open("s1", create=True) as log:
        assert os.listdir(store.directory) == ["s1.lock"]
        await log.append(0, prompts(1))
        modes = {name: stat.S_IMODE((store.directory / name).stat().st_mode) for name in os.listdir(store.directory)}
        assert modes == {"s1.jsonl": 0o600, "s1.lock": 0o600}
    assert os.listdir(store.directory) == ["s1.jsonl"]
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(store.directory.parent.stat().st_mode) == 0o700


async def test_a_link_is_never_followed(store: JsonlStore, tmp_path: Path) -> None:
    await write(store, "s1", prompts(1))
    outside = tmp_path / "outside.jsonl"
    store.path_of("s1").rename(outside)
    store.path_of("s1").symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(StoreUnavailable, match="links"):
        await store.load("s1")
    with pytest.raises(StoreUnavailable, match="links"):
        async with store.open("s1", create=True):
            pass
    assert outside.read_bytes() == before
    assert (await store.list())[0] == []


# --- writing ------------------------------------------------------------------------------------


async def test_an_append_at_the_wrong_place_is_a_conflict_and_writes_nothing(store: JsonlStore) -> None:
    async with store.open("s1", create=True) as log:
        await log.append(0, prompts(2))
        before = store.path_of("s1").read_bytes()
        for expected in (0, 1, 3):
            with pytest.raises(SequenceConflict, match="is at 2, not at"):
                await log.append(expected, prompts(1, after=2))
        assert store.path_of("s1").read_bytes() == before
        await log.append(2, prompts(1, after=2))


async def test_another_writer_is_noticed_by_the_size_or_the_identity_of_the_file(store: JsonlStore) -> None:
    async with store.open("s1", create=True) as log:
        await log.append(0, prompts(1))
        path = store.path_of("s1")
        ours = path.read_bytes()
        path.write_bytes(ours + b"\n")
        with pytest.raises(SequenceConflict, match="changed by somebody else"):
            await log.append(1, prompts(1, after=1))
        assert path.read_bytes() == ours + b"\n"
        path.with_suffix(".copy").write_bytes(ours)
        path.with_suffix(".copy").rename(path)
        with pytest.raises(SequenceConflict, match="changed by somebody else"):
            await log.append(1, prompts(1, after=1))
        path.unlink()
        with pytest.raises(StoreUnavailable, match="was removed or renamed"):
            await log.append(1, prompts(1, after=1))


async def test_a_file_that_appears_under_a_new_session_is_a_conflict(store: JsonlStore) -> None:
    async with store.open("s1", create=True) as log:
        put(store, "s1", b"mine\n")
        with pytest.raises(SequenceConflict, match="made by somebody else"):
            await log.append(0, prompts(1))
    assert store.path_of("s1").read_bytes() == b"mine\n"


async def test_a_log_says_what_it_wrote_and_nothing_can_be_written_after_it_closed(store: JsonlStore) -> None:
    async with store.open("s1", create=True) as log:
        await log.append(0, prompts(2))
        await log.append(2, prompts(1, after=2), sync=True)
        await log.rewrite(Header("s1"), prompts(3))
        counts = log.statistics()
        assert (counts.appends, counts.records, counts.syncs, counts.rewrites) == (2, 3, 1, 1)
    with pytest.raises(SessionClosed):
        await log.append(3, prompts(1, after=3))


async def test_a_rewrite_replaces_all_and_the_session_goes_on_from_there(store: JsonlStore) -> None:
    async with store.open("s1", create=True) as log:
        await log.append(0, prompts(5))
        kept = prompts(5)[3:]
        await log.rewrite(Header("s1", step_count=9), kept)
        assert await store.load("s1") == Stored(Header("s1", step_count=9), kept)
        await log.append(5, prompts(1, after=5))
    assert [record.seq for record in (await store.load("s1")).records] == [4, 5, 6]
    assert os.listdir(store.directory) == ["s1.jsonl"]


async def test_saving_appends_what_is_missing(store: JsonlStore) -> None:
    path = await store.save(Header("s1", step_count=1), prompts(2))
    assert path == store.path_of("s1")
    before = path.read_bytes()
    records = (await store.load("s1")).records
    await store.save(Header("s1", step_count=2), [*records, *prompts(1, after=2)])
    assert path.read_bytes().startswith(before)
    stored = await store.load("s1")
    assert (stored.header.step_count, [record.seq for record in stored.records]) == (2, [1, 2, 3])
    with pytest.raises(SequenceConflict, match="4 is missing"):
        await store.save(Header("s1"), prompts(1, after=4))


async def test_a_session_has_one_writer_and_any_number_of_readers(store: JsonlStore) -> None:
    async with store.open("s1", create=True) as log:
        await log.append(0, prompts(1))
        with pytest.raises(SessionInUse, match=f"^Session s1 is in use by process {os.getpid()} on .*, since 2"):
            async with store.open("s1", create=False):
                pass
        with pytest.raises(SessionInUse):
            await store.delete("s1")
        assert len((await store.load("s1")).records) == 1
        async with store.open("s2", create=True):
            pass
    async with store.open("s1", create=False) as log:
        await log.append(1, prompts(1, after=1))


async def test_a_lock_file_that_nobody_holds_is_no_obstacle(store: JsonlStore) -> None:
    await write(store, "s1", prompts(1))
    (store.directory / "s1.lock").write_text('{"pid": 1, "host": "elsewhere", "since": 0}')
    async with store.open("s1", create=False) as log:
        await log.append(1, prompts(1, after=1))


@pytest.mark.parametrize("steps", range(6))
async def test_opening_can_be_cancelled_at_any_moment_and_leaves_no_lease(store: JsonlStore, steps: int) -> None:
    await write(store, "s1", prompts(1))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_open_for_ever, store)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    with trio.fail_after(10):
        while True:
            try:
                async with store.open("s1", create=False):
                    break
            except SessionInUse:
                await trio.lowlevel.checkpoint()


async def _open_for_ever(store: JsonlStore) -> None:
    async with store.open("s1", create=False):
        await trio.sleep_forever()
