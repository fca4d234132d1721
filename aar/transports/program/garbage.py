"""When Python looks for garbage: not while a program starts."""

from __future__ import annotations

import gc
from typing import Final

import trio

__all__ = ["collect_once_started"]

STARTED: Final = 1.0  # seconds; what a start needs is imported by then


async def collect_once_started() -> None:
    """Turn the collector on again, which `aar.__main__` has turned off, and keep it from what the start has made.

    That is a quarter of a million objects, all there to stay: a look at them in the middle of a start takes 30 ms.
    """
    await trio.sleep(STARTED)
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # new objects; to look through as many takes about 1 ms
    gc.enable()
