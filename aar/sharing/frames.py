"""Frames: one JSON object a line, each with a `type`. Bounded before they are read."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import trio

from aar.errors import ProtocolError
from aar.messages.json_values import counts

__all__ = ["MOST_FROM_OWNER", "MOST_VALUES", "VERSION", "Frame", "FrameError", "FrameReader", "frame"]

VERSION = 1  # of what is said
MOST_FROM_OWNER = 256 * 1024 * 1024  # bytes of a frame; a fact may hold images
MOST_VALUES = 50_000  # in a frame of somebody who attaches: commas and opening brackets outside of texts

_CHUNK = 65_536


class Frame(NamedTuple):
    """A frame as it was read."""

    type: str
    fields: dict[str, Any]


class FrameError(ProtocolError):
    """Bytes that are no frame. When it `is_fatal` nobody can say where the next one begins."""

    def __init__(self, text: str, *, is_fatal: bool = False) -> None:
        super().__init__(text)
        self.is_fatal = is_fatal


def frame(kind: str, **fields: Any) -> bytes:
    """One line."""
    return json.dumps({"type": kind, **fields}, separators=(",", ":")).encode() + b"\n"


class FrameReader:
    """The frames of one stream, in order."""

    def __init__(self, stream: trio.abc.ReceiveStream, *, most_bytes: int, most_values: int = 0) -> None:
        """`most_values`: 0 trusts the other side."""
        self._stream = stream
        self._most_bytes = most_bytes
        self._most_values = most_values
        self._data = bytearray()
        self._looked_at = 0
        self._number = 0

    async def read(self) -> Frame | None:
        """The next one; `None` at the end. Raises `FrameError`, and `trio.BrokenResourceError`."""
        line = await self._line()
        if line is None:
            return None
        self._number += 1
        for count in counts(line) if 0 < self._most_values < len(line) else ():
            if count > self._most_values:
                raise FrameError(f"frame {self._number} has more than {self._most_values:,} values")
            await trio.lowlevel.checkpoint()
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FrameError(f"frame {self._number} is not a line of JSON, or nested too deeply") from error
        kind = fields.get("type") if isinstance(fields, dict) else None
        if not isinstance(kind, str):
            raise FrameError(f'frame {self._number} is no JSON object with a text "type"')
        return Frame(kind, fields)

    async def _line(self) -> bytes | None:
        while (end := self._data.find(b"\n", self._looked_at)) < 0:
            self._looked_at = len(self._data)
            if self._looked_at > self._most_bytes:
                raise FrameError(f"a frame may have {self._most_bytes:,} bytes at most", is_fatal=True)
            data = await self._stream.receive_some(_CHUNK)
            if not data:
                return None
            self._data += data
        line = bytes(self._data[:end])
        del self._data[: end + 1]
        self._looked_at = 0
        return line
