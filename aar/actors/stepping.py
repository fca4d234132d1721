"""What is asked between the steps of a session that somebody drives step by step; other sessions have nothing of it.

Whoever drives it decides what is said next, when it is enough, and how tools run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import trio

from aar.actors.between import Between
from aar.actors.workbench import Workbench, heard
from aar.hooks import Hooks
from aar.messages.tools import ToolOutcome
from aar.tools.registry import ToolContext, ToolRegistry, ToolSpec, invoke

__all__ = ["StepRules", "begin_step"]


async def begin_step(bench: Workbench, between: Between, stopping: trio.Event) -> bool:
    """Let who drives the session speak, and put that on record. Answers whether the step is to be run.

    It may take as long as it takes. Raises `StoreError`; what was said is taken back then.
    """
    turn_id = bench.journal.session.turn_id
    said = await between.said(turn_id)
    if said is None:
        return False
    try:
        facts = [await heard(bench, one) for one in said]
        if facts:
            await bench.journal.append(*facts)
    except BaseException:
        between.take_back(said)
        raise
    if not stopping.is_set():
        await between.begins(turn_id)
    return True


class StepRules(NamedTuple):
    """`hooks` run after those of the application and of extensions. `execution` is how tools run."""

    between: Between
    hooks: Hooks = Hooks()
    execution: Literal["parallel", "sequential", "batch"] = "parallel"

    def toolbox(self, tools: ToolRegistry, threads: trio.CapacityLimiter) -> ToolRegistry:
        """The same tools, run by these rules."""
        return _Toolbox(self, tools.list_tools(), threads)

    def bench(self, bench: Workbench) -> Workbench:
        """The same session, with somebody between its steps."""
        return replace(bench, hooks=bench.hooks.and_then(self.hooks), between=self.between)


class _Toolbox(ToolRegistry):
    """Tools as these rules run them, also those that come later."""

    def __init__(self, rules: StepRules, tools: Sequence[ToolSpec], threads: trio.CapacityLimiter) -> None:
        super().__init__()
        self._rules = rules
        self._threads = threads
        for spec in tools:
            self.add(spec)

    def add(self, spec: ToolSpec) -> None:
        super().add(replace(spec, execution=self._execution(spec), handler=self._noting(spec)))

    def _execution(self, spec: ToolSpec) -> Literal["parallel", "sequential"]:
        if self._rules.execution == "sequential" or spec.execution == "sequential":
            return "sequential"
        return "sequential" if self._rules.execution == "batch" and spec.execution is None else "parallel"

    def _noting(self, spec: ToolSpec) -> Callable[..., Awaitable[Any]] | None:
        if spec.handler is None:
            return None

        async def run(ctx: ToolContext, **arguments: Any) -> Any:
            given = await invoke(spec, arguments, ctx, limiter=self._threads)
            is_last = isinstance(given, ToolOutcome) and given.terminate
            self._rules.between.terminates(ctx.tool_call_id, is_last)
            return given

        return run
