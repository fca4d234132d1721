"""What in a repository makes git run programs later: hooks, and settings that name one.

A sandbox cannot keep commands from writing there, for git itself writes beside it, with every branch and every commit.
It can see what has changed, and say so before somebody uses git.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

__all__ = ["GitPrograms", "changed_note"]

MOST_FILES = 200  # hooks of a repository that are looked at
MOST_BYTES = 1_000_000  # of one file
SHOWN = 3

HARMLESS = (
    "branch.*",
    "core.autocrlf core.bare core.eol core.filemode core.ignorecase core.logallrefupdates core.precomposeunicode",
    "core.quotepath core.repositoryformatversion core.safecrlf core.sharedrepository core.sparsecheckout*",
    "core.symlinks core.untrackedcache extensions.* fetch.* gc.auto gc.pruneexpire index.* init.defaultbranch",
    "lfs.repositoryformatversion merge.conflictstyle merge.ff pull.* push.* rebase.auto* rerere.enabled",
    "remote.*.fetch remote.*.gh-resolved remote.*.mirror remote.*.partialclonefilter remote.*.promisor remote.*.prune",
    "remote.*.pushurl remote.*.tagopt remote.*.url remote.pushdefault submodule.*.active submodule.*.branch",
    "submodule.*.url submodule.active submodule.recurse user.email user.name",
)
"""Settings that name no program, of those that git and its users write themselves. All others may."""

_PATTERNS = " ".join(HARMLESS).split()
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\](.*)', re.DOTALL)
_SETTING = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:=\s*(.*))?$", re.DOTALL)


class GitPrograms:
    """Looks at the repositories of some folders: those that stand in them, not below. Blocking."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._places = [os.path.join(folder, ".git") for folder in dict.fromkeys(folders)]

    def look(self) -> dict[str, str]:
        """Each hook and each setting that may name a program, with what stands there."""
        found: dict[str, str] = {}
        for place in self._places:
            if os.path.isdir(place):
                found.update(_hooks(place))
                for name in ("config", "config.worktree"):
                    found.update(_settings(os.path.join(place, name)))
        return found


def changed_note(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What to say of programs that are new or others now; empty when there are none."""
    new = [name for name, what in after.items() if before.get(name) != what]
    if not new:
        return ""
    more = f" and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
    named = ", ".join(name if len(name) <= 60 else f"{name[:60]}…" for name in new[:SHOWN])
    return (
        f"This command has changed what git runs later, as the user and outside the sandbox: {named}{more}. "
        "Look at it before git is used here."
    )


def _hooks(place: str) -> Iterator[tuple[str, str]]:
    folder = os.path.join(place, "hooks")
    try:
        names = [] if os.path.islink(folder) else sorted(os.listdir(folder))
        if os.path.islink(folder):
            yield ".git/hooks", os.readlink(folder)
    except OSError:
        return
    for name in [name for name in names if not name.endswith(".sample")][:MOST_FILES]:
        yield f".git/hooks/{name}", _standing(os.path.join(folder, name))


def _standing(path: str) -> str:
    """What a file is and holds, in short. A link counts by where it leads and by what stands there."""
    try:
        link = os.readlink(path) if os.path.islink(path) else ""
        mode = os.stat(path).st_mode
    except OSError as error:
        return f"{error.errno}"
    content = _read(path) or b""
    return f"{link} {mode & 0o111:o} {hashlib.sha256(content).hexdigest()}"


def _read(path: str) -> bytes | None:
    """The beginning of a regular file: a pipe would be waited for without end."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(opened, "rb") as file:
        return file.read(MOST_BYTES) if stat.S_ISREG(os.fstat(opened).st_mode) else None


def _settings(path: str) -> Iterator[tuple[str, str]]:
    content = _read(path)
    if content is None:
        return
    section, text = "", re.sub(r"\\\r?\n", "", content.decode(errors="replace"))
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        header = _SECTION.match(line)
        if header:
            section, line = ".".join(filter(None, [header[1].lower(), header[2]])), header[3]
        setting = _SETTING.match(line)
        if setting:
            values.setdefault(f"{section}.{setting[1].lower()}", []).append(setting[2] or "")
    for name, given in values.items():
        if not any(fnmatchcase(name, pattern) for pattern in _PATTERNS):
            yield f"{name} in .git/{os.path.basename(path)}", "\n".join(given)
