"""One writer per session: a lock file that the system lets go of when its holder dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from datetime import datetime

from aar.errors import SessionInUse

__all__ = ["Lease", "take_lease"]


class Lease:
    """The right to write a session. Ends with `release`, or with the process. `name` is its lock file's."""

    def __init__(self, name: str, file: int) -> None:
        self.name = name
        self._file = file
        self._locked = os.fstat(file)

    def is_held(self, found: os.stat_result | None) -> bool:
        """Whether what now stands under `name` is our file: when somebody removed it, others may have the session."""
        return self._file >= 0 and found is not None and os.path.samestat(found, self._locked)

    def release(self, folder: int | None) -> None:
        """Remove the lock file while it is still ours, and let go. Does nothing the second time."""
        if self._file < 0:
            return
        try:
            if folder is not None and _is_in_place(self.name, self._file, folder):
                os.unlink(self.name, dir_fd=folder)
        finally:
            os.close(self._file)
            self._file = -1


def take_lease(session_id: str, folder: int) -> Lease:
    """Lock `<id>.lock` in this folder, and write into it who holds it. Raises `SessionInUse`, `OSError`."""
    name = f"{session_id}.lock"
    while True:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_in_place(name, file, folder):
                _sign_or_remove(name, file, folder)
                return Lease(name, file)
        except BlockingIOError as error:
            try:
                holder = _holder(file)
            finally:
                os.close(file)
            raise SessionInUse(f"Session {session_id} is in use by {holder}. Close it there first.") from error
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its holder removed it between our open and our lock: take the new one


def _is_in_place(name: str, file: int, folder: int) -> bool:
    """Whether the name still leads to the file that we have locked."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(file))


def _sign_or_remove(name: str, file: int, folder: int) -> None:
    try:
        _sign(file)
    except OSError:  # as a rule the disk is full: a session that could not be opened leaves nothing on it
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def _sign(file: int) -> None:
    words = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(words).encode() + b"\n", 0)


def _holder(file: int) -> str:
    for _ in range(20):
        try:
            words = json.loads(os.pread(file, 4096, 0))
            since = datetime.fromtimestamp(words["since"]).isoformat(" ", "seconds")
            holder = f"process {words['pid']} on {words['host']}, since {since}"
            return holder if holder.isprintable() and len(holder) < 400 else "another process"
        except (OverflowError, RecursionError):  # not what we write
            return "another process"
        except (ValueError, KeyError, TypeError):
            time.sleep(0.005)  # locked and not signed yet: that takes its holder microseconds
    return "another process"
