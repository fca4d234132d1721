"""Asking a person whether a tool may run: on standard error, answered at the terminal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unicodedata import east_asian_width

import trio

from aar.client import SessionHandle
from aar.display import one_line, visible
from aar.messages.approvals import DecisionName
from aar.messages.events import ApprovalRequested, ApprovalResolved, Event, TurnEnded
from aar.transports.cli.lines import Lines
from aar.transports.cli.look import look_for
from aar.transports.program.screen import Screen

__all__ = ["Approver", "described"]

QUESTION = "Allow? [y]es / [n]o / [a]lways: "
VALUE_LIMIT = 120  # characters of an argument inside the panel; a longer one stands whole above it
PANEL_EDGES = 4
MARK = "  │ "
_WHOLE = ("command", "path")  # always inside, at any length
_ANSWERS: dict[str, DecisionName] = {"y": "allow", "yes": "allow", "a": "allow_always", "always": "allow_always"}


class Approver:
    """Asks one question at a time; with `says_yes` the user has answered all of them beforehand."""

    def __init__(self, handle: SessionHandle, screen: Screen, lines: Lines, *, says_yes: bool = False) -> None:
        self._handle = handle
        self._says_yes = says_yes
        self._screen = screen
        self._lines = lines
        self._look = look_for(screen, is_terminal=screen.err_is_terminal)
        self._open: dict[str, trio.CancelScope] = {}
        self._turn = trio.Lock()
        self._is_reading = False

    @property
    def can_answer(self) -> bool:
        """Whether there is a yes beforehand, or somebody who sees a question and can answer it."""
        return self._says_yes or (self._lines.is_terminal and self._screen.err_is_terminal)

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
            nursery.start_soon(self._ask, event, scope)
        elif isinstance(event, ApprovalResolved):
            self._withdraw(event.tool_call_id)
        elif isinstance(event, TurnEnded):
            for call_id in list(self._open):
                self._withdraw(call_id)

    def _withdraw(self, call_id: str) -> None:
        scope = self._open.pop(call_id, None)
        if scope is not None:
            scope.cancel()

    async def _ask(self, question: ApprovalRequested, scope: trio.CancelScope) -> None:
        with scope:
            async with self._turn:
                await self._show(question)
                self._lines.forget()
                await self._screen.tell(QUESTION)
                answer = await self._read()
                if answer is None:
                    await self._screen.tell("\n")
                self._screen.typed_newline()
            decision = _ANSWERS.get((answer or "").strip().lower(), "deny")
            self._open.pop(question.tool_call_id, None)
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
        await self._screen.start_line()
        width = max(20, self._screen.width - PANEL_EDGES)
        for name, text in _long_texts(question.arguments):
            await self._screen.tell("\n".join([*_head(one_line(name), width), *_marked(text, width)]) + "\n")
        lines = [one_line(question.tool_name), described(question.arguments, width)]
        if question.reason:
            lines.append(f"Reason: {one_line(question.reason)}")
        await self._screen.tell(self._look.panel("Approval Required", "\n".join(lines), "yellow"))


def described(arguments: dict[str, Any], width: int) -> str:
    """The arguments for a panel with lines of `width` characters. None is cut: a long one is shown above instead.

    A value that takes more than one line has a mark before each, also where a line is folded: it cannot look like
    another argument, or like the reason for the question.
    """
    if not arguments:
        return "  (no arguments)"
    return "\n".join(_described(one_line(str(name)), _text_of(value), width) for name, value in arguments.items())


def _described(name: str, text: str, width: int) -> str:
    if not _is_inside(name, text):
        text = f"({len(text)} chars, {text.count(chr(10)) + 1} lines — shown above)"
    line = f"  {name}: {visible(text)}"
    if "\n" not in line and _cells(line) <= width:
        return line
    return "\n".join([*_head(name, width), *_marked(text, width)])


def _head(name: str, width: int) -> list[str]:
    line = f"  {name}:"
    return [line] if _cells(line) <= width else _marked(line.strip(), width)


def _marked(text: str, width: int) -> list[str]:
    """The lines of an untrusted text, each with a mark and none wider than `width`."""
    lines = visible(text).expandtabs(4).split("\n")
    return [MARK + piece for line in lines for piece in _folded(line, width - len(MARK))]


def _folded(line: str, width: int) -> list[str]:
    if line.isascii():
        return [line[at : at + width] for at in range(0, len(line), width)] or [""]
    pieces, used = [""], 0
    for char in line:
        used += _cells(char)
        if used > width:
            pieces.append("")
            used = _cells(char)
        pieces[-1] += char
    return pieces


def _cells(text: str) -> int:
    """Columns that the text takes at most."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WFA" else 1 for char in text)


def _long_texts(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    texts = [(str(name), _text_of(value)) for name, value in arguments.items()]
    return [(name, text) for name, text in texts if not _is_inside(name, text)]


def _is_inside(name: str, text: str) -> bool:
    return name in _WHOLE or len(text) <= VALUE_LIMIT


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
