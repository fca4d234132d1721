"""What stands in the chat area: blocks of paragraphs with a title and an edge, of which only what is seen is drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import urwid

from aar.transports.fullscreen.markup import GrowingMarkdown, Paragraph, harmless, plain_paragraphs

__all__ = ["Answer", "Block", "Canvas", "Growing", "Lines"]

PLAIN_FROM = 100_000
"""Characters of an answer from which on it is shown as it is, unless it came in piece by piece."""

LEAST = 16
"""Columns in which text is folded beside a label."""

MOST_INDENT = 4  # where there are fewer
LINES_EACH = 3  # of a paragraph, on average
Canvas = urwid.Canvas
Align = Literal["left", "right"]


class Block:
    """`kind` names its styles (`assistant` for `assistant.title`, ...); an empty one has no edge.

    `text` is for copying; `padding` is vertical, horizontal, in cells; `gap` is what is left empty below.
    """

    def __init__(self, kind: str = "", title: Any = "", padding: tuple[int, int] = (0, 1), gap: int = 1) -> None:
        self.kind = kind
        self._gap = gap
        self._align: Align = "left"
        self.title = title
        self.padding = padding
        self._rows: list[_Row] = []
        self._ends: list[int] = []  # after each row, how many lines there are up to there
        self._inner = 0  # the width for which `_ends` holds

    @property
    def text(self) -> str:
        return ""

    def refresh(self) -> bool:
        """Bring what is drawn up to date. Tells whether there is more to do at the next frame."""
        return False

    def set_paragraphs(self, paragraphs: Iterable[Paragraph], *, kept: int = 0) -> None:
        """Replace all rows but the first `kept`."""
        del self._rows[kept:]
        del self._ends[kept:]
        self._rows += [_Row(paragraph, self._align) for paragraph in paragraphs]

    def set_title(self, title: Any, kind: str = "") -> None:
        self.title = title
        self.kind = kind or self.kind

    # --- measuring and drawing ---

    @property
    def weight(self) -> int:
        """About how many lines this is, without measuring what nobody has seen yet."""
        known = self._ends[-1] if self._ends else 0
        return known + LINES_EACH * (len(self._rows) - len(self._ends)) + 2

    def rows(self, columns: int) -> int:
        """Lines at this width, with what is left empty below."""
        self._measure(columns)
        return self._above + (self._ends[-1] if self._ends else 0) + self.padding[0] + self._gap

    @property
    def _above(self) -> int:
        return bool(self.title) + self.padding[0]

    def _measure(self, columns: int) -> None:
        inner = max(1, columns - 2 * self.padding[1] - bool(self.kind))
        if inner != self._inner:
            self._inner = inner
            self._ends.clear()
        end = self._ends[-1] if self._ends else 0
        for row in self._rows[len(self._ends) :]:
            end += row.rows(inner)
            self._ends.append(end)

    def canvas(self, columns: int, start: int, count: int) -> Canvas:
        """Lines `start` to `start + count`, all of which there must be."""
        self._measure(columns)
        pieces: list[tuple[Canvas, Any, bool]] = []
        stop = start + count
        for first, rows, canvas in self._drawn(columns, start, stop):
            part = urwid.CompositeCanvas(canvas)
            top, below = max(0, start - first), max(0, first + rows - stop)
            if top:
                part.trim(top)
            if below:
                part.trim_end(below)
            pieces.append((part, None, False))
        return urwid.CanvasCombine(pieces)

    def _drawn(self, columns: int, start: int, stop: int) -> Iterator[tuple[int, int, Canvas]]:
        """What is between these lines: the first line of each piece, its length, and the piece."""
        above, padding = self._above, self.padding[0]
        if self.title and start == 0:
            yield 0, 1, self._title_line(columns)
        if padding and start < above and stop > above - padding:
            yield above - padding, padding, self._edged(urwid.SolidCanvas(" ", 1, padding), columns)
        at = bisect_right(self._ends, start - above)
        while at < len(self._rows):
            first = above + (self._ends[at - 1] if at else 0)
            if first >= stop:
                return
            canvas = self._edged(self._rows[at].render(self._inner), columns)
            if canvas.rows():
                yield first, canvas.rows(), canvas
            at += 1
        end = above + (self._ends[-1] if self._ends else 0)
        if padding and start < end + padding and stop > end:
            yield end, padding, self._edged(urwid.SolidCanvas(" ", 1, padding), columns)
        if self._gap and stop > end + padding:
            yield end + padding, self._gap, urwid.SolidCanvas(" ", columns, self._gap)

    def _title_line(self, columns: int) -> Canvas:
        border = f"{self.kind}.border"
        line = [(border, "─ "), (f"{self.kind}.title", self.title), (border, " " + "─" * columns)]
        return urwid.Text(line, wrap="clip").render((columns,))

    def _edged(self, canvas: Canvas, columns: int) -> Canvas:
        """At its place in a line of this width, with the edge before it."""
        whole = urwid.CompositeCanvas(canvas)
        left = min(self.padding[1], columns - 1)
        width = columns - bool(self.kind)
        whole.pad_trim_left_right(left, width - left - canvas.cols())
        if not self.kind:
            return whole
        edge = urwid.CompositeCanvas(urwid.SolidCanvas("│", 1, canvas.rows()))
        edge.fill_attr(f"{self.kind}.border")
        return urwid.CanvasJoin([(edge, None, False, 1), (whole, None, False, width)])


class _Row:
    """A paragraph at its place. What it was drawn to last is kept by urwid."""

    def __init__(self, paragraph: Paragraph, align: Align) -> None:
        text = urwid.Text(paragraph.markup, align=align)
        self._widget = urwid.AttrMap(text, paragraph.fill)
        self._label = urwid.Text(paragraph.label, wrap="clip") if paragraph.label else None
        self._indent = paragraph.indent

    def rows(self, columns: int) -> int:
        indent = self._indent_at(columns)
        return self._rows_above(columns) + self._widget.rows((columns - indent,))

    def render(self, columns: int) -> Canvas:
        indent, above = self._indent_at(columns), self._rows_above(columns)
        canvas = self._widget.render((columns - indent,))
        if not indent and not above:
            return canvas
        moved = urwid.CompositeCanvas(canvas)
        if self._label is None or above:
            moved.pad_trim_left_right(indent, 0)
            over = [(self._label.render((columns,)), None, False)] if self._label is not None else []
            return urwid.CanvasCombine([*over, (moved, None, False)])
        label = urwid.CompositeCanvas(self._label.render((indent,)))
        label.pad_trim_top_bottom(0, canvas.rows() - 1)
        return urwid.CanvasJoin([(label, None, False, indent), (canvas, None, False, canvas.cols())])

    def _is_narrow(self, columns: int) -> bool:
        return self._indent > MOST_INDENT and columns - self._indent < LEAST

    def _indent_at(self, columns: int) -> int:
        """Where there is no room beside what stands before the text, the text stands below that."""
        indent = min(MOST_INDENT, columns // 8) if self._is_narrow(columns) else self._indent
        return min(indent, columns - 1)

    def _rows_above(self, columns: int) -> int:
        return 1 if self._label is not None and self._is_narrow(columns) else 0


class Lines(Block):
    """Text as it is, in one style."""

    def __init__(self, text: str, style: str | None = None, *, align: Align = "left", **more: Any) -> None:
        super().__init__(**more)
        self._align: Align = align
        self._text = harmless(text)
        self.set_paragraphs(plain_paragraphs(self._text, style))

    @property
    def text(self) -> str:
        return self._text


class Growing(Block):
    """Text in one style that is still coming in."""

    def __init__(self, style: str | None = None, **more: Any) -> None:
        super().__init__(**more)
        self._style = style
        self._whole: list[str] = []
        self._tail = ""  # of the last row, which grows

    @property
    def text(self) -> str:
        return "".join(self._whole)

    def feed(self, text: str) -> None:
        clean = harmless(text)
        self._whole.append(clean)
        paragraphs = plain_paragraphs(self._tail + clean, self._style)
        last = paragraphs[-1].markup
        self._tail = last if isinstance(last, str) else last[1]
        self.set_paragraphs(paragraphs, kept=max(0, len(self._rows) - 1))


class Answer(Block):
    """Markdown that may still be coming in."""

    def __init__(self, padding: tuple[int, int]) -> None:
        super().__init__("assistant", "Assistant", padding)
        self._markdown = GrowingMarkdown()
        self._finished = 0  # rows that nothing changes any more
        self._is_stale = False

    def feed(self, text: str) -> None:
        self._markdown.feed(text)
        self._is_stale = True

    @property
    def text(self) -> str:
        return self._markdown.text

    def finish(self, whole: str) -> None:
        """The text as it is on record, which may be another one than what came in."""
        if whole == self._markdown.text:
            self._markdown.is_whole = self._is_stale = True
            return
        self._markdown, self._finished = GrowingMarkdown(), 0
        self._markdown.is_whole = True
        self.feed(whole)
        if len(whole) > PLAIN_FROM:
            self.set_paragraphs(plain_paragraphs(harmless(whole)))
            self._is_stale = False

    def refresh(self) -> bool:
        if not self._is_stale:
            return False
        self._is_stale = self._markdown.advance()
        finished = self._markdown.finished
        paragraphs = finished[self._finished :] + _trimmed(self._markdown.open)
        self.set_paragraphs(paragraphs, kept=self._finished)
        self._finished = len(finished)
        return self._is_stale


def _trimmed(paragraphs: list[Paragraph]) -> list[Paragraph]:
    """Without empty ones at the end."""
    end = len(paragraphs)
    while end and paragraphs[end - 1].markup == "":
        end -= 1
    return paragraphs[:end]
