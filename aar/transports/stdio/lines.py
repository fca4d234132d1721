"""Bytes as they come, cut into lines. Imports next to nothing: an editor's first answer waits for it."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["LONGEST_LINE", "LineBuffer"]

LONGEST_LINE = 128 * 1024 * 1024  # bytes; a longer one is dropped as it comes


class LineBuffer:
    """Bytes as they come, cut into lines."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data)
        self._looked_at = 0
        self._is_dropping = False

    def feed(self, data: bytes) -> None:
        self._data += data

    def lines(self) -> Iterator[bytes | None]:
        """The whole lines so far without their ends, blank ones left out; `None` for one that was too long."""
        while (end := self._data.find(b"\n", self._looked_at)) >= 0:
            line = bytes(self._data[:end]).strip()
            del self._data[: end + 1]
            self._looked_at = 0
            if self._is_dropping:
                self._is_dropping = False
                yield None
            elif line:
                yield line
        self._looked_at = len(self._data)
        if self._looked_at > LONGEST_LINE:
            self._data.clear()
            self._looked_at = 0
            self._is_dropping = True

    def rest(self) -> bytes:
        """What has no end yet."""
        return bytes(self._data)
