"""How much one message of a server may be. Reading a larger one would stop everything else in this process."""

from __future__ import annotations

from aar.messages.json_values import ENDS, counts, id_at_the_ends

__all__ = ["MESSAGE_LIMIT", "VALUES_LIMIT", "Oversize", "excess"]

MESSAGE_LIMIT = 32 * 1024 * 1024  # bytes
VALUES_LIMIT = 100_000  # commas and opening brackets outside of texts: each value takes time and memory


def excess(data: bytes, limit: int = MESSAGE_LIMIT) -> str:
    """What there is too much of, as the end of a sentence; nothing when the message may be read."""
    if len(data) > limit:
        return f"of more than {limit:,} bytes"
    if len(data) > VALUES_LIMIT and any(count > VALUES_LIMIT for count in counts(data)):
        return f"with more than {VALUES_LIMIT:,} values"
    return ""


class Oversize:
    """A message that is not kept: its ends, and how long it has become."""

    def __init__(self) -> None:
        self._head = self._tail = b""
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(self._head) < ENDS:
            self._head += piece[:ENDS]
        self._tail = (self._tail + piece[-ENDS:])[-ENDS:]

    @property
    def id(self) -> int | str | None:
        """The id of the request that it would have answered, where it stands at one of its ends."""
        return id_at_the_ends(self._head, self._tail)
