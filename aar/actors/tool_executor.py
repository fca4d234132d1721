"""Worker: the tool calls of one step, side by side, with their results in call order.

A call goes through: known? arguments? hooks, policy, approval, `tool_started`, run, truncate. Whatever goes wrong on
the way is a result that the model can read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import trio

from aar.actors.tool_call import Outbox, Parcel, run_call
from aar.actors.workbench import Progress, Workbench
from aar.kernel.alone import errors_alone
from aar.messages.events import Event, ToolCall, ToolOutput, ToolResult

__all__ = ["tool_executor"]


@asynccontextmanager
async def tool_executor(
    bench: Workbench, calls: Sequence[ToolCall], progress: Progress
) -> AsyncIterator[AsyncIterator[Event]]:
    """Yields an iterator over what happens: approvals, starts, live output, and every result in call order.

    Asking for the next event says that the last one is dealt with: a tool starts only once its start is on record.
    Leaving the block ends all calls that still run.
    """
    send, receive = trio.open_memory_channel[Parcel](0)
    with errors_alone():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run_all, bench, calls, progress, Outbox(send, nursery))
            try:
                yield _Happenings(receive)
            finally:
                if nursery.child_tasks:  # to cancel an empty nursery would cost an exception
                    nursery.cancel_scope.cancel()
                receive.close()


class _Happenings:
    """The reading end: events one at a time."""

    def __init__(self, receive: trio.MemoryReceiveChannel[Parcel]) -> None:
        self._receive = receive
        self._last: Parcel | None = None

    def __aiter__(self) -> _Happenings:
        return self

    async def __anext__(self) -> Event:
        if self._last is not None:
            self._last.taken.set()
        try:
            self._last = await self._receive.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        return self._last.event


async def _run_all(bench: Workbench, calls: Sequence[ToolCall], progress: Progress, outbox: Outbox) -> None:
    results = _InCallOrder(calls, outbox, progress)
    with outbox:
        for group in _side_by_side(bench, calls):
            if len(group) == 1:
                await _run_one(bench, group[0], outbox, progress, results)
                continue
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
        self._is_handing_out = False

    async def add(self, result: ToolResult) -> None:
        self._progress.done[result.tool_call_id] = result
        if self._order[self._next] != result.tool_call_id:
            await self._outbox.put(ToolOutput(tool_call_id=result.tool_call_id, finished=True))
        if self._is_handing_out:
            return  # whoever does so comes to this one, too
        self._is_handing_out = True
        while self._next < len(self._order) and self._order[self._next] in self._progress.done:
            await self._outbox.put(self._progress.done[self._order[self._next]])
            self._next += 1
        self._is_handing_out = False
