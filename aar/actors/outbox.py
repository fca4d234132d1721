"""From the calls of a step to the journal: what happens to them is on record, or shown, in the order in which it arose.

Part of the tool executor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby

import trio

from aar.errors import StoreUnavailable
from aar.journal.journal import Journal
from aar.messages.events import Event, Notice, ToolOutput, ToolStarted
from aar.messages.tools import SideEffect, ToolOutcome

__all__ = ["Outbox", "RunInside"]

RunInside = Callable[..., Awaitable[list[ToolOutcome]]]
"""Runs calls that a tool makes: see `run_inside` in `inner_calls`."""

_HARMLESS = {SideEffect.NONE, SideEffect.READ}


class Outbox:
    """What the calls of one step have to say. `tasks` is where a call may start a task of its own.

    `is_shared` by several calls: then each gives the others a moment to come along, so that calls which stand at the
    same point cost one write.
    """

    def __init__(
        self, journal: Journal, tasks: trio.Nursery, *, is_shared: bool, run_inside: RunInside | None = None
    ) -> None:
        self.tasks = tasks
        self.run_inside = run_inside
        self.shown_as = ""  # the id of the call of the conversation that a call inside of it belongs to
        self.questions = trio.Lock()  # one approval at a time, in the order of asking
        self.journal = journal
        self._is_shared = is_shared
        self._waiting: list[Event] = []
        self._writing = trio.Lock()
        self._is_broken = False  # a write has failed, and took along what others had to say

    async def put(self, *events: Event) -> None:
        """Hand over some events. When this returns, facts are on record, and so is all that led to this call."""
        self._waiting += events
        await self.others()
        await self._begin_writing()
        try:  # perhaps nothing is left: whoever wrote last has taken what was there
            if self._is_broken and events:
                await self._refuse()
            taken, self._waiting = self._waiting, []
            await self._take_in(taken)
        finally:
            self._writing.release()

    async def others(self) -> None:
        """Let the other calls come as far as they can."""
        if self._is_shared:
            await trio.lowlevel.checkpoint()

    async def _begin_writing(self) -> None:
        """Take the lock. A free one costs no trip through the scheduler: a journal makes one where it has to."""
        if self._writing.locked():
            await self._writing.acquire()
        else:
            self._writing.acquire_nowait()

    async def _refuse(self) -> None:
        """What this call had to say is lost: it must not go on as if it were on record. Its turn ends."""
        await trio.lowlevel.checkpoint_if_cancelled()  # as a rule it is, by the call whose write has failed
        raise StoreUnavailable("an earlier fact of this step could not be stored")

    async def _take_in(self, events: Sequence[Event]) -> None:
        """What is held and what has happened: facts that arose together are one write, hints stay between them."""
        journal, done = self.journal, 0
        try:
            for are_hints, group in groupby(events, key=lambda event: isinstance(event, ToolOutput)):
                some = list(group)
                if are_hints:
                    await journal.flush()
                    for hint in some:
                        journal.hint(hint)
                else:
                    await journal.append(*some, sync=any(map(_has_effect, some)))
                done += len(some)
        except trio.Cancelled:  # of one call, perhaps: the others, whose facts these may be, wait behind it
            self._waiting[:0] = events[done:]
            raise
        except BaseException:
            self._is_broken = True
            raise
        await journal.flush()
        await journal.room()


def _has_effect(event: Event) -> bool:
    """Whether something is about to change; a call inside another one is told as a notice."""
    effects = event.side_effects if isinstance(event, ToolStarted) else event.data.get("side_effects", ())
    return isinstance(event, ToolStarted | Notice) and not set(effects) <= _HARMLESS
