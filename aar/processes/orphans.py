"""The second net: finding by its marker what a keeper could not end, because somebody killed the keeper.

Every child carries `AAR_PROCESS` in its environment: whose child it is, and which.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator

import trio

__all__ = ["MARKER", "end_marked", "new_marker", "reap_stale"]

MARKER = "AAR_PROCESS"
ATTEMPTS = 50
PAUSE_SECONDS = 0.01


def new_marker() -> str:
    """A name for one child that no other child has had: pid namespace, our pid and start time, and a random part."""
    return f"{_owner(os.getpid())}:{uuid.uuid4().hex}"


async def end_marked(marker: str) -> list[int]:
    """Kill what carries `marker`, within half a second. Returns the ids of those that would not go."""
    return await _in_thread(marker.__eq__)


async def reap_stale() -> list[int]:
    """Kill the children of every Aar that is dead, within half a second. Returns the ids of those that would not go.

    Children of an Aar in another pid namespace are left alone: from here nobody can tell whether it lives.
    """
    return await _in_thread(_is_stale)


async def _in_thread(wanted: Callable[[str], bool]) -> list[int]:
    """With a limiter of its own: cleaning up must not queue behind slow tools."""
    limiter = trio.CapacityLimiter(1)
    return await trio.to_thread.run_sync(_end_all, wanted, abandon_on_cancel=True, limiter=limiter)


def _end_all(wanted: Callable[[str], bool]) -> list[int]:
    """Again and again, since what we kill may have forked meanwhile."""
    for _ in range(ATTEMPTS):
        found = [pid for pid, marker in _marked() if wanted(marker)]
        if not found:
            return []
        for pid in found:
            _kill(pid, wanted)
        time.sleep(PAUSE_SECONDS)
    return [pid for pid, marker in _marked() if wanted(marker)]


def _kill(pid: int, wanted: Callable[[str], bool]) -> None:
    """Kill `pid` if it still is the one we looked at: the descriptor pins it while we look again."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        marker = _marker(pid)
        if marker is not None and wanted(marker):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        return  # ended, or belongs to another user
    finally:
        os.close(descriptor)


def _marked() -> Iterator[tuple[int, str]]:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            marker = _marker(int(name))
            if marker is not None:
                yield int(name), marker


def _marker(pid: int) -> str | None:
    """None for a process without marker, a zombie (its environment is empty) or one that is not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            variables = environ.read().split(b"\0")
    except OSError:
        return None
    prefix = f"{MARKER}=".encode()
    return next((v[len(prefix) :].decode(errors="replace") for v in variables if v.startswith(prefix)), None)


def _is_stale(marker: str) -> bool:
    namespace, _, rest = marker.partition(":")
    pid = rest.partition("-")[0]
    if namespace != _namespace() or not pid.isdigit():
        return False
    try:
        return _owner(int(pid)) != marker.rpartition(":")[0]
    except OSError:  # where descriptors are short, nobody can tell: who may be living is left alone
        return False


def _owner(pid: int) -> str:
    return f"{_namespace()}:{pid}-{_start_time(pid)}"


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid").strip("pid:[]")


def _start_time(pid: int) -> str:
    """Clock ticks since boot, which together with the id names one process; empty when there is none but a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, *numbers = stat.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if state in b"ZX" else numbers[18].decode()
