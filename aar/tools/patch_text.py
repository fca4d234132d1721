"""The text of a patch: sections for files, and in those of files that are changed hunks of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aar.messages.patches import PatchAction, named_file, named_files

__all__ = ["FilePatch", "Hunk", "parse_patch"]

BEGIN, END, LAST = "*** Begin Patch", "*** End Patch", "*** End of File"
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")  # as `diff -u` has them: lines are found by what they say


class Hunk(NamedTuple):
    """`lines` begin with a blank (stays), `-` (goes) or `+` (comes). `anchors` are lines above them, outermost first.

    `is_last`: they are the last lines of the file.
    """

    lines: tuple[str, ...]
    anchors: tuple[str, ...] = ()
    is_last: bool = False

    @property
    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] != "+"]


class FilePatch(NamedTuple):
    """`added` is the text of a new file, `hunks` what changes in an old one."""

    action: PatchAction
    path: str
    added: str = ""
    hunks: tuple[Hunk, ...] = ()


def parse_patch(text: str) -> list[FilePatch]:
    """The sections of a patch. Raises `ValueError`, which says what is wrong with it."""
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise ValueError(f"a patch begins with the line '{BEGIN}' and ends with the line '{END}'")
    sections = [_section(*one) for one in _split(lines[1:-1])]
    if not sections:
        raise ValueError("the patch names no file")
    if [(one.action, one.path) for one in sections] != named_files(text):
        raise ValueError("there is a file outside of the patch")  # others may have judged by what the text names
    return sections


def _split(lines: Sequence[str]) -> Iterator[tuple[PatchAction, str, list[str]]]:
    """The head of each section, and its lines."""
    found: list[tuple[PatchAction, str, list[str]]] = []
    for line in lines:
        head = named_file(line)
        if head is not None:
            if not head.path:
                raise ValueError(f"'{line}' names no file")
            found.append((head.action, head.path, []))
        elif found:
            found[-1][2].append(line)
        elif line.strip():
            raise ValueError(f"'*** Add File: ', '*** Update File: ' or '*** Delete File: ' is expected, not '{line}'")
    yield from found


def _section(action: PatchAction, path: str, lines: list[str]) -> FilePatch:
    while lines and not lines[-1].strip():  # between sections
        lines.pop()
    if action == "Update":
        hunks = tuple(_hunks(path, lines))
        if not hunks:
            raise ValueError(f"{path}: the patch says nothing about what changes")
        return FilePatch(action, path, hunks=hunks)
    if action == "Delete" and lines:
        raise ValueError(f"{path}: nothing follows on '*** Delete File: '")
    wrong = next((line for line in lines if not line.startswith("+")), None)
    if wrong is not None:
        raise ValueError(f"{path}: lines of a new file begin with '+', not as '{wrong}'")
    return FilePatch(action, path, added="".join(f"{line[1:]}\n" for line in lines))


def _hunks(path: str, lines: Sequence[str]) -> Iterator[Hunk]:
    anchors: list[str] = []
    body: list[str] = []
    for line in lines:
        if line.startswith("@@") or line.strip() == LAST:
            if body:
                yield _hunk(path, body, anchors, is_last=line.strip() == LAST)
                anchors, body = [], []
            if line.startswith("@@") and (anchor := _anchor(line)):
                anchors.append(anchor)
        elif line[:1] in ("", " ", "+", "-"):
            body.append(line)
        else:
            raise ValueError(f"{path}: lines begin with ' ', '+', '-' or '@@', not as '{line}'")
    if body:
        yield _hunk(path, body, anchors, is_last=False)
    elif anchors:
        raise ValueError(f"{path}: nothing follows on '@@ {anchors[-1]}'")


def _anchor(line: str) -> str:
    text = line[2:].strip()
    return "" if _NUMBERS.fullmatch(text) else text


def _hunk(path: str, body: list[str], anchors: list[str], *, is_last: bool) -> Hunk:
    while not body[-1] and len(body) > 1:  # between hunks
        body.pop()
    if not any(line.startswith(("+", "-")) for line in body):
        raise ValueError(f"{path}: a part of the patch has neither '+' nor '-': {body[0]!r}")
    return Hunk(tuple(line or " " for line in body), tuple(anchors), is_last)  # the blank of an empty line is optional
