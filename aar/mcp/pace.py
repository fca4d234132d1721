"""How fast a server may talk. One that says more is read slowly: its pipe or connection fills, and it has to wait."""

from __future__ import annotations

import trio

__all__ = ["Pace"]

LINES_PER_SECOND = 500
LINES_AT_ONCE = 2_000
LONGEST_PAUSE = 1.0  # seconds; a single burst is forgiven sooner than it would have to be


class Pace:
    """One for each stream of a server."""

    def __init__(self) -> None:
        self._room = float(LINES_AT_ONCE)
        self._looked = trio.current_time()

    async def keep(self, lines: int) -> None:
        """To be called with what has just been read; waits when it was too much."""
        now = trio.current_time()
        self._room = min(LINES_AT_ONCE, self._room + (now - self._looked) * LINES_PER_SECOND) - lines
        self._looked = now
        if self._room < 0:
            self._room = max(self._room, -LONGEST_PAUSE * LINES_PER_SECOND)
            await trio.sleep(-self._room / LINES_PER_SECOND)
