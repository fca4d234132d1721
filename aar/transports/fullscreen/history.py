"""What was typed before, and the draft that is kept while somebody looks at it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["History"]

LIMIT = 1_000
"""Entries that are kept."""


class History:
    """Oldest first. Where it stands is between its entries and the draft, which comes last."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries: list[str] = []
        self._at = 0
        self._draft = ""
        for entry in entries:
            self.add(entry)

    def add(self, text: str) -> None:
        """Something was said: back to an empty draft. The same as the newest entry is not kept twice."""
        if text.strip() and self._entries[-1:] != [text]:
            self._entries = [*self._entries[1 - LIMIT :], text]
        self._at, self._draft = len(self._entries), ""

    def add_older(self, entries: Iterable[str]) -> None:
        """Entries from before all others; what is there already comes once. Whoever looks back stays where they are."""
        known = set(self._entries)
        older = [text for text in entries if text not in known]
        older = older[max(0, len(older) + len(self._entries) - LIMIT) :]
        self._entries[:0] = older
        self._at += len(older)

    def previous(self, current: str) -> str | None:
        """The entry before; `None` at the oldest. `current` is kept as the draft when this leaves it."""
        if self._at == 0:
            return None
        if self._at == len(self._entries):
            self._draft = current
        self._at -= 1
        return self._entries[self._at]

    def next(self) -> str | None:
        """The entry after, and the draft after the newest; `None` behind it."""
        if self._at >= len(self._entries):
            return None
        self._at += 1
        return self._draft if self._at == len(self._entries) else self._entries[self._at]
