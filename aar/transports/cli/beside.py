"""While a person is at the prompt others may use the session, too: their turns are shown in its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from aar.client import SessionHandle
from aar.messages.events import Recorded, TurnEnded, TurnStarted, UserMessage
from aar.transports.cli.turn import TurnView, watch_turn

__all__ = ["Others", "said_by_others"]


class _Read(NamedTuple):
    line: str | None


class Others:
    """What others begin in one session. `seen` is the last fact that the person has been shown."""

    def __init__(self, handle: SessionHandle, *, from_running: bool = False, cancels: bool = True) -> None:
        """`from_running`: a turn that runs already is shown, too. `cancels`: Ctrl+C ends a turn of others."""
        self._handle = handle
        self._cancels = cancels
        self.seen = _before_running(handle) if from_running else handle.seq

    async def read(self, read: Callable[[], Awaitable[str | None]], view: Callable[[], TurnView]) -> str | None:
        """The next line that `read` gives; `None` when the session has ended, too.

        Cancels it when somebody begins a turn, and calls it again after that one has been shown.
        """
        while True:
            found = await self._first_of(read)
            if not isinstance(found, Recorded):
                return found.line if found is not None else None
            end = await watch_turn(self._handle, found.seq - 1, found.turn_id, view(), cancels=self._cancels)
            self.note_end(end)

    def note_end(self, end: TurnEnded | None = None) -> None:
        """Everything up to this end of a turn has been shown, or whatever there is."""
        new = self._handle.records(after=self.seen)
        ends = (record.seq for record in new if end is not None and record.event.id == end.id)
        self.seen = next(ends, self._handle.seq)

    async def _first_of(self, read: Callable[[], Awaitable[str | None]]) -> _Read | Recorded | None:
        """A line, the beginning of a turn, or nothing when there will be no more of either."""
        found: _Read | Recorded | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal found
                begun = await self._begun()
                if found is None:
                    found = begun
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            line = await read()
            found = _Read(line)
            nursery.cancel_scope.cancel()
        return found

    async def _begun(self) -> Recorded | None:
        with self._handle.follow(after=self.seen) as records:
            async for record in records:
                if isinstance(record.event, TurnStarted):
                    return record
        return None


def said_by_others(record: Recorded) -> str:
    """The prompt that this fact is, if somebody has typed it."""
    event = record.event
    if not isinstance(event, UserMessage) or event.data.get("kind", "prompt") not in ("prompt", "follow_up"):
        return ""
    return str(event.data.get("said", event.content)) or "[multimodal]"


def _before_running(handle: SessionHandle) -> int:
    """The fact before the turn that runs now, else the newest one."""
    for record in reversed(handle.records()):
        if isinstance(record.event, TurnEnded):
            break
        if isinstance(record.event, TurnStarted):
            return record.seq - 1
    return handle.seq
