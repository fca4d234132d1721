"""Addresses of actors: how to tell and ask."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

from aar.errors import WouldDeadlock
from aar.kernel.envelope import Answer, Envelope
from aar.kernel.mailbox import Mailbox, MailboxStatistics
from aar.messages.base import Request

__all__ = ["LocalRef", "Ref", "acting_as"]

M = TypeVar("M", contravariant=True)
R = TypeVar("R")


class Ref(Protocol[M]):
    """An address: cheap, shareable, silent about where the actor runs and whether it was restarted."""

    @property
    def name(self) -> str: ...

    async def tell(self, message: M) -> None:
        """Send. Waits while the mailbox is full; raises `ActorStopped`."""

    def tell_nowait(self, message: M) -> None:
        """Send without waiting; raises `MailboxFull` or `ActorStopped`."""

    async def ask(self, request: Request[R]) -> R:
        """Send and wait for the answer. There is no time limit of its own: use a cancel scope.

        Raises `ActorStopped`, `ActorCrashed`, `WouldDeadlock`, or the error the actor answers with.
        """

    def asking(self, request: Request[R]) -> AbstractAsyncContextManager[Callable[[], Awaitable[R]]]:
        """`ask` in two halves: inside the block the request is delivered; call what it yields for the answer."""


_acting: ContextVar[LocalRef | None] = ContextVar("aar_acting_actor", default=None)


class LocalRef:
    """The address of an actor in this process."""

    __slots__ = ("_asks", "_mailbox", "name")

    def __init__(self, name: str, mailbox: Mailbox[Any]) -> None:
        self.name = name
        self._mailbox = mailbox
        self._asks: dict[Answer, LocalRef] = {}  # whom this actor waits for, by open ask

    async def tell(self, message: Any) -> None:
        await self._mailbox.put(Envelope(message))

    def tell_nowait(self, message: Any) -> None:
        self._mailbox.put_nowait(Envelope(message))

    async def ask(self, request: Request[R]) -> R:
        async with self.asking(request) as answer:
            return await answer()

    @asynccontextmanager
    async def asking(self, request: Request[R]) -> AsyncIterator[Callable[[], Awaitable[R]]]:
        asker = _acting.get()
        answer = Answer()
        if asker is not None:
            asker._refuse_ring(self)
            asker._asks[answer] = self
        try:
            await self._mailbox.put(Envelope(request, answer))
            yield cast("Callable[[], Awaitable[R]]", answer.wait)
        finally:
            answer.asker_left.set()
            if asker is not None:
                del asker._asks[answer]

    def _refuse_ring(self, target: LocalRef) -> None:
        ring = _path(target, self)
        if ring:
            names = " -> ".join(ref.name for ref in (self, *ring))
            raise WouldDeadlock(f"this ask would wait for itself: {names}")

    def statistics(self) -> MailboxStatistics:
        return self._mailbox.statistics()

    def __repr__(self) -> str:
        return f"<Ref {self.name}>"


def _path(start: LocalRef, goal: LocalRef) -> list[LocalRef]:
    """The actors from `start` to `goal` along open asks; empty when there is no such way."""
    came_from: dict[LocalRef, LocalRef | None] = {start: None}
    frontier = [start]
    while frontier:
        current = frontier.pop()
        if current is goal:
            path: list[LocalRef] = []
            step: LocalRef | None = current
            while step is not None:
                path.append(step)
                step = came_from[step]
            return path[::-1]
        for answer, following in current._asks.items():
            if not answer.is_given and following not in came_from:  # given: the asker only has to wake up
                came_from[following] = current
                frontier.append(following)
    return []


def acting_as(ref: LocalRef | None) -> None:
    """From here on this task, and the tasks it starts, ask as this actor. For supervisors."""
    _acting.set(ref)
