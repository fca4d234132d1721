"""Panels in the styles of a theme: how `aar tui` looks.

Takes text that is harmless already and gives text to write, each with its newline at the end. Without colours the same
stands there in plain lines.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console, Group
from rich.markdown import Markdown
from rich.panel import Panel
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from aar.messages.themes import PanelStyle
from aar.transports.cli.look import DRAWN_LIMIT, Look, PlainLook
from aar.transports.program.screen import Screen
from aar.transports.terminal.slash import Table

__all__ = ["Panels"]


class Panels:
    """For one screen, at the width that it has when something is drawn."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._plain: Look | None = None if screen.has_colour else PlainLook(screen, screen.err_is_terminal)
        self._colours = COLOR_SYSTEMS[Console(file=StringIO(), force_terminal=True).color_system or "standard"]

    def panel(self, title: str | Text, body: str | Text, style: PanelStyle, *, body_style: str = "") -> str:
        """A text in a frame. A text that is very long stands below its title without one."""
        if self._plain is not None or len(body) > DRAWN_LIMIT:
            return _lines(str(title), str(body))
        text = body if isinstance(body, Text) else Text(body, style=body_style)
        text.overflow = "fold"
        return self._framed(title, text, style)

    def markdown(self, title: str, text: str, style: PanelStyle) -> str:
        if self._plain is not None or len(text) > DRAWN_LIMIT:
            return _lines(title, text)
        return self._framed(title, Markdown(text, hyperlinks=False), style)

    def table(self, table: Table, style: PanelStyle, *, above: str = "") -> str:
        """Its rows in a frame, below a text."""
        if self._plain is not None:
            return _lines(table.title, above) + self._plain.table(table)
        columns = table.columns or ("",) * (len(table.rows[0]) if table.rows else 1)
        box = SIMPLE_HEAD if table.columns else None
        grid = RichTable(box=box, show_header=bool(table.columns), show_edge=False, pad_edge=False)
        is_slim = max((cell_len(row[0]) for row in table.rows), default=0) <= self._screen.width // 2
        for at, name in enumerate(columns):
            style_of_column = style.title_style if at == 0 else ""
            grid.add_column(name, style=style_of_column, no_wrap=at == 0 and is_slim, overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text(cell) for cell in row))
        return self._framed(table.title, Group(Text(f"{above}\n"), grid) if above else grid, style)

    def styled(self, text: str, style: str) -> str:
        """The text with the codes of a style around it, as wide as before."""
        if self._plain is not None or not text:
            return text
        return Style.parse(style).render(text, color_system=self._colours)

    def right(self, text: str, style: str) -> str:
        """A line at the right edge."""
        return self.styled(f"{text:>{self._screen.width - 1}}", style) + "\n"

    def _framed(self, title: str | Text, body: Any, style: PanelStyle) -> str:
        heading = title if isinstance(title, Text) else Text(title, style=style.title_style)
        frame = Panel(body, title=heading, title_align="left", border_style=style.border_style, padding=style.padding)
        sheet = StringIO()
        Console(file=sheet, force_terminal=True, width=self._screen.width).print(frame)
        return sheet.getvalue()


def _lines(*parts: str) -> str:
    return "".join(f"{part}\n" for part in parts if part)
