"""What a person typed at the prompts of all their terminals: a file of their own, for the keys that go back.

One JSON object a line, the newest last. Any number of processes add to it at once; a line that is damaged is left out.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import trio

from aar.config.masking import secret_values
from aar.display import plain
from aar.messages.settings import AgentConfig
from aar.transports.program.home import home_folder

__all__ = ["LONGEST", "MOST", "HistoryFile", "history_file", "may_be_kept"]

MOST = 1_000
"""Entries that are kept."""
LONGEST = 10_000
"""Characters of an entry. What is longer was pasted, and is not kept."""
TIMEOUT = 2.0  # seconds, after which nobody waits for the file any more

_log = logging.getLogger("aar.history")
_MOST_BYTES = 4_000_000
_LEFT = MOST - MOST // 10  # entries that stay when there were too many: the file is not written anew each time
_FLAGS_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FLAGS = os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_SECRET = "|".join(
    (
        r"\b(?:sk|pk|rk)-[\w-]{16,}",  # keys by how they begin
        r"\b(?:gh[opsu]_|github_pat_|glpat-|xox[abprs]-|hf_|AKIA|ASIA|AIza)[\w-]{12,}",
        r"\beyJ[\w-]{8,}\.[\w-]{8,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY",
        r"://[^/\s:@]*:[^/\s@]+@",
        r"(?i:\b(?:bearer)\s+[\w+/=.-]{16,})",
        r"(?i:(?:api[_-]?key|token|secret|passw(?:or)?d|passphrase|credentials?)[\"']?\s*(?:=|:|\bis\b)\s*[\"']?\S{4,})",
    )
)


def may_be_kept(text: str, secrets: Sequence[str] = ()) -> bool:
    """Not what begins with a blank, is very long, or looks like a secret. `secrets` are those that are known."""
    if not text.strip() or text[:1].isspace() or len(text) > LONGEST:
        return False
    return not any(secret in text for secret in secrets if secret) and re.search(_SECRET, text) is None


class HistoryFile:
    """`read` and `add` do not raise: without its file a prompt is as good as before. Both wait 2 seconds at most."""

    def __init__(self, path: Path, secrets: Sequence[str] = ()) -> None:
        self._path = path
        self._secrets = secrets
        self._one_at_a_time = trio.CapacityLimiter(1)

    async def read(self) -> list[str]:
        """What was typed, oldest first."""
        with trio.move_on_after(TIMEOUT):
            return await trio.to_thread.run_sync(self._read, abandon_on_cancel=True, limiter=self._one_at_a_time)
        return []

    async def add(self, text: str) -> None:
        """Keep this, if it may be kept and is not the newest entry already."""
        if may_be_kept(text, self._secrets):
            with trio.move_on_after(TIMEOUT):
                await trio.to_thread.run_sync(self._add, text, abandon_on_cancel=True, limiter=self._one_at_a_time)

    def _read(self) -> list[str]:
        try:
            with open(os.open(self._path, _FLAGS_TO_READ), "rb", buffering=0) as file:
                return [clean for text in _entries(_end_of(file))[-MOST:] if (clean := plain(text)).strip()]
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                _log.info("What was typed before cannot be read: %s", error)
            return []

    def _add(self, text: str) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._path) as file:
                self._append(file, text)
        except OSError as error:
            _log.info("What was typed cannot be kept: %s", error)

    def _append(self, file: BinaryIO, text: str) -> None:
        data = _end_of(file)
        last = data.rstrip(b"\n").rpartition(b"\n")[2]
        if _entries(last) == [text]:
            return
        whole = b"" if not data or data.endswith(b"\n") else b"\n"  # a writer was killed in its line
        line = whole + json.dumps({"text": text}).encode() + b"\n"
        is_long = os.fstat(file.fileno()).st_size + len(line) > _MOST_BYTES
        if data.count(b"\n") >= MOST or is_long:
            self._write_anew([*_entries(data)[1 - _LEFT :], text])
        else:
            file.write(line)

    def _write_anew(self, entries: list[str]) -> None:
        """By whoever holds the lock; those who wait for it find that the file is another one."""
        lines = [json.dumps({"text": text}).encode() + b"\n" for text in entries]
        while sum(map(len, lines)) > _MOST_BYTES // 2:
            del lines[: len(lines) // 2]
        fresh = self._path.with_name(f".{self._path.name}.new")
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(lines)
        os.replace(fresh, self._path)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file, of which nobody else makes another one meanwhile. For this user's eyes only."""
    import fcntl

    while True:
        with open(os.open(path, _FLAGS, 0o600), "a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            mine = os.fstat(file.fileno())
            try:
                is_it = os.path.samestat(mine, os.lstat(path))
            except FileNotFoundError:
                is_it = False
            if not is_it:
                continue  # somebody has written it anew
            if stat.S_IMODE(mine.st_mode) != 0o600:
                os.fchmod(file.fileno(), 0o600)
            yield file
            return


def _end_of(file: BinaryIO) -> bytes:
    """All of it, or of a file that has grown too large the last lines."""
    state = os.fstat(file.fileno())
    if not stat.S_ISREG(state.st_mode):
        raise OSError("it is no file")
    size = state.st_size
    file.seek(max(0, size - _MOST_BYTES))
    data = file.read(_MOST_BYTES)
    return data if size <= _MOST_BYTES else data.partition(b"\n")[2]


def _entries(data: bytes) -> list[str]:
    """The texts in these lines; what is no entry is left out."""
    found: list[str] = []
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        text = entry.get("text") if isinstance(entry, dict) else None
        if isinstance(text, str) and text.strip() and found[-1:] != [text]:
            found.append(text)
    return found


def history_file(config: AgentConfig) -> HistoryFile | None:
    """The user's own, unless the setting `tui.history` says that nothing is kept."""
    return HistoryFile(home_folder() / "history", secret_values(config)) if config.tui.history else None
