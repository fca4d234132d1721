"""Whether another process is, or comes from, a command that this one runs. Linux only: elsewhere nobody can tell."""

from __future__ import annotations

from aar.processes.orphans import MARKER

__all__ = ["is_command_of"]

DEEPEST = 64  # parents that are looked at


def is_command_of(pid: int, owner: int) -> bool:
    """Whether `pid` was started, over however many steps, by the process `owner`, or as a command of any Aar.

    Of one that is gone nobody can tell any more: it counts as a command, which could have ended to hide where it came
    from. What a command has handed to a service of the system, such as `systemd-run`, is not found.
    """
    for _ in range(DEEPEST):
        if pid in (0, 1, owner):
            break
        if _is_marked(pid):
            return True
        parent = _parent(pid)
        if parent is None or parent == owner:
            return True
        pid = parent
    return False


def _is_marked(pid: int) -> bool:
    """No for one that is not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return any(variable.startswith(f"{MARKER}=".encode()) for variable in environ.read().split(b"\0"))
    except OSError:
        return False


def _parent(pid: int) -> int | None:
    """0 when it is outside of what can be seen here, `None` when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
