"""The files that a patch of the tool `patch` names, for whoever judges or counts them before it is applied."""

import re
from typing import Literal, NamedTuple, cast

__all__ = ["PATCH_TOOL", "NamedFile", "PatchAction", "named_file", "named_files"]

PATCH_TOOL = "patch"

PatchAction = Literal["Add", "Update", "Delete"]

_HEADER = re.compile(r"^\*\*\* (Add|Update|Delete) File:[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)


class NamedFile(NamedTuple):
    action: PatchAction
    path: str


def named_files(patch: str) -> list[NamedFile]:
    """Every file whose section begins somewhere in this text, in order; also in a text that is no valid patch."""
    return [NamedFile(cast("PatchAction", action), path) for action, path in _HEADER.findall(patch)]


def named_file(line: str) -> NamedFile | None:
    """The file whose section begins with this line."""
    found = named_files(line)
    return found[0] if found else None
