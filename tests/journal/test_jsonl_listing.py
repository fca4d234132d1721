"""Finding, deleting and pruning sessions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aar.journal.jsonl import JsonlStore, companion_baseline
from aar.journal.store import Header, StoredSession
from aar.messages.events import (
    AgentState,
    ErrorEvent,
    Event,
    Recorded,
    ToolCall,
    UserMessage,
)


def records_of(*events: Event, after: int = 0, turn_id: str = "0123456789ab") -> list[Recorded]:
    return [Recorded(after + offset, turn_id, event) for offset, event in enumerate(events, start=1)]


def prompts(count: int, *, after: int = 0) -> list[Recorded]:
    return records_of(*(UserMessage(content=f"prompt {after + number}") for number in range(1, count + 1)), after=after)


async def write(store: JsonlStore, session_id: str, records: Sequence[Recorded], header: Header | None = None) -> None:
    async with store.open(session_id, create=True) as log:
        await log.append(0, records, header=header or Header(session_id))


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path / "deep" / "sessions")


def put(store: JsonlStore, session_id: str, data: bytes) -> Path:
    store.directory.mkdir(parents=True, exist_ok=True)
    path = store.path_of(session_id)
    path.write_bytes(data)
    return path


@pytest.mark.covers("SES-27")
async def test_ids_are_sorted_and_deleting_tells_whether_there_was_one(store: JsonlStore) -> None:
    for session_id in ("b", "c", "a"):
        await write(store, session_id, prompts(1))
    put(store, "notes", b"").rename(store.directory / "not a session.jsonl")
    (store.directory / "x.txt").write_text("")
    assert await store.ids() == ["a", "b", "c"]
    assert [await store.delete("b"), await store.delete("b")] == [True, False]
    assert await store.ids() == ["a", "c"]


def listed(page: tuple[list[StoredSession], str]) -> list[str]:
    return [entry.session_id for entry in page[0]]


async def test_a_listing_is_newest_first_and_comes_in_pages_and_by_folder(store: JsonlStore) -> None:
    for number in range(7):
        header = Header(f"s{number}", metadata={"cwd": "/even" if number % 2 == 0 else "/odd"})
        await write(store, f"s{number}", prompts(1), header)
        os.utime(store.path_of(f"s{number}"), ns=(0, number // 2))
    everything = await store.list()
    assert (listed(everything), everything[1]) == (["s6", "s4", "s5", "s2", "s3", "s0", "s1"], "")
    first = await store.list(limit=3)
    second = await store.list(limit=3, cursor=first[1])
    third = await store.list(limit=3, cursor=second[1])
    assert [listed(page) for page in (first, second, third)] == [["s6", "s4", "s5"], ["s2", "s3", "s0"], ["s1"]]
    assert third[1] == ""
    odd = await store.list(cwd="/odd", limit=2)
    rest = await store.list(cwd="/odd", limit=2, cursor=odd[1])
    assert ([listed(odd), listed(rest)], rest[1]) == ([["s5", "s3"], ["s1"]], "")
    with pytest.raises(ValueError, match="Invalid cursor"):
        await store.list(cursor="nonsense")


async def test_an_entry_tells_what_the_last_header_says_and_where_the_first_was_made(store: JsonlStore) -> None:
    async with store.open("0123456789abcdef", create=True) as log:
        await log.append(0, prompts(2), header=Header("0123456789abcdef", metadata={"cwd": "/here"}))
        (before,), _ = await store.list()
        assert (before.title, before.cwd, before.state) == ("0123456789ab", "/here", AgentState.IDLE)
        metadata = {"title": "A title", "updated_at": 17.5}
        header = Header("0123456789abcdef", state=AgentState.COMPLETED, step_count=3, metadata=metadata)
        await log.append(2, prompts(1, after=2), header=header)
        (entry,), _ = await store.list()
    assert entry == StoredSession("0123456789abcdef", "/here", "A title", 17.5, AgentState.COMPLETED, 3)


async def test_a_thousand_sessions_are_listed_without_reading_what_was_said_in_them(store: JsonlStore) -> None:
    store.directory.mkdir(parents=True)
    for number in range(1000):
        session_id = f"s{number:03}"
        with store.path_of(session_id).open("wb") as file:
            file.write(Header(session_id, metadata={"cwd": "/here"}).to_json() + b"\n\xff\xfe no line at all\n{{{{\n")
            file.truncate(1 << 31)  # 2 GiB of nothing: whoever reads this does not come back
            file.seek(0, os.SEEK_END)
            file.write(
                b"\n" + Header(session_id, step_count=number, metadata={"title": f"t{number}"}).to_json() + b"\n"
            )
        os.utime(store.path_of(session_id), ns=(0, number))
    entries, cursor = await store.list(cwd="/here", limit=1000)
    expected = [(f"s{number:03}", f"t{number}", number) for number in reversed(range(1000))]
    assert [(entry.session_id, entry.title, entry.step_count) for entry in entries] == expected
    assert cursor == ""


async def test_files_without_a_readable_header_are_listed_by_their_id(store: JsonlStore) -> None:
    put(store, "empty", b"")
    put(store, "garbage", b"\xff\x00" * 9000)
    put(store, "newer", b'{"_meta": true, "schema_version": 9, "step_count": 2}\n')
    put(store, "odd", b'{"_meta": true, "step_count": []}\n{"_meta": true\n')
    entries, _ = await store.list()
    assert sorted((entry.session_id, entry.step_count) for entry in entries) == [
        ("empty", 0),
        ("garbage", 0),
        ("newer", 2),
        ("odd", 0),
    ]


@pytest.mark.covers("SES-24")
@pytest.mark.parametrize(
    "header",
    [
        '{"_meta": true, "metadata": ' + '{"a": ' * 20_000 + "1" + "}" * 20_001,
        '{"_meta": true, "step_count": 1e999}',
        '{"_meta": true, "total_cost": [], "metadata": [1]}',
        '{"_meta": true, "metadata": {"title": {"a": 1}, "cwd": ["/"], "updated_at": "soon"}}',
    ],
)
async def test_no_file_hides_the_others(store: JsonlStore, header: str) -> None:
    store.directory.mkdir(parents=True, exist_ok=True)
    store.path_of("bad").write_text(header + "\n")
    store.path_of("good").write_text('{"_meta": true, "metadata": {"title": "fine", "cwd": "/w"}}\n')
    found, _ = await store.list()
    assert {(entry.session_id, entry.title, entry.cwd) for entry in found} == {
        ("bad", "bad", ""),
        ("good", "fine", "/w"),
    }


async def test_compacting_keeps_the_newest_events(store: JsonlStore) -> None:
    records = prompts(300)
    await write(store, "s1", records)
    stored = await store.compact("s1", 200)
    assert stored.records == records[100:]
    assert (await store.load("s1")).records == records[100:]
    await store.compact("s1", 200)
    assert (await store.load("s1")).records == records[100:]
    with pytest.raises(ValueError, match="max_events"):
        await store.compact("s1", 0)


@pytest.mark.covers("SES-25")
async def test_the_hook_gets_what_is_pruned_before_it_is_gone(store: JsonlStore) -> None:
    records = prompts(5)
    await write(store, "s1", records)
    calls = []

    def on_prune(events: Sequence[Event], metadata: Any) -> None:
        still_there = len(store.path_of("s1").read_bytes().splitlines()) - 1
        calls.append((list(events), still_there))
        metadata["pruned"] = len(events)

    await store.compact("s1", 2, on_prune)
    await store.compact("s1", 2, on_prune)
    assert calls == [([record.event for record in records[:3]], 5)]
    assert (await store.load("s1")).header.metadata == {"pruned": 3}


@pytest.mark.covers("SES-26")
async def test_the_companion_baseline_adds_up(store: JsonlStore) -> None:
    events: list[Event] = [ToolCall(tool_name="a"), ErrorEvent(message="e"), ToolCall(tool_name="b")]
    await write(store, "s1", records_of(*events, *events, UserMessage(content="x")))
    first = await store.compact("s1", 4, companion_baseline)
    assert first.header.metadata == {"companion_baseline": {"steps": 2, "errors": 1}}
    await store.compact("s1", 1, companion_baseline)
    assert (await store.load("s1")).header.metadata == {"companion_baseline": {"steps": 4, "errors": 2}}
