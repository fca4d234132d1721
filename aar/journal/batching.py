"""Many small writes, one trip to a thread.

Going to a thread and back costs many times what a small write costs, and most of that is sleeping and being woken. Two
things make it cheap. The writes that come up while a thread is out wait for it, and go together on the next trip: a
thousand sessions share them. And when nobody else is in sight, whoever sent the thread looks after it for a glance,
half a millisecond at most, before it lets the others run: a small write is back before that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import trio

from aar.errors import StoreUnavailable

__all__ = ["Batching", "Piece"]

_LARGEST = 64  # pieces per trip, so that the first need not wait for hundreds of others
_SLOW = 1.0  # seconds after which the others no longer wait for a thread that is out
_GLANCE = 0.0005  # seconds; the loop stands still meanwhile, as it does for any short computation
_NO_GLANCE = 0.02  # seconds without another one after a glance that was in vain: a slow disk costs the loop little
_CROWD = 0.0001  # seconds since somebody else's trip; whoever comes sooner is one of many, and they share


@dataclass(slots=True, eq=False)
class Piece:
    """One piece of work, from `Batching.start`."""

    work: Callable[[], None]
    is_done: bool = False
    done: trio.Event | None = None  # only where somebody waits
    error: BaseException | None = None

    def result(self) -> None:
        """Raise what the work raised, once it is done."""
        if self.error is not None:
            raise self.error

    async def wait(self) -> None:
        """Until it is done; raises what the work raised. Cancelled, it leaves the work to the thread."""
        if not self.is_done:
            self.done = trio.Event()
            await self.done.wait()
        self.result()


class _Trip:
    """Pieces on their way through a thread, and who hears of their return: one at the gate, or else the loop."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces
        self._gate = threading.Lock()
        self._gate.acquire()
        self._settled = threading.Lock()

    def is_back_within(self, seconds: float) -> bool:
        """Stand at the gate. When this is false, the thread will report to the loop."""
        if seconds and self._gate.acquire(timeout=seconds):
            return True
        return not self._settled.acquire(blocking=False)  # the thread may have returned at this very moment

    def work_off(self) -> None:
        """In the thread."""
        for piece in self.pieces:
            try:
                piece.work()
            except BaseException as error:  # it belongs to the task that waits for this piece
                piece.error = error

    def fail(self, error: RuntimeError) -> None:
        """There is no thread for it."""
        for piece in self.pieces:
            piece.error = StoreUnavailable(f"Cannot write: {error}. Too many processes or threads run: end some.")

    def come_back(self) -> bool:
        """In the thread, at the end: whether somebody still stands at the gate."""
        if not self._settled.acquire(blocking=False):
            return False
        self._gate.release()
        return True


class Batching:
    """Runs short blocking functions in worker threads, in the order in which they come.

    `side_by_side` threads are out at a time, and what waits is shared out among them; up to `limit` when some are
    stuck. Use 1 for work that only computes or writes, more for work that waits, such as a sync. `glances` allows to
    stop the loop for a glance: for work that nearly always takes microseconds. With `gathers` whoever comes first
    waits for one round of the loop, so that all who come in it are shared out evenly: for work that takes longer.
    """

    def __init__(self, limit: int, *, side_by_side: int = 1, glances: bool = False, gathers: bool = False) -> None:
        self._limit = limit
        self._side_by_side = side_by_side
        self._glances = glances
        self._gathers = gathers
        self._no_glance_before = 0.0
        self._no_company_before = 0.0
        self._last_owner = ""
        self._waiting: list[Piece] = []
        self._out = 0
        self._left_at = 0.0
        self._token: trio.lowlevel.TrioToken | None = None

    async def run(self, work: Callable[[], None], *, owner: str = "") -> None:
        """Run `work` in a thread and raise what it raises. Cancelled, it leaves the work to the thread."""
        piece = self.start(work, owner=owner)
        if (
            self._gathers and len(self._waiting) == 1 and self._out < self._side_by_side
        ):  # the others wait for the first
            await self._depart_together()
        await piece.wait()

    def start(self, work: Callable[[], None], *, owner: str = "") -> Piece:
        """The same without waiting: perhaps it is done already. Not for one that gathers.

        `owner` is whose work it is: somebody who comes again at once is no crowd.
        """
        self._enter_run()
        piece = Piece(work)
        self._waiting.append(piece)
        if self._out < self._side_by_side:
            if not self._gathers:
                self._depart(self._glance(owner))
        elif self._out < self._limit and trio.current_time() - self._left_at > _SLOW:
            self._depart()
        return piece

    def _enter_run(self) -> None:
        """Threads of an earlier `trio.run` cannot report to this one."""
        token = trio.lowlevel.current_trio_token()
        if token is not self._token:
            self._token, self._out, self._waiting = token, 0, []

    def _glance(self, owner: str) -> float:
        """Seconds to look after the thread that leaves now."""
        if not self._glances or self._out:
            return 0.0
        now = time.monotonic()
        is_crowd = (not owner or owner != self._last_owner) and now < self._no_company_before
        self._last_owner = owner
        return 0.0 if is_crowd or now < self._no_glance_before else _GLANCE

    @trio.lowlevel.enable_ki_protection  # an interrupt would leave pieces that nobody takes along
    async def _depart_together(self) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        for threads in range(self._side_by_side - self._out, 0, -1):
            if self._waiting:
                self._depart(among=threads)

    @trio.lowlevel.enable_ki_protection  # an interrupt at the gate would leave a trip that nobody hears of
    def _depart(self, glance: float = 0.0, *, among: int = 0) -> None:
        share = min(_LARGEST, -(-len(self._waiting) // (among or self._side_by_side)))
        trip, self._waiting = _Trip(self._waiting[:share]), self._waiting[share:]
        token = trio.lowlevel.current_trio_token()
        self._out += 1
        self._left_at = trio.current_time()

        def back(_: object) -> None:
            if not trip.come_back():
                with suppress(trio.RunFinishedError):  # then nobody waits any more
                    token.run_sync_soon(self._arrive, token, trip)

        try:  # Without a name for the thread: to give it one and take it back costs as much as a write.
            trio.lowlevel.start_thread_soon(trip.work_off, back)
        except RuntimeError as error:  # the system gives no more threads; may well be called from the loop itself
            trip.fail(error)
            self._arrive(token, trip)
            return
        is_back = trip.is_back_within(glance)
        if glance:
            self._no_company_before = time.monotonic() + _CROWD
            if not is_back:
                self._no_glance_before = time.monotonic() + _NO_GLANCE
        if is_back:
            self._arrive(token, trip)

    def _arrive(self, token: trio.lowlevel.TrioToken, trip: _Trip) -> None:
        for piece in trip.pieces:
            piece.is_done = True
            if piece.done is not None:
                piece.done.set()
        if token is self._token:
            self._out -= 1
            if self._waiting:
                self._depart()
