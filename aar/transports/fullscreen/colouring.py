"""What a tool gave in colours, where one can tell what language it is in: a file by its name, a patch, JSON."""

from __future__ import annotations

import re
from typing import Any

from aar.display import plain
from aar.messages.events import ToolCall
from aar.transports.fullscreen.highlight import PLAIN, Runs, highlighted, language_of
from aar.transports.fullscreen.markup import Paragraph, harmless

__all__ = ["COLOURED", "coloured"]

COLOURED = 200_000
"""Characters up to which there are colours: reading a language takes seconds for a megabyte."""

HEAD = 4  # lines that may stand before those with numbers
_NUMBERED = re.compile(r"( *\d+)\t(.*)", re.DOTALL)


def coloured(call: ToolCall, output: str) -> list[Paragraph] | None:
    """A paragraph a line, for what `harmless` makes of the output; `None` where the language is not known.

    Takes up to a second: call it in a thread.
    """
    if len(output) > COLOURED:
        return None
    text = plain(output)
    head, numbers, code = _parts(text)
    path = call.arguments.get("path")
    if numbers and isinstance(path, str):
        language = language_of(path)
    elif not numbers:
        language = _language_in(text)
    else:
        language = ""
    runs = highlighted(code, language) if language else []
    if not any(style != PLAIN for style, _ in runs):
        return None
    lines = _lines(runs)
    labels = [*numbers, *[""] * (len(lines) - len(numbers))]
    pieces: list[list[Any]] = [
        [("dim", label), *line] if label else line for label, line in zip(labels, lines, strict=True)
    ]
    return [*(Paragraph(harmless(line)) for line in head), *(Paragraph(_spaced(line) or "") for line in pieces)]


def _parts(text: str) -> tuple[list[str], list[str], str]:
    """Lines before those with numbers, the numbers with the blanks around them, and what stands behind those."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines[: HEAD + 1]) if _NUMBERED.fullmatch(line)), None)
    if first is None:
        return [], [], text
    last = len(lines) - (lines[-1] == "")
    found = [_NUMBERED.fullmatch(line) for line in lines[first:last]]
    if not all(found):
        return [], [], text
    matches = [match for match in found if match is not None]
    code = "\n".join([*(match[2] for match in matches), *lines[last:]])
    return lines[:first], [f"{match[1]}\t" for match in matches], code


def _language_in(text: str) -> str:
    if text.startswith(("diff --git ", "--- ")) and "\n@@" in text:
        return "diff"
    return "json" if re.match(r"\s*[{\[]\s*[\"{\[]", text) and re.search(r"[}\]]\s*\Z", text) else ""


def _lines(runs: Runs) -> list[list[Any]]:
    lines: list[list[Any]] = [[]]
    for style, text in runs:
        first, *further = text.split("\n")
        for number, part in enumerate((first, *further)):
            if number:
                lines.append([])
            if part:
                lines[-1].append((style, part))
    return lines


def _spaced(runs: list[Any]) -> list[Any]:
    """The tabs of a line as spaces, counted from its beginning."""
    found: list[Any] = []
    at = 0
    for style, text in runs:
        spaced = f"{' ' * at}{text}".expandtabs(4)[at:]
        found.append((style, spaced))
        at += len(spaced)
    return found
