"""A tool call in the chat area: waiting, running, done or failed, with what it was given and what it gave."""

from __future__ import annotations

import json
from typing import Any

from aar.display import one_line
from aar.messages.events import ToolCall, ToolResult
from aar.messages.themes import Theme
from aar.transports.fullscreen.blocks import Block
from aar.transports.fullscreen.markup import Paragraph, harmless, plain_paragraphs
from aar.transports.program.sentences import BADGES, cut

__all__ = ["ToolBlock"]

ARGUMENT_LIMIT = 300  # characters of an argument that are shown
RESULT_LIMIT = 1000  # characters of a result that are shown
RESULT_LINES = 40
LOOKED_AT = 10_000  # characters of a result, for the sake of those
LIVE_LINES = 8  # of the output of a tool that runs
LIVE_LIMIT = 4_000  # characters of it that are kept
COPIED_LIMIT = 200_000  # characters of a result that can be copied

_MARKS = {
    "Pending": ("dim", "○ pending"),
    "Waiting": ("usage.warning", "? waits for an answer"),
    "Running": ("working", "● running"),
    "Complete": ("tool_result.title", "✓ complete"),
    "Error": ("tool_error.title", "✗ ERROR"),
}


class ToolBlock(Block):
    """`state` is Pending, Waiting, Running, Complete or Error."""

    def __init__(
        self, call: ToolCall, number: int, theme: Theme, *, verbose: bool = False, shows_result: bool = True
    ) -> None:
        super().__init__("tool_call", padding=theme.tool_call.padding)
        self.state = "Pending"
        self._call = call
        self._number = number
        self._verbose = verbose
        self._shows_result = shows_result
        self._live = ""
        self._result: ToolResult | None = None
        self._arguments = list(_arguments(call.arguments))
        self._show()

    @property
    def text(self) -> str:
        parts = [f"Tool: {harmless(self._call.tool_name)}", *self._arguments]
        if self._result is not None:
            parts.append(harmless(self._result.output[:COPIED_LIMIT]))
        return "\n".join(parts)

    @property
    def call(self) -> ToolCall:
        return self._call

    @property
    def name(self) -> str:
        return self._call.tool_name

    @property
    def output(self) -> str:
        """All that the tool gave."""
        return self._result.output if self._result is not None else self._live

    def enter(self, state: str) -> None:
        if self._result is None:
            self.state = state
            self._show()

    def hear(self, text: str) -> None:
        """Some more output of the tool that runs."""
        self._live = (self._live + text)[-LIVE_LIMIT:]
        self._show()

    def finish(self, result: ToolResult) -> None:
        self._result = result
        self.state = "Error" if result.is_error else "Complete"
        self.kind = "tool_error" if result.is_error else "tool_result"
        self._show()

    def _show(self) -> None:
        style, mark = _MARKS[self.state]
        if self._verbose and self._result is not None:
            mark += f" ({self._result.duration_ms:.0f} ms)"
        name = one_line(self._call.tool_name)
        self.set_title([*self._badges(), f"Tool: {name} (step {self._number})  ", (style, mark)])
        self.set_paragraphs([*map(Paragraph, self._arguments), *self._output()])

    def _badges(self) -> list[Any]:
        effects = [str(effect) for effect in self._call.data.get("side_effects", [])] if self._verbose else []
        return [(f"badge.{effect}", f"[{BADGES[effect]}]") for effect in effects if effect in BADGES]

    def _output(self) -> list[Paragraph]:
        if not self._shows_result:
            return []
        if self._result is None:
            lines = harmless(self._live).rstrip("\n").split("\n")[-LIVE_LINES:]
            return plain_paragraphs("\n".join(lines), "dim") if self._live.strip() else []
        text = harmless(self._result.output[:LOOKED_AT]).rstrip("\n")
        first = "\n".join(text.split("\n", RESULT_LINES)[:RESULT_LINES])
        shown = cut(text, min(RESULT_LIMIT, len(first)), "\n... (truncated)")
        title = ("tool_error.title" if self._result.is_error else "tool_result.title", "Result:")
        return [Paragraph(title), *plain_paragraphs(shown, "error.text" if self._result.is_error else None)]


def _arguments(arguments: dict[str, Any]) -> list[str]:
    if not arguments:
        return ["(no arguments)"]
    return [f"{one_line(str(name))}: {_value(value)}" for name, value in arguments.items()]


def _value(value: Any) -> str:
    text = harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return cut(text, ARGUMENT_LIMIT, "...")
