"""The line at the top and the lines at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import urwid

from aar.display import one_line
from aar.messages.settings import AgentConfig
from aar.messages.themes import Theme
from aar.transports.fullscreen.keys import Keys
from aar.transports.fullscreen.view import View
from aar.transports.terminal.slash import SHORT_ID, totals
from aar.usage import context_tokens, is_over_warning_threshold

__all__ = ["Footer", "Header"]

Markup = list[Any]


class Header(urwid.WidgetWrap[urwid.Widget]):
    """A box widget: what is talked with, what it cost, and what it does; at its right whatever `companion` is."""

    def __init__(self) -> None:
        self._left = urwid.Text("", wrap="clip")
        self._right = urwid.Text("", wrap="clip", align="right")
        self.companion: Any = ""
        self._columns = urwid.Columns([self._left])
        super().__init__(urwid.AttrMap(urwid.Filler(self._columns, "top"), "header"))

    def render(self, size: Any, focus: bool = False) -> urwid.Canvas:
        """The companion gives way where there is no room for both."""
        left, right = (text.pack()[0] for text in (self._left, self._right))
        contents: list[Any] = [(self._left, self._columns.options())]
        if right and left + right < size[0]:
            contents.append((self._right, self._columns.options("given", right)))
        if len(contents) != len(self._columns.contents) or len(contents) > 1:
            self._columns.contents = contents
        return super().render(size, focus)

    def show(self, view: View, config: AgentConfig, session_id: str, *, shows_thoughts: bool) -> None:
        self._left.set_text(self._markup(view, config, session_id, shows_thoughts))
        self._right.set_text(self.companion)

    def _markup(self, view: View, config: AgentConfig, session_id: str, shows_thoughts: bool) -> Markup:
        provider = config.resolve_provider()
        name, model = view.provider or provider.name, view.model or provider.model
        over = is_over_warning_threshold(view.input_tokens + view.output_tokens, view.cost, config)
        tokens = f"tokens: {totals(view.input_tokens, view.output_tokens, view.cost)}"
        state = "streaming…" if view.is_streaming else view.state
        badge = f" | queued: {len(view.queued)}" if view.queued else ""
        return [
            ("header.provider", one_line(f"{name} / {model}")),
            " | ",
            ("header.warning" if over else "header.tokens", tokens),
            " | ",
            ("header.session", f"{session_id[:SHORT_ID]}..."),
            " | ",
            ("header.state", state + badge),
            f" | think:{'on' if shows_thoughts else 'off'}",
        ]


class Footer(urwid.WidgetWrap[urwid.Widget]):
    """A box widget: the step, the theme, and the keys."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._text = urwid.Text("", wrap="space", layout=_Flush())
        super().__init__(urwid.AttrMap(urwid.Filler(self._text, "top"), "footer"))

    def show(
        self,
        view: View,
        config: AgentConfig,
        theme: Theme,
        *,
        agent: str = "",
        mode: str = "",
        marks: Sequence[str] = (),
    ) -> None:
        """`marks` are words for what is on."""
        step = f"step: {view.steps}"
        if view.is_busy:
            step += f" (turn {view.turn_steps + 1}/{config.max_steps})"
        told = [f"agent: {one_line(agent)}" if agent else "", f"mode: {one_line(mode)}" if mode else ""]
        told += [_thinking(config), _context(view, config), _sandbox(config)]
        told += ["undo" if config.file_snapshots else "", *marks]
        runs: Markup = [("footer.step", step), " | ", ("footer.theme", f"theme: {one_line(theme.name)}"), " | "]
        for text in filter(None, told):
            runs += [("footer.step", text), " | "]
        self._text.set_text([*runs, ("footer.keys", self._keys.hints())])

    def rows_at(self, columns: int) -> int:
        """Lines that it needs at this width."""
        return self._text.rows((max(1, columns),))


class _Flush(urwid.StandardTextLayout):
    """Where a line was broken between blanks the next one does not begin with those that are left."""

    def calculate_text_segments(self, text: Any, width: int, wrap: Any) -> list[Any]:
        lines: list[Any] = super().calculate_text_segments(text, width, wrap)
        return [self._flush(text, line) if number else line for number, line in enumerate(lines)]

    def _flush(self, text: str, line: list[Any]) -> list[Any]:
        if not line or len(line[0]) != 3 or not isinstance(line[0][2], int):
            return line
        columns, start, stop = line[0]
        blanks = stop - start - len(text[start:stop].lstrip(" "))
        return [(columns - blanks, start + blanks, stop), *line[1:]] if blanks < stop - start else line


def _thinking(config: AgentConfig) -> str:
    """How much the model is to think, in the words of its provider."""
    extra = config.resolve_provider().extra
    level = extra.get("reasoning_effort") or extra.get("thinking_level") or extra.get("thinking_budget")
    if level is None and isinstance(extra.get("thinking"), dict):
        level = extra["thinking"].get("budget_tokens") or extra["thinking"].get("type")
    return f"thinking: {one_line(str(level))}" if level is not None else ""


def _context(view: View, config: AgentConfig) -> str:
    """How much of the model's window the last call took."""
    window = config.effective_context_window
    if not window or not view.last_usage:
        return ""
    used = context_tokens(config.resolve_provider().name, view.last_usage)
    return f"context: {used}/{window} ({min(999, 100 * used // window)}%)"


def _sandbox(config: AgentConfig) -> str:
    mode = config.safety.sandbox.mode
    return f"sandbox: {mode}" if mode != "local" else ""
