"""The event model: one JSON line per event, and back."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from aar.errors import InvalidMessage, UnknownMessage
from aar.messages import events as module
from aar.messages.content import (
    AudioBlock,
    ContentBlock,
    ImageBlock,
    ImageURL,
    Media,
    TextBlock,
    VideoBlock,
    text_of_parts,
)
from aar.messages.encoding import decode_event, encode_event
from aar.messages.events import (
    HINTS,
    AssistantMessage,
    ErrorEvent,
    Event,
    EventType,
    ProviderMeta,
    ProviderSwitchEvent,
    ReasoningBlock,
    SessionEvent,
    StopReason,
    StreamChunk,
    ToolCall,
    ToolResult,
    UserMessage,
)

PUBLIC: dict[str, type[Event]] = {
    "user_message": UserMessage,
    "assistant_message": AssistantMessage,
    "stream_chunk": StreamChunk,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "reasoning": ReasoningBlock,
    "provider_meta": ProviderMeta,
    "error": ErrorEvent,
    "session": SessionEvent,
    "provider_switch": ProviderSwitchEvent,
}
ALL = [
    found
    for name in module.__all__
    if isinstance(found := getattr(module, name), type) and issubclass(found, Event) and found is not Event
]
BLOCK: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)

# JSON has no lone surrogates, and its numbers are finite.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXT),
    st.builds(ImageBlock, image_url=st.builds(ImageURL, url=TEXT, detail=st.none() | TEXT)),
    st.builds(AudioBlock, audio=st.builds(Media, url=TEXT, format=TEXT)),
    st.builds(VideoBlock, video=st.builds(Media, url=TEXT, format=TEXT)),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "data": st.dictionaries(TEXT, JSON, max_size=3),
    "arguments": st.dictionaries(TEXT, JSON, max_size=3),
    "patch": st.dictionaries(TEXT, JSON, max_size=3),
    "parts": st.lists(BLOCKS, max_size=3),
    "usage": st.dictionaries(TEXT, st.integers(0, 2**40), max_size=3),
    "timestamp": NUMBER,
    "duration_ms": NUMBER,
    "stop_reason": st.none() | st.sampled_from(StopReason),
    "tool_call_id": TEXT.filter(bool),
}


def any_event() -> st.SearchStrategy[Event]:
    return st.sampled_from(ALL).flatmap(event_of)


def event_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    fields = {name: FIELDS[name] for name in kind.model_fields if name in FIELDS}
    for name, field in kind.model_fields.items():
        if field.annotation is str:
            fields.setdefault(name, TEXT)
        elif field.annotation == list[str]:
            fields[name] = st.lists(TEXT, max_size=3)
        elif field.annotation is bool:
            fields[name] = st.booleans()
        elif field.annotation is int:
            fields[name] = st.integers(0, 2**53)
    return st.builds(kind, **fields)


@pytest.mark.covers("EV-01")
def test_ten_public_classes_have_fixed_tags() -> None:
    assert {kind().type: kind for kind in PUBLIC.values()} == PUBLIC
    assert [str(tag) for tag in EventType][:10] == list(PUBLIC)


def test_every_class_has_a_tag_of_its_own() -> None:
    assert sorted(kind().type for kind in ALL) == sorted(EventType)
    assert {kind().type for kind in HINTS} == {"stream_chunk", "tool_output", "step_restarted"}


@pytest.mark.covers("EV-02")
def test_a_new_event_has_id_time_and_no_annotations() -> None:
    before = time.time()
    for kind in ALL:
        event = kind()
        assert len(event.id) == 12
        assert int(event.id, 16) >= 0
        assert isinstance(event.timestamp, float)
        assert before <= event.timestamp <= time.time()
        assert event.data == {}


@pytest.mark.covers("EV-03")
def test_ids_are_unique() -> None:
    assert len({UserMessage().id for _ in range(1000)}) == 1000


@pytest.mark.covers("EV-04")
@given(any_event())
def test_every_event_survives_its_line(event: Event) -> None:
    line = encode_event(event)
    assert b"\n" not in line
    assert decode_event(line) == event
    assert decode_event(line.decode()) == event
    assert type(decode_event(json.loads(line))) is type(event)
    assert decode_event(json.loads(line)) == event


@pytest.mark.covers("EV-04")
@pytest.mark.parametrize("kind", ALL)
def test_defaults_survive_for_each_class(kind: type[Event]) -> None:
    event = kind()
    assert decode_event(encode_event(event)) == event
    assert decode_event(event.dump()) == event


def test_a_line_has_base_fields_first_then_those_of_the_class_with_null_for_absent() -> None:
    event = AssistantMessage(id="0" * 12, timestamp=1.5, content="ü")
    assert encode_event(event).decode() == (
        '{"id":"000000000000","type":"assistant_message","timestamp":1.5,"data":{},"content":"ü","stop_reason":null}'
    )
    stopped = AssistantMessage(id="0" * 12, timestamp=1.5, stop_reason=StopReason.TOOL_USE)
    assert stopped.dump()["stop_reason"] == "tool_use"
    assert b'"stop_reason":"tool_use"' in encode_event(stopped)


@pytest.mark.covers("EV-05")
@pytest.mark.parametrize("data", [{"type": "x"}, {}, b'{"type":"x"}', b"{}", '{"content":"hi"}'])
def test_an_unknown_or_missing_type_is_refused(data: Any) -> None:
    with pytest.raises(UnknownMessage):
        decode_event(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"type":"tool_result","is_error":"perhaps"}',
        b'{"type":"user_message","parts":[{"type":"smell"}]}',
        b'{"type":"assistant_message","stop_reason":"bored"}',
    ],
)
def test_fields_that_do_not_fit_are_refused(data: bytes) -> None:
    with pytest.raises((InvalidMessage, UnknownMessage)):
        decode_event(data)


def test_fields_of_a_newer_aar_are_ignored() -> None:
    event = decode_event('{"type":"error","message":"m","colour":"red","id":"a","timestamp":1}')
    assert event == ErrorEvent(id="a", timestamp=1, message="m")


def test_events_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError):
        UserMessage().content = "x"


# --- tool calls -------------------------------------------------------------------------------


@pytest.mark.covers("EV-06")
def test_a_tool_call_without_an_id_gets_a_unique_one() -> None:
    found = [
        ToolCall(tool_name="a"),
        ToolCall(tool_name="a", tool_call_id=""),
        decode_event({"type": "tool_call", "tool_name": "a"}),
        decode_event(b'{"type":"tool_call","tool_call_id":""}'),
    ]
    ids = {call.tool_call_id for call in found if isinstance(call, ToolCall)}
    assert len(ids) == 4
    assert all(ids)


def test_a_tool_call_keeps_the_id_it_came_with_under_either_name() -> None:
    assert ToolCall(tool_call_id="x").tool_call_id == "x"
    for name in ("call_id", "tool_call_id"):
        call = decode_event({"type": "tool_call", name: "x"})
        assert isinstance(call, ToolCall)
        assert call.tool_call_id == "x"


# --- user messages ----------------------------------------------------------------------------

IMAGE = ImageBlock(image_url=ImageURL(url="data:image/png;base64,AA=="))


@pytest.mark.covers("EV-07")
def test_a_message_is_multimodal_when_it_has_parts() -> None:
    assert UserMessage(parts=[IMAGE]).is_multimodal
    assert UserMessage(parts=[TextBlock(text="a")]).is_multimodal
    assert not UserMessage(content="a").is_multimodal


@pytest.mark.covers("EV-08")
def test_the_text_of_a_multimodal_message_is_its_text_parts() -> None:
    message = UserMessage.of([TextBlock(text="a"), IMAGE, {"type": "text", "text": "b"}])
    assert message.content == "a b"
    assert message.parts == [TextBlock(text="a"), IMAGE, TextBlock(text="b")]
    assert UserMessage.of("plain", data={"kind": "prompt"}).content == "plain"
    assert text_of_parts([IMAGE]) == ""


@pytest.mark.covers("EV-09")
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"type": "text", "text": "a"}, TextBlock),
        ({"type": "image_url", "image_url": {"url": "http://x", "detail": "low"}}, ImageBlock),
        ({"type": "audio", "audio": {"url": "data:", "format": "wav"}}, AudioBlock),
        ({"type": "video", "video": {"url": "http://x"}}, VideoBlock),
    ],
)
def test_a_content_block_is_known_by_its_type(data: dict[str, Any], kind: type[Any]) -> None:
    assert type(BLOCK.validate_python(data)) is kind


@pytest.mark.covers("EV-09")
@pytest.mark.parametrize(
    "data", [{"type": "smell"}, {"text": "a"}, {"type": "text"}, {"type": "image_url", "image_url": "http://x"}, "text"]
)
def test_other_content_blocks_are_refused(data: Any) -> None:
    with pytest.raises(ValidationError):
        BLOCK.validate_python(data)


@pytest.mark.covers("EV-10")
def test_an_image_without_detail_has_no_such_key_when_nulls_are_left_out() -> None:
    assert IMAGE.model_dump(exclude_none=True) == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,AA=="},
    }
    assert IMAGE.dump()["image_url"]["detail"] is None
