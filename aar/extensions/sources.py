"""The files of an extension, read once: what is hashed is what runs, whatever happens on disk meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from aar.errors import ExtensionError

__all__ = ["Source", "read_source"]

MOST_FILES = 1000
MOST_BYTES = 16 * 1024 * 1024  # of all files of one extension

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)


class Source(NamedTuple):
    """`files` are contents by path, relative to `path`; a module of one file has the path ""."""

    path: Path
    files: Mapping[str, bytes]
    digest: str


def read_source(path: Path, *, project: Path | None) -> Source:
    """Every file of an extension, or the Python files alone when it is of no project.

    In a project a link must lead to a file that lies in it, and never to a folder. Raises `ExtensionError` for what
    cannot be read, is too much, or leads elsewhere. Blocking, and never waits for another program.
    """
    root = os.path.realpath(project) if project is not None else None
    files: dict[str, bytes] = {}
    size = 0
    try:
        for relative, file in _files(path, root):
            if project is None and file.suffix != ".py":
                continue
            data = _content(file, root, MOST_BYTES - size)
            files[relative] = data
            size += len(data)
            if len(files) > MOST_FILES:
                raise ExtensionError(f"it has more than {MOST_FILES} files")
    except OSError as error:
        raise ExtensionError(f"{error.filename or path} cannot be read ({error.strerror or error})") from error
    return Source(path, files, _digest(files))


def _files(path: Path, root: str | None) -> Iterator[tuple[str, Path]]:
    if root is not None and not _is_inside(path, root):
        raise ExtensionError(f"{path} is a link that leads out of the project")
    if not path.is_dir():
        yield "", path
        return
    for folder, names, files in os.walk(path, onerror=_raise):
        names[:] = sorted(name for name in names if name != "__pycache__")
        for name in names:
            if os.path.islink(os.path.join(folder, name)):
                raise ExtensionError(f"{os.path.join(folder, name)} is a link to a folder")
        for name in sorted(files):
            file = Path(folder, name)
            yield file.relative_to(path).as_posix(), file


def _raise(error: OSError) -> None:
    raise error


def _is_inside(path: Path, root: str) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)


def _content(file: Path, root: str | None, most: int) -> bytes:
    if root is not None and not _is_inside(file, root):
        raise ExtensionError(f"{file} is a link that leads out of the project")
    descriptor = os.open(file, _READ)
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ExtensionError(f"{file} is not a regular file")
        data = opened.read(most + 1)
    if len(data) > most:
        raise ExtensionError(f"it is larger than {MOST_BYTES // 1024 // 1024} MB")
    return data


def _digest(files: Mapping[str, bytes]) -> str:
    """Over names and contents, with their lengths: no other set of files gives the same."""
    found = hashlib.sha256()
    for name in sorted(files):
        encoded = os.fsencode(name)
        found.update(b"%d:%s:%d:" % (len(encoded), encoded, len(files[name])))
        found.update(files[name])
    return found.hexdigest()
