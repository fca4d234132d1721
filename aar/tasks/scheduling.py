"""Doing tasks when they are due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

import trio

from aar.tasks.reading import Task

__all__ = ["AT_ONCE", "keep_schedule"]

AT_ONCE = 2
"""Tasks that run side by side, unless somebody says otherwise; others wait for their turn."""

LOOK_EVERY = 600.0  # seconds; a clock that is set, or a machine that slept, is noticed as soon as that

Run = Callable[[Task], Awaitable[None]]
Tell = Callable[[str], Awaitable[None]]


async def keep_schedule(
    tasks: Iterable[Task], run: Run, *, now: Callable[[], datetime], tell: Tell, at_once: int = AT_ONCE
) -> None:
    """Run each task whenever it is due, until none is due ever again; those without a schedule are left out.

    A time at which a task still runs, or waits for its turn, is left out and told, and so are all but one of those that
    the machine has slept through. `run` must not raise.
    """
    places = trio.CapacityLimiter(at_once)
    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(_keep, task, run, now, tell, places)


async def _keep(task: Task, run: Run, now: Callable[[], datetime], tell: Tell, places: trio.CapacityLimiter) -> None:
    if task.schedule is None:
        return
    is_busy = False

    async def run_in_turn() -> None:
        nonlocal is_busy
        async with places:
            await run(task)
        is_busy = False

    async with trio.open_nursery() as nursery:
        due = task.schedule.after(now())
        while due is not None:
            await _wait_until(due, now)
            if is_busy:
                await tell(f"{task.name}: left out at {due:%Y-%m-%d %H:%M}, because it still runs.")
            else:
                is_busy = True
                nursery.start_soon(run_in_turn)
            due = task.schedule.after(max(due, now()))


async def _wait_until(due: datetime, now: Callable[[], datetime]) -> None:
    left = (due - now()).total_seconds()
    while left > 0:
        await trio.sleep(min(left, LOOK_EVERY))
        left = (due - now()).total_seconds()
