"""Slash commands on the full screen: they run beside the conversation, a few of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial

import trio

from aar.transports.fullscreen.prompts import Prompts
from aar.transports.fullscreen.stage import Stage
from aar.transports.terminal.slash import Inputs, Reply, SlashCommands

__all__ = ["Slash"]

AT_ONCE = 8
"""Commands that may run side by side."""


class Slash:
    """`show` gets each reply, and whether what it says is to be told besides what it does."""

    def __init__(
        self, commands: SlashCommands, prompts: Prompts, stage: Stage, show: Callable[[Reply, bool], None]
    ) -> None:
        self._commands = commands
        self._prompts = prompts
        self._stage = stage
        self._show = show
        self._running: set[trio.CancelScope] = set()

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        quiet = {"theme": "/theme next", "clear": "/clear"}
        told = {"next_agent": "/agent next", "next_mode": "/mode next"}
        return {name: partial(self.run, line, is_told=name in told) for name, line in (quiet | told).items()}

    def cancel(self) -> None:
        for scope in self._running:
            scope.cancel()

    def run(self, line: str, *, is_told: bool = True) -> None:
        """Begin with a command."""
        if len(self._running) >= AT_ONCE:
            self._stage.tell("Too many commands run: wait for one to end, or cancel them.", "error.text")
            return
        self._stage.start(self._run, line, is_told)

    async def _run(self, line: str, is_told: bool) -> None:
        with trio.CancelScope() as scope:
            self._running.add(scope)
            try:
                await self._answer(line, is_told=is_told)
            finally:
                self._running.discard(scope)
        if scope.cancelled_caught:
            self._stage.tell(f"{line.partition(' ')[0]} was cancelled.")

    async def _answer(self, line: str, *, is_told: bool = True, may_repeat: bool = True) -> bool:
        reply = await self._commands.run(line)
        is_told = is_told and line.split() != ["/queue", "clear"]  # what is cleared is recorded, and told then
        self._show(reply, is_told)
        if reply.inputs is not None and may_repeat:
            await self._take_inputs(reply.inputs)
        return not reply.problem

    async def _take_inputs(self, inputs: Inputs) -> None:
        """One after the other, until one does not end well or another session begins."""
        handle, goes_on = self._stage.handle, True
        async with aclosing(inputs.lines) as lines:
            while goes_on and handle is self._stage.handle and (line := await anext(lines, None)) is not None:
                if line.startswith("/"):
                    self._stage.tell(f"  > {line}", "prompt")
                    goes_on = await self._answer(line, may_repeat=False)
                else:
                    goes_on = await self._prompts.ask(line, is_typed=inputs.are_typed)
