"""Where everything stands: regions from the theme, with a place for a modal over them and for a bar below the chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import urwid
from urwid import calc_width

from aar.messages.themes import Region, Theme
from aar.transports.fullscreen.keys import Keys
from aar.transports.fullscreen.stage import Bar

__all__ = ["Board", "Places"]

Act = Callable[[str], None]
INPUT_ROWS, FOOTER_ROWS = 5, 3  # unless the theme says, or there is not enough room
BODY_ROWS, CHAT_COLUMNS = 6, 40  # that the chat keeps
PANEL_COLUMNS = 10  # in which thoughts can be read
FEW_ROWS = 10  # from which on there is a header and a footer


class Places(Protocol):
    """The widgets of the regions. `footer_rows` says how many lines the footer needs at this width."""

    @property
    def header(self) -> urwid.Widget: ...
    @property
    def chat(self) -> urwid.Widget: ...
    @property
    def thinking(self) -> urwid.Widget: ...
    @property
    def input(self) -> urwid.Widget: ...
    @property
    def footer(self) -> urwid.Widget: ...
    def footer_rows(self, columns: int) -> int: ...


class Board(urwid.WidgetWrap[urwid.Widget]):
    """The whole screen. Keys go to the modal, the bar and the input, in this order; `act` gets what they stand for."""

    def __init__(self, places: Places, theme: Theme, act: Act, keys: Keys) -> None:
        self._keys = keys
        self._places = places
        self._theme = theme
        self._act = act
        self._bar: Bar | None = None
        self._modal: tuple[urwid.Widget, int, int] | None = None
        self.is_thinking_shown = theme.fixed_layout.thinking_panel.enabled
        self._laid_out_for = (0, 0)
        super().__init__(urwid.SolidFill())

    def selectable(self) -> bool:
        return True

    # --- what is shown ---

    def use_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._rebuild()

    def show_thinking(self, shown: bool) -> None:
        """Without the panel the chat has its columns."""
        self.is_thinking_shown = shown
        self._rebuild()

    def show_bar(self, bar: Bar | None) -> None:
        self._bar = bar
        self._rebuild()

    @property
    def modal(self) -> urwid.Widget | None:
        return self._modal[0] if self._modal is not None else None

    def open_modal(self, widget: urwid.Widget, *, width: int, height: int) -> None:
        self._modal = (widget, width, height)
        self._rebuild()

    def close_modal(self) -> None:
        self._modal = None
        self._rebuild()

    # --- laying out ---

    def _rebuild(self) -> None:
        self._laid_out_for = (0, 0)
        self._invalidate()

    def _lay_out(self, size: tuple[int, int]) -> None:
        if size == self._laid_out_for:
            return
        self._laid_out_for = size
        base: urwid.Widget = self._pile(size)
        if self._modal is not None:
            widget, width, height = self._modal
            frame = urwid.AttrMap(urwid.LineBox(widget), "modal")
            base = urwid.Overlay(
                frame, base, "center", ("relative", width), "middle", ("relative", height), min_width=20, min_height=5
            )
        self._w = base

    def _pile(self, size: tuple[int, int]) -> urwid.Widget:
        columns, rows = size
        regions = self._regions(rows)
        bar_rows = self._bar.fit(columns, rows) if self._bar is not None else 0
        heights, left = self._heights(regions, columns, rows, bar_rows or BODY_ROWS)
        pieces: list[Any] = []
        for region in regions:
            if pieces:
                pieces.append((1, self._separator(region.name)))
            if region.name == "body":
                pieces.append(self._body(columns))
            else:
                pieces.append((heights[region.name], getattr(self._places, region.name)))
        if self._bar is not None:
            body = next((at for at, region in enumerate(regions) if region.name == "body"), len(regions) - 1)
            self._bar.fit(columns, left)
            pieces.insert(2 * body + 1, ("pack", self._bar))
        return urwid.Pile(pieces) if pieces else urwid.SolidFill()

    def _heights(self, regions: Sequence[Region], columns: int, rows: int, wanted: int) -> tuple[dict[str, int], int]:
        """Lines of each region, and those that are left for the chat: at least `wanted`, at the cost of the others."""
        heights: dict[str, int] = {
            region.name: self._rows_of(region, columns) for region in regions if region.name != "body"
        }
        left = rows - (len(regions) - 1) - sum(heights.values())
        for name in ("footer", "input", "header"):
            taken = min(max(0, wanted - left), heights.get(name, 1) - 1)
            if taken:
                heights[name] -= taken
                left += taken
        return heights, left

    def _regions(self, rows: int) -> list[Region]:
        """Those that are to be seen. Where there are but a few lines nothing but the chat and the input is."""
        shown = [region for region in self._theme.fixed_layout.regions if region.visible]
        return [region for region in shown if rows >= FEW_ROWS or region.name in ("body", "input")] or shown

    def _rows_of(self, region: Region, columns: int) -> int:
        says = "regions" in self._theme.fixed_layout.model_fields_set and region.size
        if says:
            return int(says)
        if region.name == "footer":
            return min(FOOTER_ROWS, self._places.footer_rows(columns))
        return INPUT_ROWS if region.name == "input" else region.size or 1

    def _separator(self, below: str) -> urwid.Widget:
        bar, name = (self._theme.footer, "footer") if below in ("input", "footer") else (self._theme.header, "header")
        sign = bar.separator.character
        line = sign if sign.isprintable() and calc_width(sign, 0, len(sign)) == 1 else "─"  # one that urwid can draw
        return urwid.AttrMap(urwid.SolidFill(line), f"{name}.separator")

    def _body(self, columns: int) -> urwid.Widget:
        panel = self._theme.fixed_layout.thinking_panel
        width = min(panel.width, columns - CHAT_COLUMNS)
        if not self.is_thinking_shown or width < PANEL_COLUMNS:
            return urwid.AttrMap(self._places.chat, "body")
        chat = ("weight", 1, self._places.chat)
        edge = (1, urwid.AttrMap(urwid.SolidFill("│"), "thinking.border"))
        thoughts = (width - 1, self._places.thinking)
        sides: list[Any] = [thoughts, edge, chat] if panel.side == "left" else [chat, edge, thoughts]
        return urwid.AttrMap(urwid.Columns(sides), "body")

    # --- drawing, keys and the mouse ---

    def render(self, size: Any, focus: bool = False) -> urwid.Canvas:
        self._lay_out(size)
        self._focus_input()
        return super().render(size, focus)

    def keypress(self, size: Any, key: str) -> str | None:
        self._lay_out(size)
        binding = self._keys.bound(key)
        if binding is not None and binding.everywhere:
            self._act(binding.action)
            return None
        if self._modal is not None:
            self._press_in_modal(size, key)
            return None
        if self._bar is not None and self._bar.selectable():
            unused = self._bar.keypress((size[0],), key)
            if unused is None:
                return None
        if binding is not None and not (binding.after_input and self._places.input.keypress(size, key) is None):
            self._act(binding.action)
        if binding is not None:
            return None
        self._focus_input()
        return super().keypress(size, key)

    def _press_in_modal(self, size: tuple[int, int], key: str) -> None:
        """What is pasted goes into the input all the same: there it is seen, and not lost."""
        assert self._modal is not None
        if key in ("begin paste", "end paste"):
            self._places.input.keypress(size, key)
            return
        if self._w.selectable() and self._modal[0].selectable():
            unused = self._w.keypress(size, key)
            if unused is None:
                return
        if key == "esc":
            self.close_modal()

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        """A click moves no focus: whoever types goes on in the input."""
        self._lay_out(size)
        taken = self._w.mouse_event(size, event, button, col, row, focus)
        self._focus_input()
        self._invalidate()
        return taken

    def _focus_input(self) -> None:
        pile = self._w
        if isinstance(pile, urwid.Pile):
            for place, (widget, _) in enumerate(pile.contents):
                if widget is self._places.input and pile.focus_position != place:
                    pile.focus_position = place
