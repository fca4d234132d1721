"""The answers of slash commands as blocks."""

from __future__ import annotations

from urwid import calc_width

from aar.display import one_line
from aar.transports.fullscreen.blocks import Block, Lines
from aar.transports.fullscreen.markup import Paragraph
from aar.transports.terminal.slash import Reply, Table

__all__ = ["reply_blocks"]

GAP = "  "
WIDEST = 40  # columns of a cell that is not the last
MOST_BEFORE = 50  # columns before the last one, for it to be folded within itself


def reply_blocks(reply: Reply) -> list[Block]:
    """What there is to show, in order."""
    blocks: list[Block] = []
    if reply.problem:
        blocks.append(Lines(reply.problem, "error.text"))
    if reply.table is not None:
        blocks.append(TableBlock(reply.table))
    if reply.text:
        blocks.append(Lines(reply.text))
    return blocks


class TableBlock(Block):
    """The last column is folded within itself where there is room for that."""

    def __init__(self, table: Table) -> None:
        super().__init__("welcome", one_line(table.title))
        rows = [*([table.columns] if table.columns else []), *table.rows]
        lines = [tuple(one_line(cell) for cell in row) for row in rows]
        widths = [min(WIDEST, max(map(_width, column))) for column in zip(*lines, strict=True)]
        heads = [GAP.join([*map(_padded, row[:-1], widths), ""]) for row in lines]
        self._text = "\n".join(head + row[-1] for head, row in zip(heads, lines, strict=True))
        self.set_paragraphs(
            Paragraph(row[-1] or " ", _width(head), label=head)
            if _width(head) <= MOST_BEFORE
            else Paragraph(head + row[-1])
            for head, row in zip(heads, lines, strict=True)
        )

    @property
    def text(self) -> str:
        return self._text


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    return calc_width(text, 0, len(text))
