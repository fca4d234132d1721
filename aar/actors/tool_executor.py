"""Worker: the tool calls of one step, side by side, with their results in call order.

A call goes through: known? arguments? hooks, policy, approval, `tool_started`, run, truncate. Whatever goes wrong on
the way is a result that the model can read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import trio

from aar.actors.tool_call import Outbox, Parcel, run_call
from aar.actors.workbench import Progress, Workbench
from aar.errors import ToolError
from aar.kernel.alone import errors_alone
from aar.messages.events import Event, ToolCall, ToolOutput, ToolResult

__all__ = ["MAX_AT_ONCE", "MAX_CALLS", "tool_executor"]

MAX_AT_ONCE = 8
"""So many calls of a step run side by side; the others wait for their turn, in call order."""

MAX_CALLS = 128
"""Calls of one answer beyond this are refused: each costs a result that the model has to read."""


@asynccontextmanager
async def tool_executor(
    bench: Workbench, calls: Sequence[ToolCall], progress: Progress
) -> AsyncIterator[AsyncIterator[list[Event]]]:
    """Yields an iterator over what happens: approvals, starts, live output, and every result in call order.

    Each item is what has come up since the last one, in order. Asking for the next one says that this one is dealt
    with: a tool starts only once its start is on record.
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
    """The reading end: all that waits at a time, so that calls side by side cost no more writes than one."""

    def __init__(self, receive: trio.MemoryReceiveChannel[Parcel]) -> None:
        self._receive = receive
        self._given: list[Parcel] = []

    def __aiter__(self) -> _Happenings:
        return self

    async def __anext__(self) -> list[Event]:
        for parcel in self._given:
            parcel.taken.set()
        self._given = []
        try:
            self._given.append(await self._receive.receive())
            while True:
                self._given.append(self._receive.receive_nowait())
        except trio.WouldBlock:
            pass
        except trio.EndOfChannel:
            if not self._given:
                raise StopAsyncIteration from None
        return [event for parcel in self._given for event in parcel.events]


async def _run_all(bench: Workbench, calls: Sequence[ToolCall], progress: Progress, outbox: Outbox) -> None:
    results = _InCallOrder(calls, outbox, progress)

    async def run(call: ToolCall) -> None:
        await results.add(await run_call(bench, call, outbox, progress))

    with outbox:
        for group in _side_by_side(bench, calls[:MAX_CALLS]):
            await _run_group(run, group)
        for call in calls[MAX_CALLS:]:
            await results.add(_refusal(call))


async def _run_group(run: Callable[[ToolCall], Awaitable[None]], group: list[ToolCall]) -> None:
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


def _refusal(call: ToolCall) -> ToolResult:
    refusal = ToolError("blocked", f"only {MAX_CALLS} calls of one answer are run; make this one again if it is needed")
    return ToolResult(tool_call_id=call.tool_call_id, tool_name=call.tool_name, output=str(refusal), is_error=True)


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
        while ready := self._take_ready():
            await self._outbox.hand_over(*ready)
        self._is_handing_out = False

    def _take_ready(self) -> list[ToolResult]:
        """The results that nothing holds back any more."""
        first = self._next
        while self._next < len(self._order) and self._order[self._next] in self._progress.done:
            self._next += 1
        return [self._progress.done[call_id] for call_id in self._order[first : self._next]]
