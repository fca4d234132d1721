"""What happened in a run, in order, as far as there is room: of what is said the newest is kept, and a gap is told."""

from __future__ import annotations

from collections import deque
from typing import Any

__all__ = ["ENTRY_WEIGHT", "MOST_EVENTS", "MOST_WEIGHT", "EventLog"]

MOST_EVENTS = 10_000  # pieces of what is said that one run keeps
MOST_WEIGHT = 4 * 1024 * 1024  # bytes of these, about
ENTRY_WEIGHT = 400  # bytes that an event takes besides its text, about

Event = dict[str, Any]


class EventLog:
    """Events by number, counted from 0. `weight` is what is kept of them, in bytes, about."""

    def __init__(self) -> None:
        self._states: list[Event] = []  # what comes before the first piece; it is always kept
        self._pieces: deque[tuple[Event, int]] = deque()
        self._dropped = 0
        self.weight = 0

    def add(self, event: Event, size: int = 0) -> None:
        """`size` is that of its text, in bytes, about."""
        self.weight += ENTRY_WEIGHT + size
        if event["type"] != "message_created" and not self._pieces:
            self._states.append(event)
            return
        self._pieces.append((event, ENTRY_WEIGHT + size))
        while len(self._pieces) > MOST_EVENTS or (self.weight > MOST_WEIGHT and len(self._pieces) > 1):
            self.weight -= self._pieces.popleft()[1]
            self._dropped += 1

    def at(self, number: int) -> tuple[Event, int] | None:
        """The event of this number and the number of the next one; in place of one that was dropped, the whole gap.

        `None` while there is none of this number.
        """
        place = number - len(self._states)
        if place < 0:
            return self._states[number], number + 1
        if place < self._dropped:
            return _gap(self._dropped - place), len(self._states) + self._dropped
        place -= self._dropped
        return (self._pieces[place][0], number + 1) if place < len(self._pieces) else None

    def all(self) -> list[Event]:
        """What is kept now, with the gap where it is."""
        gap = [_gap(self._dropped)] if self._dropped else []
        return [*self._states, *gap, *(event for event, _ in self._pieces)]


def _gap(count: int) -> Event:
    return {"type": "events_dropped", "count": count}
