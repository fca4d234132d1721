"""What the Tab key can add to what somebody types: kinds of directives, and the files that each kind takes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from aar.directives import KINDS

__all__ = ["Completion", "Names", "common_beginning", "complete", "names_in"]

MAX_NAMES = 2_000  # of one folder
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tiff", ".pdf")

Names = Callable[[str], Iterable[str]]
"""The names in a folder, written as somebody typed it; those of folders with a slash behind them."""

_WITHIN = re.compile(rf"(?<!\S)@({'|'.join(KINDS)})\[([^\[\]]*)\Z")
_WORD = re.compile(r"(?<!\S)@([^\s\[\]@]*)\Z")


class Completion(NamedTuple):
    """Each of `choices` may stand in the text from `start` up to the cursor."""

    start: int
    choices: tuple[str, ...]


def complete(before: str, names: Names) -> Completion | None:
    """What the text before the cursor may go on with, sorted; `None` where nothing is known. Asks `names` at most once.

    Pictures alone go on `@Image[`, nothing goes on `@Bash[`; other directives, and `@` without one, take any file.
    """
    if found := _WITHIN.search(before):
        kind, begun = found[1], found[2]
        if kind == "Bash":
            return None
        choices = [path if path.endswith("/") else f"{path}]" for path in _paths(begun, names, kind)]
        return _as_completion(found.start(2), choices)
    if found := _WORD.search(before):
        begun = found[1]
        kinds = [f"{kind}[" for kind in KINDS if kind.lower().startswith(begun.lower())]
        return _as_completion(found.start(1), [*kinds, *(path for path in _paths(begun, names, "") if " " not in path)])
    return None


def common_beginning(choices: Sequence[str]) -> str:
    """With what all of them begin."""
    first, last = min(choices), max(choices)
    same = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(same, len(first))]


def _as_completion(start: int, choices: Iterable[str]) -> Completion | None:
    found = tuple(choices)
    return Completion(start, found) if found else None


def _paths(begun: str, names: Names, kind: str) -> list[str]:
    folder, slash, first = begun.rpartition("/")
    folder += slash
    return [
        folder + name
        for name in sorted(names(folder))
        if name.startswith(first) and (first or not name.startswith(".")) and _fits(name, kind)
    ]


def _fits(name: str, kind: str) -> bool:
    if not name.isprintable() or "[" in name or "]" in name:
        return False
    return name.endswith("/") or kind != "Image" or name.lower().endswith(_IMAGES)


def names_in(cwd: str, may_read: Callable[[str], str | None]) -> Names:
    """Names of real folders, as seen from `cwd`. Reads them, so use it in a thread. What may not be read is empty."""

    def names(folder: str) -> Iterable[str]:
        path = os.path.realpath(os.path.join(cwd, os.path.expanduser(os.path.expandvars(folder))))
        if may_read(path) is not None:
            return []
        try:
            with os.scandir(path) as entries:
                return [entry.name + ("/" if entry.is_dir() else "") for entry in islice(entries, MAX_NAMES)]
        except OSError:
            return []

    return names
