"""How much one message of a server may be. Reading a larger one would stop everything else in this process."""

from __future__ import annotations

import re

__all__ = ["MESSAGE_LIMIT", "VALUES_LIMIT", "Oversize", "excess", "values"]

MESSAGE_LIMIT = 32 * 1024 * 1024  # bytes
VALUES_LIMIT = 1_000_000  # commas and opening brackets outside of texts: each value takes time and memory

_MARKS = (b",", b"{", b"[")
_MANY = 10_000  # marks, from which on it is worth a closer look
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_ID = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")'
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST = re.compile(_ID + rb"\s*\}\s*$")
_END = 256  # bytes at both ends of a message in which its id is looked for


def values(data: bytes) -> int:
    """At least the number of values in a piece of JSON, and not much more."""
    found = _marks(data)
    if found <= _MANY:
        return found
    texts = (data.count(b'"') - data.count(b'\\"')) // 2
    return texts if texts > VALUES_LIMIT else _marks(_TEXT.sub(b"", data))


def _marks(data: bytes) -> int:
    return sum(data.count(mark) for mark in _MARKS)


def excess(data: bytes, limit: int = MESSAGE_LIMIT) -> str:
    """What there is too much of, as the end of a sentence; nothing when the message may be read."""
    if len(data) > limit:
        return f"of more than {limit:,} bytes"
    if len(data) > VALUES_LIMIT and values(data) > VALUES_LIMIT:
        return f"with more than {VALUES_LIMIT:,} values"
    return ""


class Oversize:
    """A message that is not kept: its ends, and how long it has become."""

    def __init__(self) -> None:
        self._head = self._tail = b""
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(self._head) < _END:
            self._head += piece[:_END]
        self._tail = (self._tail + piece[-_END:])[-_END:]

    @property
    def id(self) -> int | str | None:
        """The id of the request that it would have answered, where it stands at one of its ends."""
        found = _ID_FIRST.match(self._head) or _ID_LAST.search(self._tail)
        if found is None:
            return None
        return found[1].decode(errors="replace").strip('"') if found[1].startswith(b'"') else int(found[1])
