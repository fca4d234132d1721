"""Worker: the tool calls of one step, side by side, with their results in call order.

A call goes through: known? arguments? hooks, policy, approval, `tool_started`, run, truncate. Whatever goes wrong on
the way is a result that the model can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from aar.actors.grouping import MAX_AT_ONCE, run_group, side_by_side
from aar.actors.outbox import Outbox
from aar.actors.tool_call import run_call
from aar.actors.workbench import Progress, Workbench
from aar.errors import ToolError
from aar.kernel.alone import errors_alone
from aar.messages.events import ToolCall, ToolOutput, ToolResult
from aar.messages.tools import ToolOutcome

__all__ = ["MAX_AT_ONCE", "MAX_CALLS", "run_calls"]

MAX_CALLS = 128
"""Calls of one answer beyond this are refused: each costs a result that the model has to read."""


async def run_calls(bench: Workbench, calls: Sequence[ToolCall], progress: Progress) -> None:
    """Run the calls of one step, and return when every result is on record. A cancel ends all that still run.

    A tool starts only once its start is on record. Raises what the journal raises.
    """
    with errors_alone():
        async with trio.open_nursery() as nursery:
            outbox = Outbox(bench.journal, nursery, is_shared=len(calls) > 1, run_inside=_run_inside)
            await _run_all(bench, calls, progress, outbox)


async def _run_all(bench: Workbench, calls: Sequence[ToolCall], progress: Progress, outbox: Outbox) -> None:
    results = _InCallOrder(calls, outbox, progress)

    async def run(call: ToolCall) -> None:
        await results.add(await run_call(bench, call, outbox, progress))

    for group in side_by_side(bench, calls[:MAX_CALLS]):
        await run_group(run, group)
    for call in calls[MAX_CALLS:]:
        await results.add(_refusal(call))


async def _run_inside(*work: Any) -> list[ToolOutcome]:
    from aar.actors.inner_calls import run_inside  # few tools call others

    return await run_inside(*work)


def _refusal(call: ToolCall) -> ToolResult:
    refusal = ToolError("blocked", f"only {MAX_CALLS} calls of one answer are run; make this one again if it is needed")
    return ToolResult(tool_call_id=call.tool_call_id, tool_name=call.tool_name, output=str(refusal), is_error=True)


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
        await self._outbox.others()
        while ready := self._take_ready():
            await self._outbox.put(*ready)
        self._is_handing_out = False

    def _take_ready(self) -> list[ToolResult]:
        """The results that nothing holds back any more."""
        first = self._next
        while self._next < len(self._order) and self._order[self._next] in self._progress.done:
            self._next += 1
        return [self._progress.done[call_id] for call_id in self._order[first : self._next]]
