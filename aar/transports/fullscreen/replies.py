"""The answers of slash commands as blocks."""

from __future__ import annotations

from urwid import calc_width

from aar.display import one_line
from aar.transports.fullscreen.blocks import Block, Lines
from aar.transports.terminal.slash import Reply, Table

__all__ = ["reply_blocks"]

GAP = "  "
WIDEST = 40  # columns of a cell that is not the last


def reply_blocks(reply: Reply) -> list[Block]:
    """What there is to show, in order."""
    blocks: list[Block] = []
    if reply.problem:
        blocks.append(Lines(reply.problem, "error.text"))
    if reply.table is not None:
        blocks.append(Lines(_rows(reply.table), kind="welcome", title=one_line(reply.table.title)))
    if reply.text:
        blocks.append(Lines(reply.text))
    return blocks


def _rows(table: Table) -> str:
    rows = [*([table.columns] if table.columns else []), *table.rows]
    lines = [tuple(one_line(cell) for cell in row) for row in rows]
    widths = [min(WIDEST, max(_width(cell) for cell in column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(row, widths) for row in lines)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
    return GAP.join(padded).rstrip()


def _width(text: str) -> int:
    return calc_width(text, 0, len(text))
