"""Bytes as they come, cut into lines. Imports next to nothing: an editor's first answer waits for it."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["LONGEST_LINE", "MOST_VALUES", "LineBuffer", "is_crowded"]

LONGEST_LINE = 128 * 1024 * 1024  # bytes; a longer one is dropped as it comes
MOST_VALUES = 50_000  # in the JSON of a line: commas and opening brackets outside of texts


async def is_crowded(line: bytes) -> bool:
    """Whether a line has more than `MOST_VALUES`, and should not be read. Others have their turn meanwhile."""
    if len(line) <= MOST_VALUES:
        return False
    import trio

    from aar.messages.json_values import counts

    for count in counts(line):
        if count > MOST_VALUES:
            return True
        await trio.lowlevel.checkpoint()
    return False


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
