"""Exit codes, and the wall between errors and the user: one clear line for each, never a traceback."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable

import trio

from aar.display import plain
from aar.errors import AarError, ClientGone, ConfigError, InvalidMessage
from aar.groups import leaves
from aar.transports.program.garbage import collect_once_started
from aar.transports.program.sentences import sentence

__all__ = [
    "CANCELLED",
    "DONE",
    "FAILED",
    "HUNG_UP",
    "TERMINATED",
    "USAGE",
    "Told",
    "code_of_stop",
    "complain",
    "run_to_code",
]

DONE = 0
FAILED = 1
USAGE = 2
HUNG_UP = 129
CANCELLED = 130
TERMINATED = 143

_STOPS = {
    "end_turn": DONE,
    "max_tokens": DONE,
    "max_steps": 3,
    "timed_out": 4,
    "budget_exceeded": 5,
    "cancelled": CANCELLED,
}


class Told(AarError):
    """The command ends with this exit code, and the user knows why already."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


logger = logging.getLogger(__name__)


def code_of_stop(stop: str) -> int:
    """The exit code for the way a turn ended."""
    return _STOPS.get(stop, FAILED)


def run_to_code(work: Callable[[], Awaitable[int]]) -> int:
    """Run `work` under Trio. Errors become lines on standard error and an exit code."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # without it Trio leaves Ctrl+C alone
    try:
        return trio.run(_beside_the_collector, work)
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:  # a wall: nothing but people is above us
        return _code_of(error)


async def _beside_the_collector(work: Callable[[], Awaitable[int]]) -> int:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_once_started)
        code = await work()
        nursery.cancel_scope.cancel()
    return code


def complain(text: str) -> None:
    """One line, or several, for the user on standard error."""
    with contextlib.suppress(OSError):  # nobody reads it
        print(f"aar: {plain(text)}", file=sys.stderr, flush=True)


def _code_of(error: BaseException) -> int:
    found = leaves(error)
    if any(_is_interrupt(leaf) for leaf in found):
        return CANCELLED
    logger.debug("the command failed", exc_info=error)
    for text in dict.fromkeys("" if isinstance(leaf, Told) else sentence(leaf) for leaf in found):
        if text:
            complain(text)
    for leaf in found:
        if isinstance(leaf, Told):
            return leaf.code
    if any(isinstance(leaf, ClientGone | BrokenPipeError) for leaf in found):
        return CANCELLED
    return USAGE if all(isinstance(leaf, ConfigError | InvalidMessage) for leaf in found) else FAILED


def _is_interrupt(error: BaseException | None) -> bool:
    """Also one that came while a class was made: Python 3.11 raises it as the cause of a RuntimeError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None
