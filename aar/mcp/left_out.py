"""What of a server's list cannot be used, for people: which tool, and why."""

from __future__ import annotations

from aar.mcp.listing import cleaned

__all__ = ["TOLD", "LeftOut"]

TOLD = 20  # tools of one server that are named; of the others only their number is told
NAME = 80  # characters of a name


class LeftOut:
    """Filled while a server's tools are read, page by page."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._more = 0

    def begin(self) -> None:
        """The list is read anew."""
        self._said, self._more = [], 0

    def note(self, name: object, reason: str) -> None:
        """`reason` is a clause, such as `its schema is too long`."""
        who = f"{cleaned(name, NAME)!r}" if isinstance(name, str) else "one without a name"
        entry = f"{who} ({reason})"
        if entry in self._said:
            return
        if len(self._said) < TOLD:
            self._said.append(entry)
        else:
            self._more += 1

    @property
    def said(self) -> tuple[str, ...]:
        return (*self._said, f"{self._more} more") if self._more else tuple(self._said)
