"""Files with several names: which of them are a secret by one of their names.

Package stores (pnpm, uv) link every file of a project, so a second name alone says nothing. Nobody can ask the kernel
for the other names; they are looked for where secrets are kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

__all__ = ["Inode", "inode_of", "linked_secrets"]

Inode = tuple[int, int]
"""Device and number of a file."""

_MOST_ENTRIES = 200_000
_INSTALLED = frozenset({"node_modules", ".venv", "venv", "site-packages", ".git", "__pycache__", ".tox", ".nox"})


def inode_of(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def linked_secrets(project: str, elsewhere: list[str], is_secret: Callable[[str], bool]) -> frozenset[Inode]:
    """The files with several names of which one `is_secret`: anywhere in `project`, or right in `elsewhere`.

    What package managers install is passed over. `elsewhere` are files and folders; of the folders in them only those
    are entered in which everything is secret.
    """
    found = {inode for path, inode in _linked(_all_below(project)) if is_secret(path)}
    for place in elsewhere:
        found |= {inode for path, inode in _linked(_secret_below(place, is_secret)) if is_secret(path)}
    return frozenset(found)


def _linked(paths: Iterator[tuple[str, os.stat_result]]) -> Iterator[tuple[str, Inode]]:
    for path, status in paths:
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            yield path, inode_of(status)


def _all_below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    return _walk(folder, lambda path: os.path.basename(path) not in _INSTALLED)


def _secret_below(place: str, is_secret: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
    try:
        yield place, os.lstat(place)
    except OSError:
        return
    yield from _walk(place, lambda path: is_secret(path + "/any"))


def _walk(folder: str, is_entered: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
    seen = 0
    folders = [folder]
    while folders and seen < _MOST_ENTRIES:
        for entry in _entries(folders.pop()):
            seen += 1
            if entry.is_dir(follow_symlinks=False):
                folders += [entry.path] if is_entered(entry.path) else []
            else:
                try:
                    yield entry.path, entry.stat(follow_symlinks=False)
                except OSError:  # gone meanwhile
                    continue


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # unreadable, gone, or a file
        return []
