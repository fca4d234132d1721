"""Blocking work of tools, off the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that is left to itself when the caller is cancelled."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
