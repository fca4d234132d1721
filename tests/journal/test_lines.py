"""One fact, one line."""

from __future__ import annotations

import json
import math
from typing import Any
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aar.errors import InvalidMessage, UnknownMessage
from aar.journal.lines import Damaged, encode_record, read_line
from aar.messages.encoding import encode_event
from aar.messages.events import AssistantMessage, Event, Recorded, ToolCall, ToolResult, UserMessage

any_text = st.text(st.characters(exclude_categories=()), max_size=12)
any_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=10,
)
any_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda text: UserMessage(content=text), any_text),
    st.builds(lambda text: UserMessage(content=text, parts=[{"type": "text", "text": text}]), any_text),
    st.builds(lambda text: AssistantMessage(content=text), any_text),
    st.builds(
        lambda name, arguments, data: ToolCall(tool_name=name, arguments=arguments, data=data),
        any_text,
        st.dictionaries(any_text, any_data, max_size=3),
        st.dictionaries(any_text, any_data, max_size=3),
    ),
    st.builds(lambda text, seconds: ToolResult(output=text, duration_ms=seconds), any_text, st.floats()),
)


def back(line: bytes) -> Recorded:
    read = read_line(line.removesuffix(b"\n"))
    assert read.event is not None
    return Recorded(read.seq, read.turn_id, read.event)


@given(any_event, st.integers(1, 2**53), any_text)
@example(ToolCall(data={"\ud800": None}), 1, "")
def test_what_is_said_to_be_kept_is_what_comes_back(event: Event, seq: int, turn_id: str) -> None:
    kept, line = encode_record(Recorded(seq, turn_id, event))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert back(line) == kept


@given(st.text(max_size=50), st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53)))
def test_what_json_has_a_form_for_is_kept_as_it_is(text: str, arguments: dict[str, Any]) -> None:
    for event in (UserMessage(content=text), ToolCall(tool_name=text, arguments=arguments)):
        record = Recorded(1, "0123456789ab", event)
        kept, line = encode_record(record)
        assert kept is record
        assert back(line) == record


def test_a_line_is_the_event_then_its_place_then_the_checksum_of_all_before() -> None:
    event = UserMessage(content="hi")
    _, line = encode_record(Recorded(7, "0123456789ab", event))
    head = encode_event(event)[:-1] + b',"seq":7,"turn_id":"0123456789ab"'
    assert line == head + b',"crc":%d}\n' % crc32(head)
    assert list(json.loads(line))[-3:] == ["seq", "turn_id", "crc"]


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    kept, line = encode_record(Recorded(1, "t", UserMessage(content="a\ud800b\x00", data={"\udfff": ["\ud83d\ude00"]})))
    assert kept.event == kept.event.model_copy(update={"content": "a\ufffdb\x00", "data": {"\ufffd": ["\U0001f600"]}})
    assert back(line) == kept


def test_a_lone_surrogate_in_a_name_of_an_argument_becomes_one_too() -> None:
    kept, line = encode_record(Recorded(1, "", ToolCall(arguments={"a": {"\ud800": 1}})))
    assert back(line) == kept
    assert kept.event.model_dump()["arguments"] == {"a": {"\ufffd": 1}}


def test_numbers_that_json_does_not_have_become_null_and_times_zero() -> None:
    call = ToolCall(tool_name="a", arguments={"n": [math.nan, math.inf, 1.5]})
    kept, line = encode_record(Recorded(1, "t", call))
    assert kept.event == call.model_copy(update={"arguments": {"n": [None, None, 1.5]}})
    assert back(line) == kept
    kept, line = encode_record(Recorded(2, "t", ToolResult(duration_ms=math.nan, timestamp=-math.inf)))
    assert back(line) == kept
    assert isinstance(kept.event, ToolResult)
    assert (kept.event.duration_ms, kept.event.timestamp) == (0.0, 0.0)


@pytest.mark.parametrize("depth", [100, 199, 200, 250, 300, 5000])
def test_arguments_however_deep_can_be_read_again(depth: int) -> None:
    arguments: dict[str, Any] = {}
    for _ in range(depth):
        arguments = {"a": arguments}
    kept, line = encode_record(Recorded(1, "t", ToolCall(tool_name="a", arguments=arguments)))
    assert back(line) == kept
    assert (b"nested too deeply" in line) == (depth > 150)


def test_every_changed_bit_is_noticed_or_harmless() -> None:
    event = UserMessage(content="hello there", timestamp=1.5, id="0123456789ab")
    _, line = encode_record(Recorded(12, "0123456789ab", event))
    place = line.index(b',"seq"')
    unnoticed = set()
    for at in range(len(line) - 1):
        for bit in range(8):
            changed = bytearray(line[:-1])
            changed[at] ^= 1 << bit
            try:
                read = read_line(bytes(changed))
            except (Damaged, InvalidMessage, UnknownMessage):
                continue
            unnoticed.add(at)
            assert not read.is_checked
            assert read.event == event
    assert min(unnoticed) > place, "only changes behind the event itself can make a line look like an old one"


def test_an_event_of_an_unknown_kind_is_no_damage() -> None:
    with pytest.raises(UnknownMessage):
        read_line(b'{"type":"from_the_future","id":"x"}')
    with pytest.raises(InvalidMessage):
        read_line(b'{"type":"user_message","content":5}')
    for broken in (b"{", b"nonsense", b"[1]", b"\x00\x00", b"\xff"):
        with pytest.raises(Damaged):
            read_line(broken)
