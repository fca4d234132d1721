"""All of what a tool gave, page by page: Ctrl+O opens the output of the newest call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import trio
import urwid

from aar.display import one_line
from aar.messages.events import ToolCall
from aar.transports.fullscreen.blocks import Lines
from aar.transports.fullscreen.colouring import coloured
from aar.transports.fullscreen.viewport import Viewport

__all__ = ["Pager"]

MOST = 2_000_000
"""Characters that are shown."""

_MOVES: Mapping[str, int] = {"up": -1, "down": 1, "k": -1, "j": 1}
_PAGES: Mapping[str, int] = {"page up": -1, "page down": 1, "b": -1, " ": 1}


class Pager(urwid.WidgetWrap[urwid.Widget]):
    """A box widget; it begins at the first line."""

    def __init__(self, title: str, text: str) -> None:
        self._port = Viewport(bar_columns=1)
        lines = text.count("\n") + 1
        cut = "" if len(text) <= MOST else f", the first {MOST:,} characters"
        head = f"{one_line(title)}: {lines} lines{cut}    Up, Down, Page keys, Home, End, Esc closes"
        self._lines = Lines(text[:MOST], gap=0, padding=(0, 0))
        self._port.blocks.append(self._lines)
        self._port.to_start()
        super().__init__(urwid.Frame(self._port, header=urwid.Text(("modal.title", head), wrap="clip")))

    async def colour(self, call: ToolCall, output: str, redraw: Callable[[], None]) -> None:
        """Put the same text there in colours, where its language is known."""
        found = await trio.to_thread.run_sync(coloured, call, output, abandon_on_cancel=True)
        if found is not None:
            self._lines.set_paragraphs(found)
            self._port.changed()
            redraw()

    def selectable(self) -> bool:
        return True

    def keypress(self, size: Any, key: str) -> str | None:
        if key in _MOVES:
            self._port.move(_MOVES[key])
        elif key in _PAGES:
            self._port.page(_PAGES[key])
        elif key in ("home", "g"):
            self._port.to_start()
        elif key in ("end", "G"):
            self._port.to_end()
        else:
            return key
        return None

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        return self._port.mouse_event(size, event, button, col, row, focus)
