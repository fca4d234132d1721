"""Blocking work of tools, off the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

__all__ = ["in_thread"]

THREADS = 40  # of tools at once, in one run of Trio; one that hangs on a dead disk keeps its place until it ends

T = TypeVar("T")

_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("aar.tools.threads")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that is left to itself when the caller is cancelled.

    Not among Trio's own threads: tools that hang must not keep names of hosts from being looked up.
    """
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=_threads())


def _threads() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
        return limiter
