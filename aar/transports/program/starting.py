"""A line on standard error while a start takes its time: extensions are loaded, MCP servers are dialled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from aar.transports.program.screen import Screen

__all__ = ["told_while_starting"]

SILENCE = 0.5  # seconds before the line appears
TICK = 0.25

Start = Callable[[str, Callable[[], Awaitable[None]]], None]


@asynccontextmanager
async def told_while_starting(start: Start, screen: Screen) -> AsyncIterator[None]:
    """Inside this block a terminal shows that something goes on. The line is gone when the block is left.

    `start` does work of this name beside everything else.
    """
    scope, gone = trio.CancelScope(), trio.Event()

    async def show() -> None:
        begun = trio.current_time()
        try:
            with scope:
                await trio.sleep(SILENCE)
                while True:
                    await screen.status(f"starting … {trio.current_time() - begun:.0f} s (Ctrl+C leaves)")
                    await trio.sleep(TICK)
        finally:
            gone.set()

    start("starting", show)
    try:
        yield
    finally:
        scope.cancel()
    await gone.wait()
    await screen.status("")
