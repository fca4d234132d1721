"""Asking a person whether a tool may run: on standard error, answered at the terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import trio

from aar.client import SessionHandle
from aar.display import one_line
from aar.messages.approvals import ASIDE, DecisionName
from aar.messages.events import ApprovalRequested, ApprovalResolved, Event, TurnEnded
from aar.transports.cli.lines import Lines
from aar.transports.cli.look import look_for
from aar.transports.program.screen import Screen

__all__ = ["Approver"]

QUESTION = "Allow? [y]es / [n]o / [a]lways: "
PANEL_EDGES = 4
_ANSWERS: dict[str, DecisionName] = {"y": "allow", "yes": "allow", "a": "allow_always", "always": "allow_always"}


class Approver:
    """Asks one question at a time; with `says_yes` the user has answered all of them beforehand.

    One that is `alone` has nobody to ask: the terminal is there, and somebody else uses it.
    """

    def __init__(
        self, handle: SessionHandle, screen: Screen, lines: Lines, *, says_yes: bool = False, alone: bool = False
    ) -> None:
        self._handle = handle
        self._says_yes = says_yes
        self._alone = alone
        self._screen = screen
        self._lines = lines
        self._look = look_for(screen, is_terminal=screen.err_is_terminal)
        self._open: dict[str, trio.CancelScope] = {}
        self._asides: set[str] = set()
        self._turn = trio.Lock()
        self._is_reading = False
        self._shown = ""  # the question that was put last

    @property
    def can_answer(self) -> bool:
        """Whether there is a yes beforehand, or somebody who sees a question and can answer it."""
        return self._says_yes or (self._lines.is_terminal and self._screen.err_is_terminal and not self._alone)

    @asynccontextmanager
    async def attending(self) -> AsyncIterator[None]:
        """Inside this block the session's questions are answered, if they can be. Otherwise they are denied at once."""
        if not self.can_answer:
            yield
            return
        async with self._handle.attend():
            yield

    def notice(self, event: Event, nursery: trio.Nursery) -> None:
        """Start a question, or take one back that is settled."""
        if isinstance(event, ApprovalRequested) and self._says_yes:
            nursery.start_soon(self._handle.decide, event.tool_call_id, "allow")
        elif isinstance(event, ApprovalRequested) and self.can_answer:
            scope = self._open[event.tool_call_id] = trio.CancelScope()
            if event.data.get(ASIDE):  # it outlives the turn that somebody else may have begun
                self._asides.add(event.tool_call_id)
            nursery.start_soon(self._ask, event, scope)
        elif isinstance(event, ApprovalResolved):
            if self._withdraw(event.tool_call_id) and event.tool_call_id == self._shown:
                nursery.start_soon(self._tell_settled, event)
        elif isinstance(event, TurnEnded):
            self.forget(but=self._asides)

    def forget(self, *, but: Collection[str] = ()) -> None:
        """Take all questions back, but for those about these calls."""
        for call_id in [call_id for call_id in self._open if call_id not in but]:
            self._withdraw(call_id)

    def _withdraw(self, call_id: str) -> bool:
        scope = self._open.pop(call_id, None)
        self._asides.discard(call_id)
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def _tell_settled(self, event: ApprovalResolved) -> None:
        """Somebody else was faster, or nobody was in time."""
        who = "Nobody answered in time" if event.by == "timeout" else "Answered elsewhere"
        await self._screen.start_line()
        await self._screen.tell(f"{who}: {'allowed' if event.decision == 'allow' else 'denied'}.\n")

    async def _ask(self, question: ApprovalRequested, scope: trio.CancelScope) -> None:
        with scope:
            async with self._turn:
                self._shown = question.tool_call_id
                await self._show(question)
                await self._lines.in_foreground()  # after Ctrl+Z and `bg`; others may answer meanwhile
                self._lines.forget()
                await self._screen.tell(QUESTION)
                answer = await self._read()
                if answer is None:
                    await self._screen.tell("\n")
                self._screen.typed_newline()
            decision = _ANSWERS.get((answer or "").strip().lower(), "deny")
            self._open.pop(question.tool_call_id, None)
            self._asides.discard(question.tool_call_id)
            await self._handle.decide(question.tool_call_id, decision)

    async def _read(self) -> str | None:
        self._is_reading = True
        try:
            return await self._lines.read()
        finally:
            self._is_reading = False

    async def remind(self) -> None:
        """Ask again when something was written below the question that waits for its answer."""
        if self._is_reading and not self._screen.ends_with(QUESTION):
            await self._screen.start_line()
            await self._screen.tell(QUESTION)

    async def _show(self, question: ApprovalRequested) -> None:
        from aar.transports.terminal.arguments import described, long_arguments

        await self._screen.start_line()
        width = max(20, self._screen.width - PANEL_EDGES)
        for text in long_arguments(question.arguments, width):
            await self._screen.tell(f"{text}\n")
        lines = [one_line(question.tool_name), described(question.arguments, width)]
        if question.reason:
            lines.append(f"Reason: {one_line(question.reason)}")
        await self._screen.tell(self._look.panel("Approval Required", "\n".join(lines), "yellow"))
