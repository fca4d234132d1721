"""The arguments of a tool call, as they are shown to somebody who decides whether it may run."""

from __future__ import annotations

import json
from typing import Any
from unicodedata import east_asian_width

from aar.display import one_line, visible

__all__ = ["VALUE_LIMIT", "described", "long_arguments"]

VALUE_LIMIT = 120  # characters of an argument inside the panel; a longer one stands whole above it
MARK = "  │ "
_WHOLE = ("command", "path")  # always inside, at any length


def described(arguments: dict[str, Any], width: int, *, whole: bool = False) -> str:
    """The arguments for a panel with lines of `width` characters. None is cut: a long one is shown above instead.

    With `whole` there is nothing above, and all of them are inside at any length.

    A value that takes more than one line has a mark before each, also where a line is folded: it cannot look like
    another argument, or like the reason for the question.
    """
    if not arguments:
        return "  (no arguments)"
    texts = [(one_line(str(name)), _text_of(value)) for name, value in arguments.items()]
    return "\n".join(_described(name, text, width, whole=whole) for name, text in texts)


def _described(name: str, text: str, width: int, *, whole: bool) -> str:
    if not whole and not _is_inside(name, text):
        text = f"({len(text)} chars, {text.count(chr(10)) + 1} lines — shown above)"
    line = f"  {name}: {visible(text)}"
    if "\n" not in line and _cells(line) <= width:
        return line
    return "\n".join([*_head(name, width), *_marked(text, width)])


def _head(name: str, width: int) -> list[str]:
    line = f"  {name}:"
    return [line] if _cells(line) <= width else _marked(line.strip(), width)


def _marked(text: str, width: int) -> list[str]:
    """The lines of an untrusted text, each with a mark and none wider than `width`."""
    lines = visible(text).expandtabs(4).split("\n")
    return [MARK + piece for line in lines for piece in _folded(line, width - len(MARK))]


def _folded(line: str, width: int) -> list[str]:
    if line.isascii():
        return [line[at : at + width] for at in range(0, len(line), width)] or [""]
    pieces, used = [""], 0
    for char in line:
        used += _cells(char)
        if used > width:
            pieces.append("")
            used = _cells(char)
        pieces[-1] += char
    return pieces


def _cells(text: str) -> int:
    """Columns that the text takes at most."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WFA" else 1 for char in text)


def long_arguments(arguments: dict[str, Any], width: int) -> list[str]:
    """Each argument that is too long for the panel, whole, with a mark before each of its lines."""
    texts = [(str(name), _text_of(value)) for name, value in arguments.items()]
    return [
        "\n".join([*_head(one_line(name), width), *_marked(text, width)])
        for name, text in texts
        if not _is_inside(name, text)
    ]


def _is_inside(name: str, text: str) -> bool:
    return name in _WHOLE or len(text) <= VALUE_LIMIT


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
