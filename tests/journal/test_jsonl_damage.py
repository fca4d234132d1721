"""Files that are old, newer, or damaged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aar.errors import (
    CorruptJournal,
)
from aar.journal.jsonl import JsonlStore
from aar.journal.reading import parse_journal
from aar.journal.store import Header, Stored
from aar.journal.transcript import to_messages
from aar.messages.encoding import encode_event
from aar.messages.events import AssistantMessage, Event, Recorded, StreamChunk, ToolCall, ToolResult, UserMessage


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


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path / "deep" / "sessions")


def put(store: JsonlStore, session_id: str, data: bytes) -> Path:
    store.directory.mkdir(parents=True, exist_ok=True)
    path = store.path_of(session_id)
    path.write_bytes(data)
    return path


def old_lines(*events: Event) -> list[bytes]:
    return [encode_event(event) + b"\n" for event in events]


@pytest.mark.covers("SES-18")
async def test_a_newer_schema_is_refused_with_the_advice_to_upgrade(store: JsonlStore) -> None:
    put(store, "s1", b'{"_meta": true, "schema_version": 2, "session_id": "s1"}\n')
    with pytest.raises(ValueError, match="upgrade"):
        await store.load("s1")
    with pytest.raises(ValueError, match="upgrade"):
        async with store.open("s1", create=False):
            pass
    assert os.listdir(store.directory) == ["s1.jsonl"]


@pytest.mark.covers("SES-19")
async def test_an_old_file_loads_with_defaults_and_its_events_are_counted(
    store: JsonlStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "aar")
    events = a_step()
    chunk = StreamChunk(text="d")
    put(store, "s1", b"".join([b'{"_meta": true, "session_id": "s1", "step_count": 4}\n', *old_lines(*events, chunk)]))
    async with store.open("s1", create=False) as log:
        assert log.stored == Stored(Header("s1", step_count=4), records_of(*events, turn_id=""))
        await log.append(5, prompts(1, after=5))
    assert [record.seq for record in (await store.load("s1")).records] == [1, 2, 3, 4, 5, 6]
    assert "old schema_version 0" in caplog.text


@pytest.mark.covers("SES-20")
async def test_blank_lines_are_skipped_and_the_last_header_counts_wherever_it_is(store: JsonlStore) -> None:
    first, second, *rest = old_lines(*a_step())
    header = Header("s1", step_count=2).to_json()
    put(
        store,
        "s1",
        b"\n \n" + first + b"\r\n" + Header("s1").to_json() + b"\n" + second + header + b"\n\n" + b"".join(rest),
    )
    stored = await store.load("s1")
    assert stored.header == Header("s1", step_count=2)
    assert [record.event.type for record in stored.records] == [event.type for event in a_step()]


@pytest.mark.covers("SES-21")
async def test_a_cut_last_line_is_left_out_with_a_warning_and_kept_aside_when_the_session_opens(
    store: JsonlStore,
) -> None:
    records = records_of(*a_step())
    await write(store, "s1", records)
    path = store.path_of("s1")
    whole = path.read_bytes()
    for number in (1, 2):
        path.write_bytes(whole + b'{"id":"torn')
        stored = await store.load("s1")
        assert (stored.records, len(stored.warnings)) == (records, 1)
        assert path.read_bytes() == whole + b'{"id":"torn'
        async with store.open("s1", create=False) as log:
            assert log.stored.records == records
            assert [f"s1.jsonl.torn-{number}" in warning for warning in log.stored.warnings] == [True]
            assert path.read_bytes() == whole
            assert (store.directory / f"s1.jsonl.torn-{number}").read_bytes() == b'{"id":"torn'
    assert await store.delete("s1")
    assert os.listdir(store.directory) == []


async def test_a_last_line_with_a_wrong_checksum_is_treated_like_a_cut_one(store: JsonlStore) -> None:
    records = records_of(*a_step())
    await write(store, "s1", records)
    path = store.path_of("s1")
    path.write_bytes(path.read_bytes().replace(b"done", b"gone"))
    stored = await store.load("s1")
    assert (stored.records, len(stored.warnings)) == (records[:-1], 1)


@pytest.mark.parametrize(
    ("number", "old", "new", "why"),
    [
        (2, b"go", b"no", "the checksum does not fit"),
        (3, b'"seq":2', b'"seq":3', "the checksum does not fit"),
        (3, b"}", b"", "not a line of JSON"),
        (3, b',"crc":', b',"crd":', "the checksum is missing"),
        (4, b"assistant_message", b"assistant_massage", "the checksum does not fit"),
        (1, b'"step_count": 0', b'"step_count": [1]', "the header does not fit"),
    ],
)
async def test_damage_before_the_end_is_reported_with_its_place_and_nothing_is_changed(
    store: JsonlStore, number: int, old: bytes, new: bytes, why: str
) -> None:
    await write(store, "s1", records_of(*a_step()))
    path = store.path_of("s1")
    lines = path.read_bytes().splitlines(keepends=True)
    assert old in lines[number - 1]
    lines[number - 1] = new.join(lines[number - 1].rsplit(old, 1))
    path.write_bytes(b"".join(lines))
    with pytest.raises(CorruptJournal, match=f"{path}:{number}: {why}.*head -n {number - 1}"):
        await store.load("s1")
    with pytest.raises(CorruptJournal):
        async with store.open("s1", create=True):
            pass
    assert path.read_bytes() == b"".join(lines)
    assert os.listdir(store.directory) == ["s1.jsonl"]


async def test_a_missing_line_is_damage(store: JsonlStore) -> None:
    await write(store, "s1", prompts(4))
    path = store.path_of("s1")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(CorruptJournal, match=f"{path}:3: number 3 follows number 1"):
        await store.load("s1")


async def test_an_event_of_an_unknown_kind_is_damage_even_at_the_end(store: JsonlStore) -> None:
    path = put(store, "s1", b"".join(old_lines(UserMessage(content="x"))) + b'{"type":"from_the_future"}\n')
    with pytest.raises(CorruptJournal, match=f"{path}:2: .*from_the_future"):
        await store.load("s1")


@pytest.mark.covers("SES-21")
async def test_a_file_cut_at_any_byte_gives_the_whole_events_before(store: JsonlStore) -> None:
    records = await _write_in_two_pieces(store)
    whole = store.path_of("s1").read_bytes()
    events_at = [b"_meta" not in line for line in whole.splitlines()]
    for cut in range(len(whole) + 1):
        parsed = parse_journal(whole[:cut], "s1", "s1.jsonl")
        lines = whole[:cut].split(b"\n")
        ended, rest = len(lines) - 1, lines[-1]
        is_whole = rest == b"" or rest + b"\n" in whole
        assert parsed.records == records[: sum(events_at[: ended + (rest != b"" and is_whole)])]
        assert (parsed.torn, parsed.whole) == ((b"", cut) if is_whole else (rest, cut - len(rest)))
        answered = {block["tool_use_id"] for block in _blocks(parsed.records, "tool_result")}
        assert answered == {block["id"] for block in _blocks(parsed.records, "tool_use")}


@pytest.mark.covers("SES-21")
async def test_a_file_that_was_cut_can_be_continued(store: JsonlStore) -> None:
    await _write_in_two_pieces(store)
    path = store.path_of("s1")
    whole = path.read_bytes()
    more = UserMessage(content="more")
    for cut in [0, 1, *range(whole.index(b"tool_result"), len(whole) + 1, 29), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        async with store.open("s1", create=False) as log:
            kept = log.stored.records
            await log.append(len(kept), records_of(more, after=len(kept)))
        assert (await store.load("s1")).records == [*kept, *records_of(more, after=len(kept))]


async def _write_in_two_pieces(store: JsonlStore) -> list[Recorded]:
    records = records_of(*a_step())
    async with store.open("s1", create=True) as log:
        await log.append(0, records[:3], header=Header("s1"))
        await log.append(3, records[3:], header=Header("s1", step_count=1))
    return records


def _blocks(records: Sequence[Recorded], kind: str) -> list[dict[str, Any]]:
    messages = to_messages(record.event for record in records)
    contents = [message["content"] for message in messages if not isinstance(message["content"], str)]
    return [block for content in contents for block in content if block["type"] == kind]


@pytest.mark.parametrize("line", ["[" * 100_000, '{"type": "user_message", "content": ' + "[" * 100_000])
async def test_a_line_that_is_nested_without_end_is_damage(store: JsonlStore, line: str) -> None:
    store.directory.mkdir(parents=True, exist_ok=True)
    store.path_of("s").write_text('{"_meta": true, "schema_version": 1}\n' + line + "\n")
    assert (await store.load("s")).records == []
    with store.path_of("s").open("a") as file:
        file.write('{"type": "user_message", "content": "b"}\n')
    with pytest.raises(CorruptJournal, match=r"s\.jsonl:2: not a line of JSON, or nested too deeply"):
        await store.load("s")


@pytest.mark.parametrize("number", ["-5", "true", "9" * 3000, "0"])
async def test_a_number_that_was_never_given_is_counted_instead(store: JsonlStore, number: str) -> None:
    store.directory.mkdir(parents=True, exist_ok=True)
    lines = [f'{{"type": "user_message", "content": "a", "seq": {number}}}', '{"type": "user_message", "content": "b"}']
    store.path_of("s").write_text("\n".join(lines) + "\n")
    assert [record.seq for record in (await store.load("s")).records] == [1, 2]
