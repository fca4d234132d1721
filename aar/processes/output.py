"""Output of any length in memory of a fixed size: the head and the tail are kept, the middle is counted."""

from __future__ import annotations

__all__ = ["Clip", "fit"]

MARK = "\n... ({} characters left out) ...\n"


class Clip:
    """Text that keeps its first and last `limit` characters."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.length = 0
        self._head: list[str] = []
        self._tail = ""

    def add(self, text: str) -> None:
        room = max(0, self.limit - self.length)
        self.length += len(text)
        if room:
            self._head.append(text[:room])
            text = text[room:]
        if text:
            self._tail = (self._tail + text)[-self.limit :] if self.limit else ""

    def text(self, limit: int | None = None) -> str:
        """All of it if it has no more than `limit` characters, else head, mark and tail within `limit`."""
        limit = self.limit if limit is None else min(limit, self.limit)
        head = "".join(self._head)
        if self.length <= limit:
            return head
        kept = limit - len(MARK.format(self.length))
        if kept <= 0:
            return head[:limit]
        front, back = kept // 2, kept - kept // 2
        return head[:front] + MARK.format(self.length - kept) + (head + self._tail)[-back:]


def fit(first: Clip, second: Clip, limit: int) -> tuple[str, str]:
    """Both texts within `limit` characters together: each has a right to half, and to what the other leaves."""
    half = limit // 2
    spare_of_first = max(0, half - first.length)
    spare_of_second = max(0, limit - half - second.length)
    return first.text(half + spare_of_second), second.text(limit - half + spare_of_first)
