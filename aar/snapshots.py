"""The files of a folder as they are, kept to be brought back: by git, in a repository of Aar's own.

The folder's own `.git`, if there is one, is neither read nor changed, and the folder may be no repository at all. What
a folder brings along can name programs that git runs: here none of that counts, and every byte is kept as it is.
Files that `.gitignore` names and repositories within the folder are not kept.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import trio

from aar.errors import StoreUnavailable
from aar.processes.group import open_process

__all__ = ["Change", "Snapshots"]

TIMEOUT = 20.0  # seconds for one snapshot, or for bringing one back
TIDYING = 10.0  # seconds for forgetting old ones
MAX_FILES = 50_000
MAX_BYTES = 500_000_000  # of all files together
MAX_FILE = 20_000_000  # bytes; a larger file is not kept
MAX_OUTPUT = 16_000_000  # bytes of what one command of git says
KEPT = 50  # snapshots of one session, and some more until somebody looks
LOOK_EVERY = 20  # snapshots; then old ones are forgotten, and before the first
KEPT_DAYS = 30  # of the other sessions in this folder

logger = logging.getLogger(__name__)

_REFS = "refs/aar/"
_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CONFIG = {
    "core.autocrlf": "false",
    "core.compression": "1",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.untrackedCache": "false",
    "gc.auto": "5000",
    "gc.autoDetach": "false",
}
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding -crlf -eol\n"  # over those of the folder: bytes stay bytes
_TOLD = 300  # characters of what git says about a failure


class Change(NamedTuple):
    """What bringing a snapshot back has done to a file: `made` (it was gone), `changed` or `removed` (it was new)."""

    what: str
    path: str


class Snapshots:
    """Of one folder, in `home`. One session takes and brings back one at a time.

    What is in `private` is never kept, whoever takes or brings back from then on.
    """

    def __init__(self, home: Path, cwd: str, *, private: str = "") -> None:
        self._cwd = os.path.realpath(cwd)
        self._own = _inside(os.path.realpath(home), self._cwd)
        elsewhere = os.path.realpath(os.path.join(cwd, os.path.expanduser(private)))
        self._private = _inside(elsewhere, self._cwd) if private else ""
        self._taken = 0
        self._repository = home / "snapshots" / hashlib.sha256(os.fsencode(self._cwd)).hexdigest()[:16]

    async def take(self, session_id: str) -> str:
        """Keep the files as they are now, and give the snapshot's name. Raises `StoreUnavailable` when that fails."""
        with _in_time("kept"):
            git = await self._opened(session_id)
            names = await _names(git)
            kept, gone = await trio.to_thread.run_sync(_sorted_out, self._cwd, names, self._own, abandon_on_cancel=True)
            if gone:
                await git.run("update-index", "-z", "--force-remove", "--stdin", stdin=_lines(gone))
            await git.run("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=_lines(kept))
            tree = (await git.run("write-tree")).decode().strip()
            name = (await git.run("commit-tree", tree, "-m", session_id)).decode().strip()
            await git.run("update-ref", f"{_REFS}{session_id}/{time.time_ns()}", name)
        self._taken += 1
        if self._taken % LOOK_EVERY == 1:
            await self._tidy_up(git, session_id)
        return name

    async def bring_back(self, session_id: str, name: str) -> tuple[str, list[Change]]:
        """Make the files what they were, and say what that changed. The first of the two names what was there before.

        Raises `StoreUnavailable`, also when the snapshot is not there any more.
        """
        if not _NAME.fullmatch(name):
            raise StoreUnavailable(f"{name!r} names no snapshot")
        before = await self.take(session_id)
        with _in_time("brought back"):
            git = await self._opened(session_id)
            try:
                changes = _changes(
                    await git.run("diff-tree", "-r", "-z", "--no-renames", "--name-status", before, name)
                )
            except StoreUnavailable as error:
                raise StoreUnavailable(f"the files of that time are not kept any more: {error}") from error
            if changes:
                await git.run("read-tree", "-m", "-u", before, name)
        return before, changes

    async def _opened(self, session_id: str) -> _Git:
        git = _Git(self._repository, self._cwd, f"index-{session_id}")
        if shutil.which("git") is None:
            raise StoreUnavailable("git is not installed")
        if os.curdir in (self._own, self._private):
            raise StoreUnavailable("this is Aar's own folder, or that of its sessions")
        if not (self._repository / "info" / "attributes").exists():
            await self._create(git)
        await trio.to_thread.run_sync(_break_lock, self._repository / f"index-{session_id}.lock")
        if self._private:
            await trio.to_thread.run_sync(_exclude, self._repository / "info" / "exclude", self._private)
        return git

    async def _create(self, git: _Git) -> None:
        """`info/attributes` is written last: it says that all is there."""
        folder = self._repository
        await trio.to_thread.run_sync(_private_folder, folder)
        await git.run("init", "--quiet", "--bare", "--template=", os.fspath(folder), is_made=False)
        await trio.to_thread.run_sync(_write_own_files, folder)

    async def _tidy_up(self, git: _Git, session_id: str) -> None:
        """What cannot be done in this time is left for another one."""
        try:
            with trio.move_on_after(TIDYING):
                await self._forget_old(git, session_id)
        except StoreUnavailable as error:
            logger.warning("old snapshots could not be forgotten: %s", error)

    async def _forget_old(self, git: _Git, session_id: str) -> None:
        form = "--format=%(refname) %(creatordate:unix)"
        listed = (await git.run("for-each-ref", form, _REFS)).decode().splitlines()
        refs = [(name, int(when)) for name, _, when in (line.rpartition(" ") for line in listed) if when.isdigit()]
        own = sorted(name for name, _ in refs if name.startswith(f"{_REFS}{session_id}/"))
        oldest = time.time() - KEPT_DAYS * 86_400
        old = own[:-KEPT] + [name for name, when in refs if when < oldest and name not in own]
        if old:
            orders = b"".join(f"delete {name}\n".encode() for name in old)
            await git.run("update-ref", "--stdin", stdin=orders)
        await trio.to_thread.run_sync(_forget_indexes, self._repository, f"index-{session_id}", oldest)
        if refs:
            await git.run("gc", "--auto", "--quiet")


class _Git:
    """git, for a repository of ours, files of somebody else's, and an index of one session."""

    def __init__(self, repository: Path, cwd: str, index: str) -> None:
        self._cwd = cwd
        home = os.path.expanduser("~")
        self._env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": home,
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "Aar",
            "GIT_AUTHOR_EMAIL": "aar@localhost",
            "GIT_COMMITTER_NAME": "Aar",
            "GIT_COMMITTER_EMAIL": "aar@localhost",
        }
        self._places = {
            "GIT_DIR": os.fspath(repository),
            "GIT_WORK_TREE": cwd,
            "GIT_INDEX_FILE": os.fspath(repository / index),
        }
        self._settings = [word for key, value in _CONFIG.items() for word in ("-c", f"{key}={value}")]

    async def run(self, *words: str, stdin: bytes = b"", is_made: bool = True) -> bytes:
        """What git says. Raises `StoreUnavailable` with its words when it fails."""
        argv = ["git", *self._settings, *words]
        env = self._env | (self._places if is_made else {})
        said: list[bytes] = []
        complaint: list[bytes] = []
        try:
            async with (
                open_process(argv, cwd=self._cwd, env=env, stdin=stdin) as process,
                trio.open_nursery() as readers,
            ):
                assert process.stderr is not None
                readers.start_soon(_read, process.stdout, said, MAX_OUTPUT)
                readers.start_soon(_read, process.stderr, complaint, 4 * _TOLD)
                code = await process.wait()
        except OSError as error:
            raise StoreUnavailable(f"git cannot be run: {error.strerror or error}") from error
        if code != 0:
            told = b"".join(complaint).decode("utf-8", errors="replace").strip()[-_TOLD:]
            raise StoreUnavailable(f"git {words[0]} failed: {told or f'it ended with {code}'}")
        if sum(map(len, said)) > MAX_OUTPUT:
            raise StoreUnavailable("the folder has too many files")
        return b"".join(said)


async def _read(stream: trio.lowlevel.FdStream, into: list[bytes], most: int) -> None:
    """All of it is read, so that git can end; a little more than `most` is kept."""
    left = most + 1
    while chunk := await stream.receive_some(65_536):
        if left > 0:
            into.append(chunk[:left])
            left -= len(chunk)


@contextmanager
def _in_time(what: str) -> Iterator[None]:
    with trio.move_on_after(TIMEOUT) as limit:
        yield
    if limit.cancelled_caught:
        raise StoreUnavailable(f"the files could not be {what} within {TIMEOUT:g} s")


# --- which files ------------------------------------------------------------------------------


async def _names(git: _Git) -> list[bytes]:
    """Files that were kept before or are not ignored, relative to the folder."""
    listed = await git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = list(dict.fromkeys(name for name in listed.split(b"\0") if name and not name.endswith(b"/")))
    if len(names) > MAX_FILES:
        raise StoreUnavailable(f"the folder has more than {MAX_FILES} files")
    return names


def _sorted_out(cwd: str, names: Sequence[bytes], own: str) -> tuple[list[bytes], list[bytes]]:
    """Those to be kept, and those that are gone or not kept: too large, no files, behind a link by now, or Aar's own.

    `own` is where Aar's folder is within this one, if it is: its journals must never become what they were.
    """
    root, private = os.fsencode(cwd), os.fsencode(own)
    folders: dict[bytes, bool] = {b"": True}
    kept: list[bytes] = []
    gone: list[bytes] = []
    total = 0
    for name in names:
        is_own = bool(private) and name.startswith(private)
        size = _size(root, name) if not is_own and _is_real(root, os.path.dirname(name), folders) else None
        if size is None or size > MAX_FILE:
            gone.append(name)
            continue
        total += size
        if total > MAX_BYTES:
            raise StoreUnavailable(f"the files of the folder are larger than {MAX_BYTES / 1e6:g} MB together")
        kept.append(name)
    return kept, gone


def _inside(folder: str, cwd: str) -> str:
    """Its path from there, with a separator at the end; `.` when it is the same, empty when it is elsewhere."""
    if folder == cwd:
        return os.curdir
    beginning = os.path.join(cwd, "")
    return os.path.join(folder[len(beginning) :], "") if folder.startswith(beginning) else ""


def _is_real(root: bytes, folder: bytes, known: dict[bytes, bool]) -> bool:
    """Whether no part of this path is a link, or anything else than a folder."""
    if folder not in known:
        try:
            is_folder = stat.S_ISDIR(os.lstat(os.path.join(root, folder)).st_mode)
        except OSError:
            is_folder = False
        known[folder] = is_folder and _is_real(root, os.path.dirname(folder), known)
    return known[folder]


def _size(root: bytes, name: bytes) -> int | None:
    try:
        found = os.lstat(os.path.join(root, name))
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode) else None


def _lines(names: Sequence[bytes]) -> bytes:
    return b"".join(name + b"\0" for name in names)


_WHAT = {"A": "made", "D": "removed"}


def _changes(listed: bytes) -> list[Change]:
    words = [word.decode("utf-8", errors="replace") for word in listed.split(b"\0")]
    return [Change(_WHAT.get(what, "changed"), path) for what, path in zip(words[::2], words[1::2], strict=False)]


# --- the repository ---------------------------------------------------------------------------


def _break_lock(lock: Path) -> None:
    """No git of ours lives longer than a snapshot takes: an older lock is one that a dead one has left behind."""
    with suppress(OSError):
        if lock.stat().st_mtime < time.time() - 2 * TIMEOUT:
            lock.unlink()


def _exclude(file: Path, path: str) -> None:
    """What stands there holds for `ls-files`, in every process."""
    line = "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", path)
    known = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if file.exists() else []
    if line not in known and "\n" not in line:
        with file.open("a", encoding="utf-8", errors="surrogateescape") as lines:
            lines.write(f"{line}\n")


def _forget_indexes(folder: Path, own: str, oldest: float) -> None:
    for path in folder.glob("index-*"):
        with suppress(OSError):
            if path.name != own and path.stat().st_mtime < oldest:
                path.unlink()


def _private_folder(folder: Path) -> None:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def _write_own_files(folder: Path) -> None:
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info" / "attributes").write_text(_ATTRIBUTES, encoding="utf-8")
