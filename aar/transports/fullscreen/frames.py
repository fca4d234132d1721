"""urwid's event loop under Trio: what it would call back runs in one nursery, and a frame is drawn only when asked for.

The event loop that urwid brings draws after every wake-up of any task of the program. A session wakes up thousands of
times a second; nobody reads more than twenty frames.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
import urwid

__all__ = ["FRAME", "Frames"]

FRAME = 1 / 20
"""Seconds between two frames at least. The first one after a pause is drawn at once."""

LAZINESS = 3.0
"""The next frame waits so many times as long as this one took: drawing has a quarter of a CPU at most."""

Callback = Callable[[], Any]


class Frames(urwid.EventLoop):
    """For a `urwid.MainLoop`. `sent` is called after each frame, to hand what was drawn to the terminal."""

    def __init__(self, sent: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self._sent = sent
        self._nursery: trio.Nursery | None = None
        self._early: list[Callable[[trio.Nursery], None]] = []  # asked for before `run_async`
        self._drawings: list[Callback] = []
        self._wanted = trio.Event()
        self.drawn = 0

    def ask(self) -> None:
        """Something has changed that is to be seen."""
        self._wanted.set()

    async def run_async(self) -> None:
        """Until it is cancelled, or something that it calls raises."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for start in self._early:
                start(nursery)
            self._early.clear()
            self.ask()
            try:
                await self._draw()
            finally:
                self._nursery = None

    async def _draw(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            began = trio.current_time()
            for drawing in list(self._drawings):
                drawing()
            self.drawn += 1
            cost = trio.current_time() - began
            if self._sent is not None:
                await self._sent()
            await trio.sleep(max(FRAME, LAZINESS * cost))

    # --- what urwid asks for ---

    def alarm(self, seconds: float, callback: Callback) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def wait() -> None:
            with scope:
                await trio.sleep(seconds)
                callback()
                self.ask()

        self._start(wait)
        return scope

    def watch_file(self, fd: int, callback: Callback) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def watch() -> None:
            with scope:
                while True:
                    await trio.lowlevel.wait_readable(fd)
                    callback()
                    self.ask()

        self._start(watch)
        return scope

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._nursery is None:
            self._early.append(lambda nursery: nursery.start_soon(work))
        else:
            self._nursery.start_soon(work)

    def enter_idle(self, callback: Callback) -> Callback:
        self._drawings.append(callback)
        return callback

    def remove_alarm(self, handle: trio.CancelScope) -> bool:
        return _cancelled(handle)

    def remove_watch_file(self, handle: trio.CancelScope) -> bool:
        return _cancelled(handle)

    def remove_enter_idle(self, handle: Callback) -> bool:
        if handle not in self._drawings:
            return False
        self._drawings.remove(handle)
        return True

    def run(self) -> None:
        raise NotImplementedError("await run_async() inside Trio")


def _cancelled(scope: trio.CancelScope) -> bool:
    was_open = not scope.cancel_called
    scope.cancel()
    return was_open
