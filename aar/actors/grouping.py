"""Which calls may overlap, and running those that do. Part of the tool executor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

import trio

from aar.actors.workbench import Workbench
from aar.messages.events import ToolCall

__all__ = ["MAX_AT_ONCE", "run_group", "side_by_side"]

MAX_AT_ONCE = 8
"""So many calls of a step run side by side; the others wait for their turn, in call order."""


def side_by_side(bench: Workbench, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
    """Runs of calls that may overlap. A tool marked sequential is a barrier: alone, between its neighbours."""
    group: list[ToolCall] = []
    for call in calls:
        spec = bench.offered.get(call.tool_name)
        if spec is not None and spec.execution == "sequential":
            if group:
                yield group
            yield [call]
            group = []
        else:
            group.append(call)
    if group:
        yield group


async def run_group(run: Callable[[ToolCall], Awaitable[None]], group: list[ToolCall]) -> None:
    """Calls that may overlap, so many at once."""
    if len(group) == 1:
        await run(group[0])
        return
    places = trio.Semaphore(MAX_AT_ONCE)

    async def run_and_leave(call: ToolCall) -> None:
        await run(call)
        places.release()

    async with trio.open_nursery() as nursery:
        for call in group:
            await places.acquire()
            nursery.start_soon(run_and_leave, call)
