"""A window on blocks that scrolls. At the end it stays there; once somebody has scrolled up it stands still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import urwid

from aar.transports.fullscreen.blocks import Block, Canvas

__all__ = ["Viewport"]

SCROLL = 3  # lines of one turn of the wheel
NARROWEST = 8  # columns in which there is anything to see


class Viewport(urwid.Widget):
    """A box widget. The line at its top is held by block and line, so what grows below moves nothing.

    `bar_columns` at its right are for a bar that shows about where this is: what was never seen is not measured for it.
    """

    _sizing = frozenset([urwid.BOX])
    _selectable = False

    def __init__(
        self,
        *,
        scroll: int = SCROLL,
        clicked: Callable[[Block | None, int], None] | None = None,
        fill: str | None = None,
        bar_columns: int = 0,
    ) -> None:
        """`clicked` gets the block below the mouse and the button."""
        super().__init__()
        self.blocks: list[Block] = []
        self.selected: Block | None = None
        self.is_following = True
        self.has_more = False
        self.bar_columns = bar_columns
        self._fill = fill
        self._scroll = scroll
        self._clicked = clicked
        self._top = (0, 0)  # block and its line
        self._below = (0, 0)  # the same for what comes after the last line that is seen
        self._size = (80, 24)

    def changed(self) -> None:
        self._invalidate()

    def clear(self) -> None:
        self.blocks.clear()
        self.selected = None
        self.is_following, self._top = True, (0, 0)
        self._invalidate()

    def drop_first(self, count: int) -> None:
        """Forget the oldest blocks."""
        if any(block is self.selected for block in self.blocks[:count]):
            self.selected = None
        del self.blocks[:count]
        block, line = self._top
        self._top = (block - count, line) if block >= count else (0, 0)
        self._invalidate()

    # --- scrolling ---

    def page(self, pages: int) -> None:
        self.move(pages * max(1, self._size[1] - 1))

    def move(self, lines: int) -> None:
        """Down, or up when negative. At the end it follows again."""
        if lines < 0:
            self._up(-lines)
        elif not self.is_following:
            block, line = self._top
            self._top = self._forward(block, line + lines)
        self._invalidate()

    def to_end(self) -> None:
        """Follow again."""
        self.is_following = True
        self._invalidate()

    def to_start(self) -> None:
        """The first line."""
        self.is_following, self._top = False, (0, 0)
        self._invalidate()

    def _up(self, lines: int) -> None:
        block, line = self._bottom_top() if self.is_following else self._top
        line -= lines
        while line < 0 and block > 0:
            block -= 1
            line += self._rows(block)
        if self.is_following and (block, max(0, line)) == self._bottom_top():
            return  # all of it is seen already
        self.is_following = False
        self._top = (block, max(0, line))

    def _forward(self, block: int, line: int) -> tuple[int, int]:
        while block < len(self.blocks) and line >= self._rows(block):
            line -= self._rows(block)
            block += 1
        return (block, line) if block < len(self.blocks) else self._bottom_top()

    def _bottom_top(self) -> tuple[int, int]:
        """What is at the top when the last line is at the bottom."""
        left = self._size[1]
        for block in range(len(self.blocks) - 1, -1, -1):
            rows = self._rows(block)
            if rows >= left:
                return block, rows - left
            left -= rows
        return 0, 0

    def _rows(self, block: int) -> int:
        found = self.blocks[block]
        self.has_more = found.refresh() or self.has_more
        return found.rows(self._size[0])

    # --- drawing ---

    def _without_bar(self, size: tuple[int, int]) -> tuple[int, int]:
        columns, rows = size
        return (columns - self.bar_columns if columns >= NARROWEST + self.bar_columns else columns), rows

    def render(self, size: Any, focus: bool = False) -> Canvas:
        columns, rows = self._without_bar(size)
        canvas = self._chat((columns, rows))
        if columns == size[0]:
            return canvas
        return urwid.CanvasJoin([(canvas, None, False, columns), (self._bar(rows), None, False, size[0] - columns)])

    def _bar(self, rows: int) -> Canvas:
        """Where what was drawn last is among all there is; empty when it is all."""
        weights = [block.weight for block in self.blocks]
        whole = sum(weights)

        def above(block: int, line: int) -> float:
            part = weights[block] * line / max(1, self._rows(block)) if block < len(weights) else 0
            return sum(weights[:block]) + part

        first, last = above(*self._top), above(*self._below)
        if rows < 1 or last - first >= whole:
            return urwid.SolidCanvas(" ", self.bar_columns, rows)
        size = min(rows, max(1, round(rows * (last - first) / whole)))
        start = round((rows - size) * first / (whole - (last - first)))
        parts = [(" ", start), ("█", size), (" ", rows - size - start)]
        drawn = [(urwid.SolidCanvas(sign, self.bar_columns, count), None, False) for sign, count in parts if count]
        bar = urwid.CompositeCanvas(urwid.CanvasCombine(drawn))
        bar.fill_attr("scrollbar")
        return bar

    def _chat(self, size: tuple[int, int]) -> Canvas:
        columns, rows = size
        if columns < NARROWEST or rows < 1:
            return urwid.SolidCanvas(" ", columns, rows)
        self._size = size
        self.has_more = False
        self._settle()
        pieces, left = [], rows
        block, line = self._top
        while left > 0 and block < len(self.blocks):
            count = min(self._rows(block) - line, left)
            if count > 0:
                pieces.append((self._canvas(block, line, count), None, False))
                left -= count
            self._below = (block, line + count)
            block, line = block + 1, 0
        if not pieces:
            return urwid.SolidCanvas(" ", columns, rows)
        canvas = urwid.CompositeCanvas(urwid.CanvasCombine(pieces))
        if left:
            canvas.pad_trim_top_bottom(0, left)
        if self._fill:
            canvas.fill_attr(self._fill)
        return canvas

    def _settle(self) -> None:
        """Follow the end where that is wanted, and again once it was reached."""
        end = self._bottom_top()
        block, line = self._top
        if self.is_following or self._top >= end:
            self._top, self.is_following = end, True
        elif line >= self._rows(block):  # another width, or the block got shorter
            self._top = block, max(0, self._rows(block) - 1)

    def _canvas(self, block: int, line: int, count: int) -> Canvas:
        found = self.blocks[block]
        canvas = urwid.CompositeCanvas(found.canvas(self._size[0], line, count))
        if found is self.selected:
            canvas.fill_attr("selected")
        return canvas

    # --- the mouse ---

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        if event != "mouse press":
            return False
        if button in (4, 5):
            self.move(-self._scroll if button == 4 else self._scroll)
        elif self._clicked is not None and col < self._without_bar(size)[0]:
            self._size = self._without_bar(size)
            self._clicked(self._block_at(row), button)
        self._invalidate()
        return True

    def select(self, block: Block | None) -> None:
        self.selected = block
        self._invalidate()

    def _block_at(self, row: int) -> Block | None:
        block, line = self._top
        row += line
        while block < len(self.blocks):
            rows = self._rows(block)
            if row < rows:
                return self.blocks[block]
            row -= rows
            block += 1
        return None

    def texts(self) -> Sequence[str]:
        """The texts of all blocks, oldest first."""
        return [block.text for block in self.blocks]
