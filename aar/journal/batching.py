"""Many small writes, one trip to a thread.

Going to a thread and back costs several times what a small write costs. So the writes that come up while a thread is
out wait for it, and go together on the next trip: one session pays one trip per write, a thousand share them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import trio

__all__ = ["Batching"]

_LARGEST = 64  # pieces per trip, so that the first need not wait for hundreds of others
_SLOW = 1.0  # seconds after which the others no longer wait for a thread that is out


@dataclass(slots=True, eq=False)
class _Piece:
    work: Callable[[], None]
    done: trio.Event = field(default_factory=trio.Event)
    error: BaseException | None = None


class Batching:
    """Runs short blocking functions in worker threads, in the order in which they come.

    `side_by_side` threads are out at a time, and what waits is shared out among them; up to `limit` when some are
    stuck. Use 1 for work that only computes or writes, more for work that waits, such as a sync.
    """

    def __init__(self, limit: int, *, side_by_side: int = 1) -> None:
        self._limit = limit
        self._side_by_side = side_by_side
        self._waiting: list[_Piece] = []
        self._out = 0
        self._left_at = 0.0
        self._token: trio.lowlevel.TrioToken | None = None

    async def run(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread and raise what it raises. Cancelled, it leaves the work to the thread."""
        self._enter_run()
        piece = _Piece(work)
        self._waiting.append(piece)
        is_slow = self._out < self._limit and trio.current_time() - self._left_at > _SLOW
        if self._out < self._side_by_side or is_slow:
            self._depart()
        await piece.done.wait()
        if piece.error is not None:
            raise piece.error

    def _enter_run(self) -> None:
        """Threads of an earlier `trio.run` cannot report to this one."""
        token = trio.lowlevel.current_trio_token()
        if token is not self._token:
            self._token, self._out, self._waiting = token, 0, []

    def _depart(self) -> None:
        share = min(_LARGEST, -(-len(self._waiting) // self._side_by_side))
        batch, self._waiting = self._waiting[:share], self._waiting[share:]
        token = trio.lowlevel.current_trio_token()
        self._out += 1
        self._left_at = trio.current_time()

        def back(_: object) -> None:
            with suppress(trio.RunFinishedError):  # then nobody waits any more
                token.run_sync_soon(self._arrive, token, batch)

        trio.lowlevel.start_thread_soon(lambda: _work_off(batch), back, "journal writes")

    def _arrive(self, token: trio.lowlevel.TrioToken, batch: list[_Piece]) -> None:
        for piece in batch:
            piece.done.set()
        if token is self._token:
            self._out -= 1
            if self._waiting:
                self._depart()


def _work_off(batch: list[_Piece]) -> None:
    for piece in batch:
        try:
            piece.work()
        except BaseException as error:  # it belongs to the task that waits for this piece
            piece.error = error
