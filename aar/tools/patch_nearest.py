"""What stands in a file where a hunk of a patch was probably meant to go: for a model that has to try again."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

__all__ = ["nearest"]

MOST_LINES = 12  # shown
MOST_CHARS = 200  # of each
_COMPARED = 2_000  # lines of the file, when none of them is the same
_REPEATS = 3  # of one line among those looked for that are counted
_ALIKE = 0.6


def nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """A sentence and the lines with their numbers, as far as there is something like `wanted`."""
    at = _start(lines, wanted)
    if at is None:
        return "Nothing in it is like them."
    there = lines[at : at + len(wanted)]
    shown = [f"{number:6d}\t{line[:MOST_CHARS]}" for number, line in enumerate(there[:MOST_LINES], start=at + 1)]
    where = f"line {at + 1}" if len(there) == 1 else f"lines {at + 1} to {at + len(there)}"
    return "\n".join([f"Nearest: {where}{_difference(there, wanted, at)}", *shown])


def _difference(there: Sequence[str], wanted: Sequence[str], at: int) -> str:
    for number, (here, line) in enumerate(zip(there, wanted, strict=False), start=at + 1):
        if here.strip() != line.strip():
            return f", where line {number} is not '{line.strip()[:MOST_CHARS]}'"
    return ", with other indentation" if len(there) == len(wanted) else ", at the end of the file"


def _start(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Lines that are the same vote for where the whole begins, long ones more than short ones."""
    stripped = [line.strip() for line in lines]
    places: dict[str, list[int]] = {}
    for index, line in enumerate(wanted):
        known = places.setdefault(line.strip(), [])
        if line.strip() and len(known) < _REPEATS:
            known.append(index)
    votes: dict[int, int] = {}
    for at, line in enumerate(stripped):
        for index in places.get(line, ()):
            start = max(at - index, 0)
            votes[start] = votes.get(start, 0) + len(line)
    if votes:
        return max(votes, key=lambda start: votes[start])
    return _alike(stripped, [line.strip() for line in wanted])


def _alike(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    longest = max(wanted, key=len)[:MOST_CHARS]
    known = list(dict.fromkeys(line[:MOST_CHARS] for line in lines if line))[:_COMPARED]
    found = get_close_matches(longest, known, n=1, cutoff=_ALIKE)
    if not found:
        return None
    at = next(at for at, line in enumerate(lines) if line[:MOST_CHARS] == found[0])
    return max(at - max(range(len(wanted)), key=lambda index: len(wanted[index])), 0)
