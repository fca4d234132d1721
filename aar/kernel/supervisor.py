"""Starting, restarting and stopping services.

The words are OTP's. The only strategy is one_for_one: a restarted service keeps its mailbox, so its neighbours
hold nothing stale and need no restart of their own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

import trio

from aar.errors import ActorCrashed, RestartLimit
from aar.groups import alone
from aar.kernel.mailbox import Mailbox, MailboxStatistics
from aar.kernel.ref import LocalRef, Ref, acting_as
from aar.kernel.registry import Registry

__all__ = ["Child", "ChildStatistics", "Exhausted", "Restart", "Supervisor", "open_supervisor"]

M = TypeVar("M")
Body = Callable[[Mailbox[M]], Awaitable[None]]

FIRST_BACKOFF = 0.010  # seconds; doubles with every recent crash: 10, 20, 40 ms

logger = logging.getLogger(__name__)


class Restart(Enum):
    """When a child that ended is started again."""

    PERMANENT = "always"
    TRANSIENT = "after a crash"
    TEMPORARY = "never"


class Exhausted(Enum):
    """What happens when a child has spent its restarts."""

    ESCALATE = "the supervisor fails with RestartLimit"
    GIVE_UP = "as if the child had returned"


class Child(NamedTuple, Generic[M]):
    """What a supervisor needs to know of a service. `run` is called afresh at every start."""

    name: str
    run: Body[M]
    restart: Restart = Restart.TRANSIENT
    exhausted: Exhausted = Exhausted.ESCALATE
    capacity: int = 64


class ChildStatistics(NamedTuple):
    """`crashes` since the child was started by its supervisor; `mailbox` as it is now."""

    name: str
    crashes: int
    mailbox: MailboxStatistics


class _Cell:
    """A child at run time: what stays the same over its restarts."""

    def __init__(self, child: Child[Any]) -> None:
        self.child = child
        self.mailbox: Mailbox[Any] = Mailbox(child.name, child.capacity)
        self.ref = LocalRef(child.name, self.mailbox)
        self.scope = trio.CancelScope()
        self.gone = trio.Event()
        self.crashes = 0


class Supervisor:
    """Runs services in its own nursery. Made by `open_supervisor`."""

    def __init__(self, nursery: trio.Nursery, registry: Registry, max_restarts: int, within: float) -> None:
        self._nursery = nursery
        self._registry = registry
        self._max_restarts = max_restarts
        self._within = within
        self._cells: dict[str, _Cell] = {}

    def start(self, child: Child[M]) -> Ref[M]:
        """Start a service; its mailbox takes messages at once.

        Raises `ValueError` when the name is taken and `RuntimeError` when the supervisor's block has been left.
        """
        cell = _Cell(child)
        self._registry.add(cell.ref)
        try:
            self._nursery.start_soon(self._keep_running, cell, name=child.name)
        except RuntimeError:
            self._registry.remove(cell.ref)
            raise
        self._cells[child.name] = cell
        return cast("Ref[M]", cell.ref)

    async def stop(self, name: str, *, grace: float = 5.0) -> None:
        """Cancel a child and wait until it is gone, at most `grace` seconds. An unknown name is fine.

        From the first moment waiting askers and later senders get `ActorStopped`. What the child had taken it may
        still answer while it cleans up; after that, or after `grace`, those askers get `ActorStopped` too.
        """
        cell = self._cells.get(name)
        if cell is None:
            return
        cell.scope.cancel()  # first: a child that waits for messages shall see this, not a closed mailbox
        cell.mailbox.close()
        with trio.move_on_after(grace) as waiting:
            await cell.gone.wait()
        if waiting.cancelled_caught:
            logger.error("%s is still cleaning up %g s after it was stopped", name, grace)
            cell.mailbox.fail_taken()

    async def wait_gone(self, name: str) -> None:
        """Until this child has ended for good. Returns at once for a name that nobody has."""
        cell = self._cells.get(name)
        if cell is not None:
            await cell.gone.wait()

    def names(self) -> list[str]:
        """Running children, oldest first."""
        return list(self._cells)

    def statistics(self) -> list[ChildStatistics]:
        return [ChildStatistics(name, cell.crashes, cell.mailbox.statistics()) for name, cell in self._cells.items()]

    async def _keep_running(self, cell: _Cell) -> None:
        recent: deque[float] = deque()
        try:
            with cell.scope:
                while True:
                    crash = await self._run_once(cell)
                    await trio.lowlevel.checkpoint_if_cancelled()  # what is being stopped needs no restart
                    if not _starts_again(cell.child, crash):
                        break
                    if not await self._has_restarts_left(cell, recent, crash):
                        break
        finally:
            cell.mailbox.close()
            cell.mailbox.fail_taken()
            self._registry.remove(cell.ref)
            self._cells.pop(cell.child.name, None)
            cell.gone.set()

    async def _run_once(self, cell: _Cell) -> Exception | None:
        acting_as(cell.ref)
        try:
            await cell.child.run(cell.mailbox)
        except BaseExceptionGroup as group:  # a wall, like the next: a bug in a service leaves its neighbours alone
            crash, rest = group.split(Exception)
            if crash is not None:
                _note_crash(cell, crash)
            if rest is not None:  # it crashed while it was being cancelled
                raise rest from None
            return crash
        except Exception as error:
            _note_crash(cell, error)
            return error
        if cell.child.restart is Restart.PERMANENT:
            cell.mailbox.fail_taken(partial(ActorCrashed, f"{cell.child.name} returned without answering"))
        return None

    async def _has_restarts_left(self, cell: _Cell, recent: deque[float], crash: Exception | None) -> bool:
        now = trio.current_time()
        recent.append(now)
        while recent and recent[0] <= now - self._within:
            recent.popleft()
        if len(recent) > self._max_restarts:
            limit = RestartLimit(f"{cell.child.name} failed {len(recent)} times within {self._within:g} s")
            if cell.child.exhausted is Exhausted.ESCALATE:
                raise limit from crash
            logger.error("%s, and is given up", limit)
            return False
        await trio.sleep(FIRST_BACKOFF * 2 ** (len(recent) - 1))
        return True


def _starts_again(child: Child[Any], crash: Exception | None) -> bool:
    if child.restart is Restart.PERMANENT:
        return True
    return child.restart is Restart.TRANSIENT and crash is not None


def _note_crash(cell: _Cell, error: Exception) -> None:
    cause = alone(error)
    cell.crashes += 1
    logger.warning("%s crashed: %r", cell.child.name, cause, exc_info=error)
    cell.mailbox.fail_taken(partial(_crashed, cell.child.name, cause))


def _crashed(name: str, cause: Exception) -> ActorCrashed:
    crashed = ActorCrashed(f"{name} crashed: {cause!r}")
    crashed.__cause__ = cause
    return crashed


@asynccontextmanager
async def open_supervisor(
    *,
    max_restarts: int = 3,
    within: float = 5.0,
    grace: float = 5.0,
    registry: Registry | None = None,
) -> AsyncIterator[Supervisor]:
    """A supervisor for as long as the block runs; leaving it stops the children, youngest first.

    Each child may be started again `max_restarts` times within `within` seconds. `RestartLimit` leaves the block
    in an exception group, together with whatever else failed.
    """
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(nursery, registry if registry is not None else Registry(), max_restarts, within)
        try:
            yield supervisor
            for name in reversed(supervisor.names()):
                await supervisor.stop(name, grace=grace)
        finally:
            nursery.cancel_scope.cancel()
