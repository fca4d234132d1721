"""Where extensions are looked for, and whether there is any: found out without importing what runs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "GROUP",
    "ExtensionFolder",
    "extension_folders",
    "has_entry_points",
    "is_wanted",
    "may_have_extensions",
    "site_folders",
]

GROUP = "aar_extensions"  # of entry points, by which installed packages say that they bring an extension


class ExtensionFolder(NamedTuple):
    """`project` is the folder that everything in here must lie in; `None` for one of the user's own."""

    path: Path
    project: Path | None = None


def extension_folders(home: Path, cwd: str | Path) -> list[ExtensionFolder]:
    """Those of the user and of a project, whether they are there or not. A later one wins over an earlier one.

    A session that works in the user's home folder has no project folder beside the user's own.
    """
    own = ExtensionFolder(home / "extensions")
    there = [Path(cwd, ".agent", "extensions"), Path(cwd, ".aar", "extensions")]
    mine = os.path.realpath(own.path)
    return [own, *(ExtensionFolder(path, Path(cwd)) for path in there if os.path.realpath(path) != mine)]


def may_have_extensions(home: Path, cwd: str | Path) -> bool:
    """Whether it is worth looking closer. Blocking, a millisecond or two: most have none, and nothing is imported."""
    return any(folder.path.is_dir() for folder in extension_folders(home, cwd)) or has_entry_points(cwd)


def has_entry_points(cwd: str | Path) -> bool:
    """Whether an installed package says that it brings an extension. Blocking."""
    return any(_entry_points(cwd))


def is_wanted(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Whether an extension of this name may be loaded, as patterns of names say."""
    from fnmatch import fnmatchcase  # with the first extension

    return any(fnmatchcase(name, one) for one in include) and not any(fnmatchcase(name, one) for one in exclude)


def site_folders(cwd: str | Path) -> Sequence[str]:
    """Where installed packages are. Never a project: `python -m` puts the current folder first on the path."""
    foreign = {os.path.realpath(cwd), _here()}
    own = os.path.realpath(sys.prefix)
    found = (os.path.realpath(entry) for entry in sys.path if os.path.isabs(entry))
    return [place for place in dict.fromkeys(found) if _is_below(place, own) or not _is_below_any(place, foreign)]


def _here() -> str:
    try:
        return os.path.realpath(os.getcwd())
    except OSError:
        return os.devnull


def _is_below_any(place: str, folders: set[str]) -> bool:
    return any(_is_below(place, folder) for folder in folders)


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip(os.sep) + os.sep)


def _entry_points(cwd: str | Path) -> Iterator[bool]:
    """Truths, one for each installed package with extensions. Parsing all metadata would take 40 times as long."""
    wanted = GROUP.encode()
    for place in site_folders(cwd):
        try:
            entries = os.scandir(place)
        except OSError:
            continue
        with entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")) and wanted in _read(
                    f"{entry.path}/entry_points.txt"
                ):
                    yield True


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
