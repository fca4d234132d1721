"""A line that moves while nothing else does: while the model is silent and while a tool runs."""

from __future__ import annotations

import trio

from aar.display import plain
from aar.messages.events import (
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Event,
    StepRestarted,
    StreamChunk,
    ToolCall,
    ToolOutput,
    ToolResult,
    ToolStarted,
    TurnStarted,
    UserMessage,
)
from aar.transports.program.screen import Screen

__all__ = ["Progress"]

SILENCE = 1.0  # seconds without anything new before the line appears
TICK = 0.5


class Progress:
    """Follows what a turn is busy with, and says so on the screen's status line."""

    def __init__(self, screen: Screen, label: str) -> None:
        self._screen = screen
        self._label = label.removesuffix("/")  # of a provider whose model has no name
        self._names: dict[str, str] = {}
        self._running: dict[str, float] = {}  # tool call ids, and since when
        self._is_waiting_for_people = False
        self.is_cancelling = False
        self._since = trio.current_time()
        self._last = trio.current_time()
        self._output = ""

    def notice(self, event: Event) -> None:
        """Take note of a fact or hint."""
        now = self._last = trio.current_time()
        match event:
            case TurnStarted() | UserMessage() | StepRestarted() | AssistantMessage():
                self._since = now
            case ToolCall():
                self._names[event.tool_call_id] = event.tool_name
            case ToolStarted():
                self._running[event.tool_call_id] = now
                self._output = ""
            case ToolOutput():
                self._output = _last_line(event.text) or self._output
            case ToolResult():
                self._running.pop(event.tool_call_id, None)
                self._since = now
            case ApprovalRequested():
                self._is_waiting_for_people = True
            case ApprovalResolved():
                self._is_waiting_for_people = False
            case StreamChunk():
                self._since = now

    async def run(self) -> None:
        """Until cancelled."""
        while self._screen.is_live:
            await trio.sleep(TICK)
            if not self._is_waiting_for_people and trio.current_time() - self._last >= self._patience():
                await self._screen.status(self.line())

    def _patience(self) -> float:
        return 0.0 if self.is_cancelling or (self._running and self._output) else SILENCE

    def line(self) -> str:
        """What is going on now, in one line."""
        now = trio.current_time()
        if self.is_cancelling:
            return "cancelling … (Ctrl+C again leaves)"
        if not self._running:
            return f"{_one_line(self._label)} … {now - self._since:.0f} s (Ctrl+C cancels)"
        names = ", ".join(_one_line(self._names.get(call, "tool")) for call in self._running)
        text = f"{names} … {now - min(self._running.values()):.0f} s"
        return f"{text}  {self._output}" if self._output else f"{text} (Ctrl+C cancels)"


def _one_line(text: str) -> str:
    return " ".join(plain(text).split())


def _last_line(text: str) -> str:
    """The line that stands last on a terminal after this text, also when it was written over others."""
    return plain(text).rstrip("\n").rpartition("\n")[2].expandtabs(4)
