"""One fact, one line of JSON: how a record is written and how it is read and checked again.

A line ends with `"seq":N,"turn_id":"...","crc":N`; the checksum is the CRC-32 of the bytes before `,"crc"`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any
from zlib import crc32

from pydantic_core import PydanticSerializationError

from aar.messages.events import Event, Recorded, decode_event, encode_event

__all__ = ["Damaged", "Line", "encode_record", "read_line", "storable"]

_END = re.compile(rb',"seq":(\d+),"turn_id":("(?:[^"\\]|\\.)*"),"crc":(\d+)\}$')
_END_BYTES = 400


class Damaged(ValueError):
    """These bytes were never written as a line: cut, or changed."""


class Line:
    """A line as read: an event with its place (`seq` 0 in old files, which are counted), or a header's fields."""

    __slots__ = ("event", "header", "seq", "turn_id")

    def __init__(
        self, event: Event | None = None, seq: int = 0, turn_id: str = "", header: dict[str, Any] | None = None
    ) -> None:
        self.event = event
        self.seq = seq
        self.turn_id = turn_id
        self.header = header


def encode_record(record: Recorded) -> tuple[Recorded, bytes]:
    """The record as it is kept, and its line with the newline."""
    event = record.event
    if not math.isfinite(event.timestamp) or not math.isfinite(event.__dict__.get("duration_ms", 0.0)):
        record = record._replace(event=storable(event))
    try:
        body = encode_event(record.event)
    except PydanticSerializationError:
        record = record._replace(event=storable(event))
        body = encode_event(record.event)
    turn_id = record.turn_id
    quoted = f'"{turn_id}"' if turn_id.isalnum() and turn_id.isascii() else json.dumps(turn_id)
    head = b'%b,"seq":%d,"turn_id":%b' % (body[:-1], record.seq, quoted.encode())
    return record, b'%b,"crc":%d}\n' % (head, crc32(head))


def read_line(raw: bytes) -> Line:
    """Read one line, without its newline.

    Raises `Damaged` for bytes that are no whole line, `MessageError` for a whole line that is no event.
    """
    end = _END.search(raw, max(0, len(raw) - _END_BYTES))
    if end is None:
        return _read_old_line(raw)
    if crc32(raw[: end.start(3) - len(b',"crc":')]) != int(end[3]):
        raise Damaged("the checksum does not fit")
    return Line(decode_event(raw), int(end[1]), json.loads(end[2]))


def _read_old_line(raw: bytes) -> Line:
    """Headers, and events of files without checksums."""
    try:
        fields = json.loads(raw)
    except ValueError as error:
        raise Damaged("not a line of JSON") from error
    if not isinstance(fields, dict):
        raise Damaged("not a JSON object")
    if fields.get("_meta") is True:
        return Line(header=fields)
    seq = fields.get("seq")
    return Line(decode_event(fields), seq if isinstance(seq, int) else 0, str(fields.get("turn_id") or ""))


def storable(event: Event) -> Event:
    """The event without what JSON has no form for: lone surrogates become U+FFFD, NaN and infinities `null` or 0."""
    fields = {name: _clean(value) for name, value in dict(event).items()}
    for name in ("timestamp", "duration_ms"):
        if name in fields and fields[name] is None:
            fields[name] = 0.0
    return type(event).model_validate(fields)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if _has_surrogates(value) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if hasattr(value, "model_dump"):
        return _clean(dict(value))
    return value


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
