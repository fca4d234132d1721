"""`patch`: several places in several files are changed at once, all of them or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from aar.errors import ToolError
from aar.messages.patches import PATCH_TOOL
from aar.messages.tools import SideEffect
from aar.safety.paths import PathGuard
from aar.tools.files import MAX_FILE_BYTES, require_writable, version_of
from aar.tools.patch_places import patched
from aar.tools.patch_text import FilePatch, parse_patch
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.threads import in_thread

__all__ = ["PATCH"]


async def patch(ctx: ToolContext, patch: str) -> str:
    try:
        sections = parse_patch(patch)
    except ValueError as error:
        raise ToolError("invalid_arguments", f"this is no patch: {error}") from error
    return await in_thread(lambda: _apply(ctx.paths, sections))


def _apply(paths: PathGuard, sections: Sequence[FilePatch]) -> str:
    targets = [paths.resolve(one.path) for one in sections]
    twice = next((path for at, path in enumerate(targets) if path in targets[:at]), None)
    if twice is not None:
        raise ToolError("invalid_arguments", f"the patch has several sections for {twice}: put them into one")
    with paths.changing_all(targets):
        _write(paths, _planned(paths, sections))
    return "\n".join(_told(one, target) for one, target in zip(sections, targets, strict=True))


def _told(section: FilePatch, target: str) -> str:
    hunks = len(section.hunks)
    number = f": {hunks} {'place' if hunks == 1 else 'places'}" if hunks else ""
    return f"{section.action.removesuffix('e')}ed {target}{number}"


# --- what is to be written ----------------------------------------------------------------------


class _Change(NamedTuple):
    """A file before and after; `None` is no file. `seen` is its version when it was read."""

    path: str
    before: bytes | None
    after: bytes | None
    seen: tuple[int, ...] = ()


def _planned(paths: PathGuard, sections: Sequence[FilePatch]) -> list[_Change]:
    """Every change, and nothing is written yet. Raises `ValueError` with all that does not fit."""
    changes: list[_Change] = []
    wrong: list[str] = []
    for section in sections:
        try:
            changes.append(_PLANS[section.action](paths, section))
        except (OSError, ValueError) as error:
            wrong.append(f"{section.path}: {error}")
    if wrong:
        raise ValueError("\n".join(["the patch was not applied, no file was changed", *wrong]))
    return sorted(changes, key=lambda change: change.after is None)  # what is deleted is the hardest to bring back


def _addition(paths: PathGuard, section: FilePatch) -> _Change:
    reason = paths.check(section.path, write=True)
    if reason is not None:
        raise ToolError("blocked", f"blocked by safety policy: {reason}")
    if os.path.lexists(paths.resolve(section.path)):
        raise ValueError("is there already: use '*** Update File: '")
    return _Change(section.path, None, section.added.encode())


def _update(paths: PathGuard, section: FilePatch) -> _Change:
    before, seen = _content(paths, section.path)
    try:
        text = before.decode()
    except UnicodeDecodeError as error:
        raise ValueError("is not UTF-8 text") from error
    require_writable(paths, section.path)
    return _Change(section.path, before, patched(text, section.hunks).encode(), seen)


def _deletion(paths: PathGuard, section: FilePatch) -> _Change:
    before, seen = _content(paths, section.path)
    require_writable(paths, section.path)
    if os.path.islink(os.path.join(paths.cwd, section.path)):
        raise ValueError("is a link, which is not deleted")
    if not os.access(os.path.dirname(paths.resolve(section.path)), os.W_OK):
        raise ValueError("stands in a folder that is write-protected")
    return _Change(section.path, before, None, seen)


_PLANS: dict[str, Callable[[PathGuard, FilePatch], _Change]] = {
    "Add": _addition,
    "Update": _update,
    "Delete": _deletion,
}


def _content(paths: PathGuard, path: str) -> tuple[bytes, tuple[int, ...]]:
    with paths.open_read(path) as file:
        seen = version_of(os.fstat(file.fileno()))
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"is larger than {MAX_FILE_BYTES:,} bytes: too large for a patch")
    return data, seen


# --- writing ------------------------------------------------------------------------------------


def _write(paths: PathGuard, changes: Sequence[_Change]) -> None:
    """Write all, or put back what was written."""
    done: list[_Change] = []
    try:
        for change in changes:
            _require_unchanged(paths, change)
            _put(paths, change.path, change.after)
            done.append(change)
    except (OSError, ValueError, ToolError) as error:
        lost = list(_not_put_back(paths, done))
        what = f"but for {', '.join(lost)}, which could not be put back" if lost else "no file was changed"
        raise ValueError(f"the patch was not applied, {what}\n{error}") from error


def _require_unchanged(paths: PathGuard, change: _Change) -> None:
    name = paths.resolve(change.path)
    if change.before is None:
        if os.path.lexists(name):
            raise ValueError(f"{name} has come up during the patch")
    elif version_of(os.stat(name)) != change.seen:  # by a command that runs beside us: its work would be lost
        raise ValueError(f"{name} was changed by somebody else during the patch: read it again")


def _put(paths: PathGuard, path: str, data: bytes | None) -> None:
    if data is None:
        paths.remove(path)
    else:
        paths.replace(path, data)


def _not_put_back(paths: PathGuard, done: Sequence[_Change]) -> Iterator[str]:
    for change in reversed(done):
        is_back = False
        with suppress(OSError, ToolError):
            _put(paths, change.path, change.before)
            is_back = True
        if not is_back:
            yield change.path


# --- what the model is told ---------------------------------------------------------------------

_DESCRIPTION = """\
Change, add and delete several files at once. Nothing is written unless every part fits. Example:

*** Begin Patch
*** Update File: src/app.py
@@ def greet():
     name = "world"
-    print("Hi")
+    print("Hello", name)
*** Add File: docs/new.md
+First line
*** Delete File: old.txt
*** End Patch

In a file that is updated, lines that stay begin with a blank, those that go with '-', those that come with '+'. \
Places are found by these lines, not by numbers: give about three lines that stay above and below, and before lines \
that occur several times '@@' with a line that stands above the right ones. '*** End of File' after a part says that \
its lines are the last of the file."""

PATCH = ToolSpec(
    name=PATCH_TOOL,
    description=_DESCRIPTION,
    input_schema={
        "type": "object",
        "properties": {"patch": {"type": "string", "description": "The whole patch"}},
        "required": ["patch"],
        "additionalProperties": False,
    },
    side_effects=(SideEffect.WRITE,),
    prompt_snippet="Change, add and delete several files at once",
    handler=patch,
)
