"""The folder that holds journals: private, and reached by descriptor, so that no name leads elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aar.errors import StoreUnavailable

__all__ = ["Folder", "read_all", "unavailable", "write_all"]

_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space, then try again.",
    errno.EDQUOT: "The disk quota is used up: free some space, then try again.",
    errno.EFBIG: "The file has reached the largest size that is allowed: start a new session.",
    errno.EROFS: "The file system is read-only: choose another session_dir.",
    errno.EACCES: "Make it writable for this user, or choose another session_dir.",
    errno.EPERM: "Make it writable for this user, or choose another session_dir.",
    errno.ENOENT: "Nothing can be made there: choose another session_dir.",
    errno.ENOTDIR: "A file has the place of a folder: choose another session_dir.",
    errno.EIO: "The disk reports an error: check it before you go on.",
    errno.ELOOP: "Journals are never reached through links: put the file itself there.",
    errno.EMFILE: "Too many files are open: raise the limit (ulimit -n) or close some sessions.",
}


def unavailable(doing: str, path: Path, error: OSError) -> StoreUnavailable:
    """The error that tells what failed where, and what to do."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0, "What was written before stays readable.")
    return StoreUnavailable(f"Cannot {doing} {path}: {reason}. {advice}")


def write_all(file: int, data: bytes) -> None:
    """One `write` where the system takes it whole; it may take less."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


class Folder:
    """A folder for journals. Nothing is created before `prepare`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._prefix = os.path.join(path, "")

    def prepare(self) -> None:
        """Create the folder and what is missing above it, for this user alone."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of the folder for the length of a block."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield folder
        finally:
            os.close(folder)

    def open_file(self, name: str, flags: int, folder: int | None = None) -> tuple[int, os.stat_result]:
        """A descriptor of a regular file in the folder, for the caller to close, and its status; a new one is 0600.

        Without a descriptor of the folder it is one step for the system, which looks up both.
        """
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        file = os.open(f"{self._prefix}{name}" if folder is None else name, flags, 0o600, dir_fd=folder)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EPERM, "not a regular file", str(self.path / name))
        except BaseException:
            os.close(file)
            raise
        return file, found

    def status(self, name: str, folder: int | None = None) -> os.stat_result | None:
        """What stands under this name, a link itself and not where it leads; None when there is nothing."""
        path = f"{self._prefix}{name}" if folder is None else name
        try:
            return os.stat(path, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @contextmanager
    def file(self, name: str, flags: int, folder: int) -> Iterator[int]:
        """The same for the length of a block."""
        file, _ = self.open_file(name, flags, folder)
        try:
            yield file
        finally:
            os.close(file)

    def read(self, name: str) -> bytes:
        with self.opened() as folder, self.file(name, os.O_RDONLY, folder) as file:
            return read_all(file)

    def replace(self, name: str, data: bytes, folder: int) -> os.stat_result:
        """Put a new file in the place of an old one: whatever happens, one of the two is there, whole."""
        draft = f"{name}.new"
        self.remove(draft, folder)
        with self.file(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder) as file:
            write_all(file, data)
            os.fsync(file)
            made = os.fstat(file)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        return made

    def remove(self, name: str, folder: int) -> bool:
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return False
        return True


def read_all(file: int, size: int | None = None) -> bytes:
    """The first `size` bytes of a file, or all of it."""
    size = os.fstat(file).st_size if size is None else size
    pieces = []
    at = 0
    while at < size and (piece := os.pread(file, min(size - at, 1 << 26), at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)
