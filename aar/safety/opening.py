"""Opening files by their resolved path with nothing in between: no link is followed, no special file opened.

A path that was decided on must be the path that is opened, even while somebody renames things. So each
folder is opened from the one above it, and a link anywhere means that the path has changed meanwhile.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["PathChanged", "kind_of", "open_folder", "open_object", "read_descriptor", "remove_from", "replace_in"]

# O_PATH touches nothing: a FIFO does not wait for its writer and a tape does not rewind.
_TOUCHLESS = hasattr(os, "O_PATH") and os.path.isdir("/proc/self/fd")
_LOOK = os.O_PATH if _TOUCHLESS else os.O_RDONLY | os.O_NONBLOCK
_COMMON = os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER = _LOOK | _COMMON | os.O_DIRECTORY


class PathChanged(OSError):
    """A folder on the way became a link while the path was being opened."""


@contextmanager
def open_folder(path: str, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder with this absolute, link-free path; missing folders are made with `create`."""
    descriptor = os.open("/", _FOLDER)
    try:
        for name in filter(None, path.split("/")):
            below = _step(descriptor, name, create)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_object(path: str) -> Iterator[int]:
    """A descriptor of whatever has this absolute, link-free path, good for `fstat` and `read_descriptor`."""
    folder, _, name = path.rpartition("/")
    with open_folder(folder) as parent:
        descriptor = os.open(name or ".", _LOOK | _COMMON, dir_fd=parent)
        try:
            if stat.S_ISLNK(os.fstat(descriptor).st_mode):
                raise PathChanged(f"changed while it was being opened: {path}")
            yield descriptor
        finally:
            os.close(descriptor)


def read_descriptor(descriptor: int, *, folder: bool = False) -> int:
    """A new descriptor that reads what `open_object` or `open_folder` found."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | (os.O_DIRECTORY if folder else 0)
    return os.open(f"/proc/self/fd/{descriptor}", flags) if _TOUCHLESS else os.dup(descriptor)


def replace_in(parent: int, name: str, data: bytes) -> None:
    """Put `data` under `name` in one step: a reader sees the old content or the new, and never neither.

    Mode and owner of an old file are kept. Raises `OSError` when `name` is anything but a regular file.
    """
    old = _regular(parent, name)
    temporary = f".{_shortened(name)}.{secrets.token_hex(6)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON, 0o666, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if old is not None:
                _keep_owner_and_mode(descriptor, old)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise


def remove_from(parent: int, name: str) -> None:
    """Delete the file `name`. Raises `OSError` when it is anything but a regular file."""
    if _regular(parent, name) is None:
        raise FileNotFoundError(f"File not found: {name}")
    os.unlink(name, dir_fd=parent)


def _shortened(name: str) -> str:
    """File systems count bytes: 80 of them leave room for the rest of a temporary name."""
    return os.fsencode(name)[:80].decode(errors="ignore")


def kind_of(mode: int) -> str:
    """What a file of this mode is, in words."""
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
    devices = ((stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))
    return next((text for fits, text in (*kinds, *devices) if fits(mode)), "a regular file")


def _step(descriptor: int, name: str, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o777, dir_fd=descriptor)
    try:
        return os.open(name, _FOLDER, dir_fd=descriptor)
    except NotADirectoryError as error:
        if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            raise PathChanged(f"changed while it was being opened: {name}") from error
        raise


def _regular(parent: int, name: str) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"Is a folder: {name}")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"Not a regular file: {name}")
    return found


def _keep_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)  # new content does not run as somebody else
