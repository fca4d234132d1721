"""How things look: plain lines for files, pipes and `NO_COLOR`; colours, panels and Markdown on a terminal.

Takes text that is harmless already (`plain`, `visible`) and gives text to write, each with its newline at the end.
"""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any, Protocol

from aar.transports.program.screen import Screen

if TYPE_CHECKING:
    from aar.transports.terminal.slash import Table

__all__ = ["DRAWN_LIMIT", "Look", "PlainLook", "look_for"]

DRAWN_LIMIT = 20_000  # characters that are laid out; more would hold up everything else for seconds


class Look(Protocol):
    def panel(self, title: str, text: str, style: str, *, subtitle: str = "") -> str: ...
    def markdown(self, text: str) -> str: ...
    def styled(self, text: str, style: str) -> str: ...
    def right(self, text: str, style: str = "dim") -> str: ...
    def table(self, table: Table) -> str: ...


def look_for(screen: Screen, *, is_terminal: bool) -> Look:
    """The look for a stream of this screen."""
    return ColourLook(screen) if is_terminal and screen.has_colour else PlainLook(screen, is_terminal)


class PlainLook:
    def __init__(self, screen: Screen, is_terminal: bool) -> None:
        self._screen = screen
        self._is_terminal = is_terminal

    def panel(self, title: str, text: str, style: str, *, subtitle: str = "") -> str:
        return _lines(title, text, subtitle)

    def markdown(self, text: str) -> str:
        return f"{text}\n"

    def styled(self, text: str, style: str) -> str:
        return text

    def right(self, text: str, style: str = "dim") -> str:
        return f"{text:>{self._screen.width - 1}}\n" if self._is_terminal else f"{text}\n"

    def table(self, table: Table) -> str:
        return _rows(table)


_CODES = {"dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "bold": "1"}


class ColourLook:
    """Rich is loaded with the first panel or the first Markdown, not before."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def panel(self, title: str, text: str, style: str, *, subtitle: str = "") -> str:
        if len(text) > DRAWN_LIMIT:
            return _lines(title, text, subtitle)
        from rich.panel import Panel
        from rich.text import Text

        body = Text(text, overflow="fold")
        below = Text(subtitle) if subtitle else None
        return self._drawn(
            Panel(
                body, title=Text(title), title_align="left", subtitle=below, subtitle_align="right", border_style=style
            )
        )

    def markdown(self, text: str) -> str:
        if len(text) > DRAWN_LIMIT:
            return _lines(text)
        from rich.markdown import Markdown

        return self._drawn(Markdown(text, hyperlinks=False))

    def styled(self, text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text else text

    def right(self, text: str, style: str = "dim") -> str:
        return self.styled(f"{text:>{self._screen.width - 1}}", style) + "\n"

    def table(self, table: Table) -> str:
        return _rows(table)

    def _drawn(self, drawing: Any) -> str:
        from rich.console import Console

        sheet = StringIO()
        Console(file=sheet, force_terminal=True, width=self._screen.width, color_system="standard").print(drawing)
        return sheet.getvalue()


def _lines(*parts: str) -> str:
    return "".join(f"{part}\n" for part in parts if part)


def _rows(table: Table) -> str:
    """Columns beside each other, the last one as long as it is."""
    rows = [table.columns, *table.rows] if table.columns else [*table.rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)] if rows else []
    lines = ["  ".join([*(f"{cell:{wide}}" for cell, wide in zip(row, widths, strict=False)), row[-1]]) for row in rows]
    return "".join(f"{line.rstrip()}\n" for line in lines)
