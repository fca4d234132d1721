"""The signals that end a server: in order when they come once, at once when they come again.

Imports next to nothing, so that a program can ask for it before it loads what it needs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

__all__ = ["leave_on_signals", "obey", "watch_signals"]


def _ending() -> list[signal.Signals]:
    """Who was started by `nohup` stays when its terminal is closed."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    return [one for one in numbers if one != signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]


def leave_on_signals(code: int | None = None) -> None:
    """Until an event loop takes them over, a signal ends the process: nothing has begun yet.

    Without a `code` that of its end is 128 and the number of the signal.
    """

    def leave(number: int, _: object) -> None:
        os._exit(128 + number if code is None else code)

    for number in _ending():
        signal.signal(number, leave)


async def watch_signals(end: Callable[[int], None], *, task_status: trio.TaskStatus[None]) -> None:
    """The first signal calls `end`; one more ends the process at once: journals and children survive that."""
    import trio

    is_ending = False
    with trio.open_signal_receiver(*_ending()) as signals:
        task_status.started()
        async for number in signals:
            if is_ending:
                os._exit(128 + number)
            is_ending = True
            end(number)


def obey(number: int) -> None:
    """What the system would have done with this signal. Comes back when the program goes on."""
    ours = signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.signal(number, ours)
