"""Ctrl+C and the signals that end a program, where the terminal must be given back before anything else."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from aar.transports.program.exits import CANCELLED, HUNG_UP, TERMINATED

__all__ = ["AGAIN_WITHIN", "GRACE", "Leaving", "open_leaving"]

AGAIN_WITHIN = 2.0  # seconds in which a second Ctrl+C leaves
GRACE = 15.0  # seconds that a turn may take to end once the program is to end

_CODES = {signal.SIGINT: CANCELLED, signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}


class Leaving:
    """`asked` is set when the program is to end; `code` says how, `None` for an end that the user wanted.

    `interrupted` is called for a first Ctrl+C; `False` from it means that the next one is a first one, too. `last` is
    called before a signal ends the process at once.
    """

    def __init__(self, scope: trio.CancelScope) -> None:
        self.asked = trio.Event()
        self.code: int | None = None
        self.interrupted: Callable[[], bool] | None = None
        self.last: Callable[[], None] | None = None
        self._scope = scope
        self._interrupted_at = float("-inf")

    def leave(self) -> None:
        """The user has had enough."""
        self.asked.set()

    def take(self, number: int) -> None:
        """Do what this signal asks for. One after the end was asked for ends the process: journals survive that."""
        is_again = trio.current_time() - self._interrupted_at < AGAIN_WITHIN
        if number == signal.SIGINT:
            self._interrupted_at = trio.current_time()
        if self.asked.is_set():
            if self.last is not None:
                self.last()
            os._exit(_CODES[signal.Signals(number)])
        if number == signal.SIGINT and self.interrupted is not None and not is_again:
            if not self.interrupted():
                self._interrupted_at = float("-inf")
            return
        if number != signal.SIGINT or self.interrupted is None:
            self.code = _CODES[signal.Signals(number)]
        self.asked.set()
        if self.interrupted is None:  # there is nothing to end in order yet
            self._scope.cancel()
        else:
            self._scope.deadline = trio.current_time() + GRACE


@asynccontextmanager
async def open_leaving() -> AsyncIterator[Leaving]:
    """Signals are dealt with while this block runs. One that cancels it ends the block quietly."""
    with trio.open_signal_receiver(*_CODES) as signals:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                leaving = Leaving(scope)
                nursery.start_soon(_watch, signals, leaving)
                yield leaving
            nursery.cancel_scope.cancel()


async def _watch(signals: AsyncIterator[int], leaving: Leaving) -> None:
    async for number in signals:
        leaving.take(number)
