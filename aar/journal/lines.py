"""One fact, one line of JSON: how a record is written and how it is read and checked again.

A line ends with `"seq":N,"turn_id":"...","crc":N`; the checksum is the CRC-32 of the bytes before `,"crc"`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple
from zlib import crc32

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from aar.messages.encoding import decode_event, encode_event
from aar.messages.events import Event, Recorded

__all__ = ["Damaged", "Line", "encode_record", "read_line", "storable"]

_END = re.compile(rb',"seq":(\d+),"turn_id":("(?:[^"\\]|\\.)*"),"crc":(\d+)\}$')
_END_BYTES = 400
_LAST_SEQ = 2**53  # what every reader of JSON takes for a whole number
_DEEPEST = 150  # levels; readers of JSON give up at 200
_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()
_SURROGATE = re.compile("[\ud800-\udfff]")


class Damaged(ValueError):
    """These bytes were never written as a line: cut, or changed."""


class Line(NamedTuple):
    """A line as read: an event with its place (`seq` 0 in old files, which are counted), or a header's fields."""

    event: Event | None = None
    seq: int = 0
    turn_id: str = ""
    header: dict[str, Any] | None = None
    is_checked: bool = False


def encode_record(record: Recorded) -> tuple[Recorded, bytes]:
    """The record as it is kept (see `storable`), and its line with the newline."""
    body = _encoded(record.event)
    if body is None:
        record = record._replace(event=storable(record.event))
        body = encode_event(record.event)
    turn_id = record.turn_id
    if not (turn_id.isalnum() and turn_id.isascii()):
        record = record._replace(turn_id=_clean(turn_id, 0))
        turn_id = json.dumps(record.turn_id)[1:-1]
    head = b'%b,"seq":%d,"turn_id":"%b"' % (body[:-1], record.seq, turn_id.encode())
    return record, b'%b,"crc":%d}\n' % (head, crc32(head))


def _encoded(event: Event) -> bytes | None:
    """`None` for an event that would not come back as it is."""
    try:
        body = encode_event(event)
    except PydanticSerializationError:
        return None
    # The serializer refuses lone surrogates in values, and writes those in keys as U+FFFD without a word.
    is_suspect = b"null" in body or _REPLACED in body or body.count(b"{") + body.count(b"[") > _DEEPEST
    return None if is_suspect and not _is_plain(event.__dict__, 0) else body


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return depth < _DEEPEST and all(_is_text(key) and _is_plain(item, depth + 1) for key, item in value.items())
    if isinstance(value, list | tuple):
        return depth < _DEEPEST and all(_is_plain(item, depth + 1) for item in value)
    return True


def _is_text(key: Any) -> bool:
    return not isinstance(key, str) or _SURROGATE.search(key) is None


def read_line(raw: bytes) -> Line:
    """Read one line, without its newline.

    Raises `Damaged` for bytes that are no whole line, `MessageError` for a whole line that is no event.
    """
    end = _END.search(raw, max(0, len(raw) - _END_BYTES))
    if end is None:
        return _read_old_line(raw)
    if crc32(raw[: end.start(3) - len(b',"crc":')]) != int(end[3]):
        raise Damaged("the checksum does not fit")
    if int(end[1]) > _LAST_SEQ:
        raise Damaged("the number is none that was ever given")
    return Line(decode_event(raw), int(end[1]), json.loads(end[2]), is_checked=True)


def _read_old_line(raw: bytes) -> Line:
    """Headers, and events of files without checksums."""
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Damaged("not a line of JSON, or nested too deeply") from error
    if not isinstance(fields, dict):
        raise Damaged("not a JSON object")
    if fields.get("_meta") is True:
        return Line(header=fields)
    seq = fields.get("seq")
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 < seq <= _LAST_SEQ:
        seq = 0
    return Line(decode_event(fields), seq, str(fields.get("turn_id") or ""))


def storable(event: Event) -> Event:
    """The event without what could not be read back from a line of JSON.

    Lone surrogates become U+FFFD, NaN and infinities `null` (a time: 0), what is nested deeper than readers go a
    note that says so, and objects that JSON does not know their text.
    """
    fields = {name: _clean(value, 1) for name, value in dict(event).items()}
    for name in ("timestamp", "duration_ms"):
        if name in fields and fields[name] is None:
            fields[name] = 0.0
    return type(event).model_validate(fields)


def _clean(value: Any, depth: int) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case BaseModel():
            return _clean(dict(value), depth)
        case dict() | list() | tuple() | set() | frozenset() if depth >= _DEEPEST:
            return "[nested too deeply]"
        case dict():
            return {_clean(str(key), depth): _clean(item, depth + 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_clean(item, depth + 1) for item in value]
        case _:
            return _clean(str(value), depth)
