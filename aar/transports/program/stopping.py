"""What a server waits for while it serves: that a signal, or something that went wrong, asks it to stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from aar.transports.program.exits import FAILED, Told
from aar.transports.program.signals import watch_signals

__all__ = ["Stop", "open_stop"]

T = TypeVar("T")


class Stop:
    """`asked` is set when the server is to end in order."""

    def __init__(self) -> None:
        self.asked = trio.Event()
        self._number = 0

    def by_signal(self, number: int) -> None:
        self._number = number
        self.asked.set()

    async def by_event(self, event: trio.Event) -> None:
        """Ask when `event` is set."""
        await event.wait()
        self.asked.set()

    async def before(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` gives, which is cut short when the server is asked to stop.

        Then raises `Told`: with 128 and the number of the signal, or 1 when it was no signal.
        """
        found: list[T] = []
        async with trio.open_nursery() as nursery:

            async def cut() -> None:
                await self.asked.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(cut)
            found.append(await work())
            nursery.cancel_scope.cancel()
        if not found:
            raise Told(128 + self._number if self._number else FAILED)
        return found[0]


@asynccontextmanager
async def open_stop() -> AsyncIterator[Stop]:
    """From here on a signal ends nothing by itself; when it comes again it ends the process at once."""
    stop = Stop()
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, stop.by_signal)
        yield stop
        nursery.cancel_scope.cancel()
