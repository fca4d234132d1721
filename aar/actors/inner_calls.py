"""Calls that a tool makes of other tools. Each goes the whole way of a call: hooks, policy, approval, sandbox.

To the conversation there is one call, the outer one: instead of starts there are notices. Questions have an id of their
own, so that nobody takes them for one about the outer call, and no late answer hits the next one. What inner calls gave
is said live as it comes, so that it is not lost when the outer call is cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from aar.actors.grouping import run_group, side_by_side
from aar.actors.outbox import Outbox
from aar.actors.tool_call import outcome_of
from aar.actors.workbench import Progress, Workbench
from aar.errors import ToolError
from aar.kernel.alone import errors_alone
from aar.messages.base import new_call_id
from aar.messages.events import Event, Notice, ToolCall, ToolOutput, ToolStarted
from aar.messages.tools import SideEffect, ToolOutcome

__all__ = ["NOT_INSIDE", "run_inside"]

NOT_INSIDE = frozenset({"batch", "task", "todo", "done", "load_tools"})
"""Tools that are about the conversation or the turn as a whole."""

SHOWN_CHARS = 100  # of a call's arguments


async def run_inside(
    bench: Workbench,
    outer: ToolCall,
    outbox: Outbox,
    report: Callable[[str], None],
    calls: Sequence[tuple[str, dict[str, Any]]],
) -> list[ToolOutcome]:
    """What comes of each of the calls, in their order. They run side by side, but for tools that run alone."""
    inner = [ToolCall(tool_call_id=new_call_id(), tool_name=name, arguments=given) for name, given in calls]
    shown_as = outbox.shown_as or outer.tool_call_id
    outcomes: dict[int, ToolOutcome] = {}

    async def run(call: ToolCall) -> None:
        index = next(index for index, one in enumerate(inner) if one is call)
        outcomes[index] = outcome = await _outcome(bench, call, _Inside(outbox, call, shown_as))
        report(f"{call.tool_name} {_shown(call)} {'failed' if outcome.is_error else 'ok'}\n{outcome.output}\n")

    with errors_alone():
        for group in side_by_side(bench, inner):
            await run_group(run, group)
    return [outcomes[index] for index in range(len(inner))]


async def _outcome(bench: Workbench, call: ToolCall, inside: _Inside) -> ToolOutcome:
    if call.tool_name in NOT_INSIDE:
        refusal = ToolError("blocked", f"tool '{call.tool_name}' is not run inside another call: call it by itself")
        return ToolOutcome(str(refusal), is_error=True)
    return await outcome_of(bench, call, inside, Progress())


def _shown(call: ToolCall) -> str:
    text = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


class _Inside(Outbox):
    """The way to the journal for one inner call, through that of the outer one."""

    def __init__(self, outer: Outbox, call: ToolCall, shown_as: str) -> None:
        super().__init__(outer.journal, outer.tasks, is_shared=True, run_inside=outer.run_inside)
        self.questions = outer.questions
        self.shown_as = shown_as
        self._outer = outer
        self._call = call

    async def put(self, *events: Event) -> None:
        told = [self._notice(event) if isinstance(event, ToolStarted) else event for event in events]
        await self._outer.put(*(event for event in told if event is not None and not isinstance(event, ToolOutput)))

    async def others(self) -> None:
        await self._outer.others()

    def _notice(self, started: ToolStarted) -> Notice | None:
        """What is about to change something is on record first. The rest stands in the arguments of the outer call."""
        if set(started.side_effects) <= {SideEffect.NONE, SideEffect.READ} and not started.data:
            return None
        arguments = started.data.get("arguments", self._call.arguments)
        call = self._call.model_copy(update={"arguments": arguments})
        return Notice(
            kind="inner_call",
            text=f"Running {call.tool_name} {_shown(call)}",
            data={
                "tool_call_id": self.shown_as,
                "tool_name": call.tool_name,
                "arguments": arguments,
                "side_effects": started.side_effects,
            },
        )
