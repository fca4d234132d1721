"""Ctrl+C and the signals that end a program: first the turn, then the program, and at last whatever it takes."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from aar.transports.program.exits import CANCELLED, HUNG_UP, TERMINATED

__all__ = ["AGAIN_WITHIN", "Interrupts", "open_interrupts"]

AGAIN_WITHIN = 2.0  # seconds in which a second Ctrl+C leaves
GRACE = 15.0  # seconds a turn may take to end after a signal that ends the program

_CODES = {signal.SIGINT: CANCELLED, signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}

CancelTurn = Callable[[], Awaitable[None]]


class Interrupts:
    """`code` is the exit code once a signal has asked the program to leave; until then `None`.

    `scope` surrounds everything that the program does. It is cancelled when there is no turn to wait for.
    """

    def __init__(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        self.code: int | None = None
        self.left_a_turn = False
        self._cancel_turn: CancelTurn | None = None
        self._last = float("-inf")

    @property
    def was_at_rest(self) -> bool:
        """Whether Ctrl+C came while nothing was running: leaving that way is no failure."""
        return self.code == CANCELLED and not self.left_a_turn

    @contextmanager
    def during_turn(self, cancel: CancelTurn) -> Iterator[None]:
        """Inside this block there is a turn: the first Ctrl+C calls `cancel` and nothing more."""
        self._cancel_turn = cancel
        try:
            yield
        finally:
            self._cancel_turn = None

    async def take(self, number: int) -> None:
        """Do what this signal asks for."""
        if self.code is not None and self.scope.cancel_called:
            os._exit(_CODES[signal.Signals(number)])  # asked for again and again: journals and children survive it
        is_again = number == signal.SIGINT and trio.current_time() - self._last < AGAIN_WITHIN
        is_leaving = self.code is not None  # the turn takes its time: whoever asks once more does not wait for it
        self._last = trio.current_time()
        if self._cancel_turn is None or is_again or is_leaving:
            self._leave(number)
        elif number == signal.SIGINT:
            await self._cancel_turn()
        else:
            self.code = _CODES[signal.Signals(number)]
            self.left_a_turn = True
            self.scope.deadline = trio.current_time() + GRACE
            await self._cancel_turn()

    def _leave(self, number: int) -> None:
        self.left_a_turn = self._cancel_turn is not None
        self.code = self.code or _CODES[signal.Signals(number)]
        self.scope.cancel()


@asynccontextmanager
async def open_interrupts() -> AsyncIterator[Interrupts]:
    """Signals are Aar's to deal with while this block runs. Cancelling its scope ends the block quietly."""
    with trio.open_signal_receiver(*_CODES) as signals:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                interrupts = Interrupts(scope)
                nursery.start_soon(_watch, signals, interrupts)
                yield interrupts
            nursery.cancel_scope.cancel()


async def _watch(signals: AsyncIterator[int], interrupts: Interrupts) -> None:
    async for number in signals:
        await interrupts.take(number)
