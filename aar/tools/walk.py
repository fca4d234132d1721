"""The one walk over a session's folder: every file it yields is one that may be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from aar.errors import ToolError
from aar.safety.hard_links import Inode
from aar.safety.paths import PathGuard

__all__ = ["MAX_FILES", "FoundFile", "is_skipped_folder", "walk"]

MAX_FILES = 200_000
_MAX_DEPTH = 100

_SKIPPED = frozenset({"__pycache__", "node_modules", "venv", "dist", "build"})


class FoundFile(NamedTuple):
    """`name` is relative to the session's folder, `path` absolute and free of links, `size` in bytes."""

    name: str
    path: str
    size: int


def is_skipped_folder(name: str) -> bool:
    """Hidden and generated folders are not searched."""
    return name.startswith(".") or name in _SKIPPED or name.endswith(".egg-info")


def walk(
    guard: PathGuard, wanted: Callable[[str], bool], *, checkpoint: Callable[[], object] = lambda: None
) -> Iterator[FoundFile]:
    """Readable regular files whose relative name is `wanted`, in no order; links to folders are not followed.

    `checkpoint` is called once per folder and may raise to end the walk.
    Each folder is opened from the one above it, so nothing outside is listed whatever is renamed meanwhile.
    """
    with guard.open_folder(".") as root:
        yield from _Walk(guard, wanted, checkpoint).folder(root, "", 0)


class _Walk:
    def __init__(self, guard: PathGuard, wanted: Callable[[str], bool], checkpoint: Callable[[], object]) -> None:
        self.guard = guard
        self.wanted = wanted
        self.checkpoint = checkpoint
        self._secrets: frozenset[Inode] | None = None

    def folder(self, descriptor: int, prefix: str, depth: int) -> Iterator[FoundFile]:
        self.checkpoint()
        with os.scandir(descriptor) as entries:
            listed = list(entries)
        for entry in listed:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if depth < _MAX_DEPTH and not is_skipped_folder(entry.name):
                    yield from self._below(descriptor, entry.name, name, depth)
            elif self.wanted(name):
                with suppress(OSError):  # gone meanwhile
                    found = self._judge(entry, name)
                    if found is not None:
                        yield found

    def _below(self, parent: int, entry: str, name: str, depth: int) -> Iterator[FoundFile]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(entry, flags, dir_fd=parent)
        except OSError:  # unreadable, gone, or a link by now
            return
        try:
            yield from self.folder(descriptor, name + "/", depth + 1)
        finally:
            os.close(descriptor)

    def _judge(self, entry: os.DirEntry[str], name: str) -> FoundFile | None:
        literal, resolved = self._join(self.guard.cwd, name), self._join(self.guard.real_cwd, name)
        if entry.is_symlink():
            return self._behind_link(name, literal) if entry.is_file() else None  # as the kernel follows it
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or self.guard.judge(literal, resolved, write=False) is not None:
            return None
        if status.st_nlink > 1 and self._is_linked_secret(status):
            return None
        return FoundFile(name, resolved, status.st_size)

    def _behind_link(self, name: str, literal: str) -> FoundFile | None:
        """The link is followed once: what is judged, opened and handed on is one path, wherever it leads by then."""
        try:
            resolved = self.guard.resolve(name)
            if self.guard.judge(literal, resolved, write=False) is not None:
                return None
            with self.guard.open_read(resolved) as file:
                return FoundFile(name, resolved, os.fstat(file.fileno()).st_size)
        except (OSError, ToolError):
            return None

    def _is_linked_secret(self, status: os.stat_result) -> bool:
        if self._secrets is None:
            self._secrets = self.guard.linked_secrets()
        return self.guard.is_linked_secret(status, self._secrets)

    @staticmethod
    def _join(folder: str, name: str) -> str:
        return folder.rstrip("/") + "/" + name
