"""Where the hunks of a patch belong in a text, and the text with them applied. Lines are found by what they say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from aar.tools.patch_nearest import nearest
from aar.tools.patch_text import Hunk

__all__ = ["patched"]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_TYPESET = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "−": "-", "‑": "-", "\u00a0": " ", "\ufeff": None}
)
_MOST_NAMED = 4  # places of lines that occur several times


def _plain(line: str) -> str:
    return line.translate(_TYPESET).strip()


_READINGS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, _plain)
"""How lines are compared, the most faithful one first. What is left out at the left has to be left out everywhere."""


class _Line(NamedTuple):
    text: str
    end: str


class _Place(NamedTuple):
    """Lines from `start` up to `stop` become `lines`; `None` keeps the line that is there."""

    start: int
    stop: int
    lines: tuple[str | None, ...]


def patched(text: str, hunks: Sequence[Hunk]) -> str:
    """The text with all hunks applied; line ends stay as they are. Raises `ValueError` with all that does not fit."""
    lines = [_line(one) for one in _LINE.findall(text)]
    texts = [line.text for line in lines]
    places: list[_Place] = []
    wrong: list[str] = []
    for number, hunk in enumerate(hunks, start=1):
        try:
            places.append(_place(texts, hunk))
        except ValueError as error:
            wrong.append(f"hunk {number}: {error}" if len(hunks) > 1 else str(error))
    places.sort(key=lambda place: place[:2])
    if any(before.stop > after.start for before, after in pairwise(places)):
        wrong.append("two hunks change the same lines")
    if wrong:
        raise ValueError("\n".join(wrong))
    return _written(lines, places, "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n")


def _line(raw: str) -> _Line:
    text = raw.removesuffix("\n").removesuffix("\r")
    return _Line(text, raw[len(text) :])


def _written(lines: list[_Line], places: Sequence[_Place], usual_end: str) -> str:
    has_end = not lines or lines[-1].end.endswith("\n")
    for place in reversed(places):
        there = iter(lines[place.start : place.stop])
        new: list[_Line] = []
        for text in place.lines:
            if text is None:
                new.append(next(there))
            elif text == _GOES:
                next(there)
            else:
                new.append(_Line(text, usual_end))
        lines[place.start : place.stop] = new
    ended = [line.text + (line.end if line.end.endswith("\n") else usual_end) for line in lines[:-1]]
    return "".join(ended) + "".join(_last(line, usual_end, has_end) for line in lines[-1:])


_GOES = "\n"  # no text of a line


def _last(line: _Line, usual_end: str, has_end: bool) -> str:
    if has_end:
        return line.text + (line.end if line.end.endswith("\n") else usual_end)
    return line.text + ("" if line.end.endswith("\n") else line.end)


# --- finding ------------------------------------------------------------------------------------


def _place(lines: list[str], hunk: Hunk) -> _Place:
    first = _below(lines, hunk.anchors)
    old = hunk.old
    if not old:
        return _pure_addition(lines, hunk, first)
    for reading in _READINGS:
        found = list(islice(_fitting(lines, hunk, reading, first), 1 if hunk.anchors else _MOST_NAMED))
        if len(found) > 1:
            numbers = ", ".join(str(place.start + 1) for place in found)
            raise ValueError(
                f"the lines {_quoted(old)} occur more than once (at line {numbers}): "
                "add lines around them, or put '@@' and a line that stands above the right ones before them"
            )
        if found:
            return found[0]
    raise ValueError(f"the lines {_quoted(old)} are not in the file. {nearest(lines, old)}")


def _quoted(old: Sequence[str]) -> str:
    first = next((line.strip() for line in old if line.strip()), "")
    return f"'{first[:60]}'" + (" and what follows" if len(old) > 1 else "")


def _below(lines: Sequence[str], anchors: Sequence[str]) -> int:
    """The line that the anchors lead to, by its index."""
    at = 0
    for anchor in anchors:
        rest = [line.strip() for line in lines[at:]]
        found = next((here for here, line in enumerate(rest) if line == anchor), None)
        if found is None:
            found = next((here for here, line in enumerate(rest) if line.startswith(anchor)), None)
        if found is None:
            raise ValueError(f"there is no line '{anchor}' for '@@'. {nearest(list(lines), [anchor])}")
        at += found
    return at


def _pure_addition(lines: Sequence[str], hunk: Hunk, first: int) -> _Place:
    if hunk.is_last or not lines:
        at = len(lines)
    elif hunk.anchors:
        at = first + 1
    else:
        raise ValueError("lines are added, and none around them say where")
    return _Place(at, at, tuple(line[1:] for line in hunk.lines))


def _fitting(lines: Sequence[str], hunk: Hunk, reading: Callable[[str], str], first: int) -> Iterator[_Place]:
    old = hunk.old
    for at in _starts([reading(line) for line in lines], [reading(line) for line in old]):
        if at < first or (hunk.is_last and at + len(old) != len(lines)):
            continue
        shifted = _shifted(hunk, lines[at : at + len(old)])
        if shifted is not None:
            yield _Place(at, at + len(old), shifted)


def _starts(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """In linear time, which comparing lists is not."""
    text, needle = "\n".join(["", *lines, ""]), "\n".join(["", *wanted, ""])
    at, number, counted = text.find(needle), 0, 0
    while at >= 0:
        number += text.count("\n", counted, at)
        yield number
        counted, at = at, text.find(needle, at + 1)


def _shifted(hunk: Hunk, there: Sequence[str]) -> tuple[str | None, ...] | None:
    """What the lines become, indented as those that are there; `None` when these differ from one another in that."""
    pairs = [(_indent(old), _indent(new)) for old, new in zip(hunk.old, there, strict=True) if old.strip()]
    shifts = {_shift(*pair) for pair in pairs}
    if len(shifts) > 1 or None in shifts:
        return None
    more, less = next(iter(shifts), None) or ("", "")
    added = [line[1:] for line in hunk.lines if line[0] == "+" and line[1:].strip()]
    if not all(line.startswith(less) for line in added):
        return None
    return tuple(_becomes(line, more, less) for line in hunk.lines)


def _becomes(line: str, more: str, less: str) -> str | None:
    if line[0] != "+":
        return None if line[0] == " " else _GOES
    text = line[1:]
    return more + text.removeprefix(less) if text.strip() else text


def _shift(wanted: str, found: str) -> tuple[str, str] | None:
    """What stands before the indentation in the file, and what before that of the patch."""
    if found.endswith(wanted):
        return found[: len(found) - len(wanted)], ""
    return ("", wanted[: len(wanted) - len(found)]) if wanted.endswith(found) else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
