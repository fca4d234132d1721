"""Worker: the tool calls of one step, side by side, with their results in call order.

A call goes through: known? arguments? hooks, policy, approval, `tool_started`, run, truncate. Whatever goes wrong on
the way is a result that the model can read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence

import trio

from aar.actors.tool_call import Outbox, Parcel, run_call
from aar.actors.workbench import Progress, Workbench
from aar.messages.events import Event, ToolCall, ToolOutput, ToolResult

__all__ = ["tool_executor"]


@trio.as_safe_channel
async def tool_executor(bench: Workbench, calls: Sequence[ToolCall], progress: Progress) -> AsyncGenerator[Event, None]:
    """Run the calls and hand out what happens: approvals, starts, live output, and every result in call order."""
    send, receive = trio.open_memory_channel[Parcel](0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_all, bench, calls, progress, send)
        async with receive:
            async for parcel in receive:
                yield parcel.event
                parcel.taken.set()


async def _run_all(
    bench: Workbench, calls: Sequence[ToolCall], progress: Progress, send: trio.MemorySendChannel[Parcel]
) -> None:
    async with send:
        outbox = Outbox(send)
        results = _InCallOrder(calls, outbox, progress)
        for group in _side_by_side(bench, calls):
            async with trio.open_nursery() as nursery:
                for call in group:
                    nursery.start_soon(_run_one, bench, call, outbox, progress, results)


async def _run_one(bench: Workbench, call: ToolCall, outbox: Outbox, progress: Progress, results: _InCallOrder) -> None:
    result = await run_call(bench, call, outbox, progress)
    await results.add(result)


def _side_by_side(bench: Workbench, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
    """Runs of calls that may overlap. A tool marked sequential is a barrier: alone, between its neighbours."""
    group: list[ToolCall] = []
    for call in calls:
        spec = bench.toolbox.get(call.tool_name)
        if spec is not None and spec.execution == "sequential":
            if group:
                yield group
            yield [call]
            group = []
        else:
            group.append(call)
    if group:
        yield group


class _InCallOrder:
    """Holds a result back until those of all earlier calls are out."""

    def __init__(self, calls: Sequence[ToolCall], outbox: Outbox, progress: Progress) -> None:
        self._order = [call.tool_call_id for call in calls]
        self._outbox = outbox
        self._progress = progress
        self._next = 0
        self._handing_out = trio.Lock()

    async def add(self, result: ToolResult) -> None:
        self._progress.done[result.tool_call_id] = result
        if self._order[self._next] != result.tool_call_id:
            await self._outbox.put(ToolOutput(tool_call_id=result.tool_call_id, finished=True))
        async with self._handing_out:
            while self._next < len(self._order) and self._order[self._next] in self._progress.done:
                await self._outbox.put(self._progress.done[self._order[self._next]])
                self._next += 1
