"""Telling subscribers what happens, one after another, in the task of the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import trio

from aar.engine.events import EngineEvent
from aar.engine.subscribers import Subscribers

__all__ = ["Telling"]

LAST_WORDS = 5.0  # seconds for telling the end of a run whose caller is being cancelled


class Telling:
    """Calls that are due. Others put them in; the run makes them, so that subscribers may ask the session."""

    def __init__(self, subscribers: Subscribers) -> None:
        self._subscribers = subscribers
        self._due: deque[Callable[[], Awaitable[None]]] = deque()
        self._is_due = trio.Event()
        self._is_telling = False
        self._all_told = trio.Event()

    async def tell(self, events: Iterable[EngineEvent]) -> None:
        """Returns when everybody has been told."""
        self._put(events)
        while self._due or self._is_telling:
            await self._all_told.wait()

    async def keep_telling(self) -> None:
        """What makes the calls, for as long as the run goes on."""
        while True:
            await self._is_due.wait()
            self._is_due = trio.Event()
            await self._tell_now()
            self._all_told.set()
            self._all_told = trio.Event()

    async def tell_the_rest(self, events: Iterable[EngineEvent]) -> None:
        """What is left of a run that is over, also when its caller is being cancelled."""
        self._put(events)
        with trio.move_on_after(LAST_WORDS, shield=True):
            await self._tell_now()
        self._due.clear()

    def _put(self, events: Iterable[EngineEvent]) -> None:
        self._due.extend(call for event in events for call in self._subscribers.due(event))
        self._is_due.set()

    async def _tell_now(self) -> None:
        self._is_telling = True
        try:
            while self._due:
                await self._due.popleft()()
        finally:
            self._is_telling = False
