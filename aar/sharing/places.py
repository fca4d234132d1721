"""Where the sockets of live sessions are: `run` in the user's folder, for this user alone."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import trio

from aar.errors import SessionInUse, StoreUnavailable

__all__ = ["Listening", "Peer", "RUN", "connected", "live_sessions", "peer_of", "socket_name"]

RUN = "run"
SUFFIX = ".sock"
_HASHED = "-hashed" + SUFFIX
BACKLOG = 16
LONGEST_NAME = 48  # characters of a session id that stand in the name of its socket; a longer one is hashed
LONGEST_PATH = 103  # bytes of a socket's address on every system that Aar knows
LEFT_BEHIND = 24 * 3600.0  # seconds after which the socket of a process that was killed is removed when somebody looks

_IS_LINUX = sys.platform == "linux"
_DARWIN_PEER = (0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED and the size of what it gives


class Peer(NamedTuple):
    """Who is at the other end. `pid` is 0 where the system does not tell."""

    uid: int
    pid: int


def peer_of(stream: socket.socket | trio.socket.SocketType) -> Peer:
    """Raises `OSError` where the system does not say who it is."""
    if _IS_LINUX:
        pid, uid, _ = struct.unpack("3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return Peer(uid, pid)
    level, name, size = _DARWIN_PEER
    _, uid = struct.unpack_from("2I", stream.getsockopt(level, name, size))
    return Peer(uid, 0)


def socket_name(session_id: str) -> str:
    """The file name of this session's socket."""
    if len(session_id) > LONGEST_NAME:
        from hashlib import sha256  # which loads OpenSSL; ids that Aar makes are short

        return f"{sha256(session_id.encode()).hexdigest()[:32]}{_HASHED}"
    return session_id + SUFFIX


class Listening:
    """A socket that listens for those who attach to one session. To be closed; its file goes with it."""

    def __init__(self, home: Path, session_id: str) -> None:
        """Takes the place of one that a dead process left behind.

        Raises `SessionInUse` when another process listens there, and `StoreUnavailable`.
        """
        self._name = socket_name(session_id)
        path = home / RUN
        try:
            self._folder = _prepared(path)
            try:
                self.socket = self._bound(path)
            except BaseException:
                os.close(self._folder)
                raise
        except OSError as error:
            text = f"Cannot open a socket in {path}: {error.strerror or error}. Others cannot attach to this session."
            raise StoreUnavailable(text) from error

    def _bound(self, path: Path) -> socket.socket:
        if _answers(self._folder, path, self._name):
            raise SessionInUse(f"another process listens at {path / self._name}")
        draft = f".{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            found.bind(_address(self._folder, path, draft))
            os.chmod(draft, 0o600, dir_fd=self._folder)
            found.listen(BACKLOG)
            os.rename(draft, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)  # whole, or not there
            self._made = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except BaseException:
            found.close()
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=self._folder)
            raise
        return found

    def close(self) -> None:
        """Does nothing the second time. The file of another process that has taken the place stays."""
        if self._folder < 0:
            return
        self.socket.close()
        with contextlib.suppress(OSError):
            now = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
            if os.path.samestat(now, self._made):
                os.unlink(self._name, dir_fd=self._folder)
        folder, self._folder = self._folder, -1
        os.close(folder)


def connected(home: Path, session_id: str) -> socket.socket | None:
    """A connection to the owner of this session, or `None` when no process of this user shares it.

    Raises `StoreUnavailable` when what is there is not this user's.
    """
    path = home / RUN
    try:
        with _opened(path) as folder:
            return _connected(folder, path, socket_name(session_id))
    except FileNotFoundError:
        return None
    except BlockingIOError as error:
        raise StoreUnavailable(f"The process that owns session {session_id} does not answer.") from error
    except OSError as error:
        raise StoreUnavailable(f"Cannot look into {path}: {error.strerror or error}") from error


def live_sessions(home: Path, more: Iterable[str] = ()) -> set[str]:
    """The ids of the sessions that somebody shares. Waits for nobody.

    What processes that were killed left behind is removed after a day. Long ids, which are not in the names of their
    sockets, are found only among `more`.
    """
    path = home / RUN
    hashed = {socket_name(session_id): session_id for session_id in more}
    try:
        with _opened(path) as folder:
            names = [name for name in os.listdir(folder) if name.endswith(SUFFIX) and not name.startswith(".")]
            live = [name for name in names if _answers(folder, path, name)]
            _sweep(folder, set(names).difference(live))
    except OSError:
        return set()
    found = {hashed.get(name, "" if name.endswith(_HASHED) else name.removesuffix(SUFFIX)) for name in live}
    return found - {""}


def _sweep(folder: int, dead: Iterable[str]) -> None:
    late = time.time() - LEFT_BEHIND
    for name in dead:
        with contextlib.suppress(OSError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISSOCK(found.st_mode) and found.st_mtime < late:
                os.unlink(name, dir_fd=folder)


# --- the folder ---------------------------------------------------------------------------------


def _prepared(path: Path) -> int:
    """A descriptor of the folder, which is made where it is missing."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_private(folder)
    except BaseException:
        os.close(folder)
        raise
    return folder


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_private(folder)
        yield folder
    finally:
        os.close(folder)


def _check_private(folder: int) -> None:
    """It is ours; others whom somebody has let in are shut out again."""
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        raise PermissionError(0, "the folder belongs to another user")
    if found.st_mode & 0o077:
        os.fchmod(folder, 0o700)


def _address(folder: int, path: Path, name: str) -> str:
    """By descriptor where the system can: then it is short, and no link leads elsewhere."""
    if _IS_LINUX:
        return f"/proc/self/fd/{folder}/{name}"
    address = str(path / name)
    if len(os.fsencode(address)) > LONGEST_PATH:
        raise OSError(0, f"the path is longer than the {LONGEST_PATH} bytes that a socket's may have")
    return address


def _connected(folder: int, path: Path, name: str) -> socket.socket | None:
    """Raises `OSError` for one that is not ours."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.setblocking(False)  # a full queue is somebody who does not come to answer: that is told, not waited for
        found.connect(_address(folder, path, name))
        if peer_of(found).uid != os.geteuid():
            raise PermissionError(0, "another user listens there")
    except (FileNotFoundError, ConnectionRefusedError):
        found.close()
        return None
    except BaseException:
        found.close()
        raise
    return found


def _answers(folder: int, path: Path, name: str) -> bool:
    """Whether somebody listens there, also one who does not come to answer."""
    try:
        found = _connected(folder, path, name)
    except BlockingIOError:
        return True
    if found is not None:
        found.close()
    return found is not None
