"""The program that stands before a command on Windows: it waits to be held, lowers itself, and runs the command.

Run as `python -I -S low_integrity.py low|same SHELL -c COMMAND`. It imports nothing of Aar. It waits for a line on
standard input, which comes once it is in its job object, so that whatever it starts is in there, too. When it cannot
lower itself nothing is run.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["NOT_LOWERED", "run"]

NOT_LOWERED = 126
LOW_LABEL = "S-1-16-4096"
TOKEN_ADJUST_DEFAULT, TOKEN_QUERY, TOKEN_INTEGRITY_LEVEL, SE_GROUP_INTEGRITY = 0x80, 0x8, 25, 0x20


def run(
    arguments: Sequence[str],
    *,
    wait: Callable[[], object],
    lower: Callable[[], None],
    call: Callable[[list[str]], int],
) -> int:
    """The exit code of the command, or `NOT_LOWERED` when it was not run."""
    level, *command = arguments
    if not wait():  # Aar is gone
        return NOT_LOWERED
    if level == "low":
        try:
            lower()
        except OSError as error:
            sys.stderr.write(f"The sandbox could not be set up, so nothing was run: {error}\n")
            return NOT_LOWERED
    return call(command)


class _SidAndAttributes(ctypes.Structure):
    _fields_ = (("sid", ctypes.c_void_p), ("attributes", ctypes.c_uint32))


def lower_integrity(windows: Any) -> None:
    """Give this process the integrity level Low, which it cannot leave. `windows` has `kernel32` and `advapi32`."""
    kernel, advanced = windows.kernel32, windows.advapi32
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    token, sid = ctypes.c_void_p(), ctypes.c_void_p()
    access = TOKEN_ADJUST_DEFAULT | TOKEN_QUERY
    this_process = ctypes.c_void_p(kernel.GetCurrentProcess())
    _done(advanced.OpenProcessToken(this_process, access, ctypes.byref(token)), "OpenProcessToken")
    _done(advanced.ConvertStringSidToSidW(LOW_LABEL, ctypes.byref(sid)), "ConvertStringSidToSidW")
    label = _SidAndAttributes(sid, SE_GROUP_INTEGRITY)
    size = ctypes.sizeof(label) + advanced.GetLengthSid(sid)
    set_level = advanced.SetTokenInformation(token, TOKEN_INTEGRITY_LEVEL, ctypes.byref(label), size)
    _done(set_level, "SetTokenInformation")


def _done(answer: int, step: str) -> None:
    if not answer:
        raise OSError(f"{step} failed")


if __name__ == "__main__":
    sys.exit(
        run(
            sys.argv[1:],
            wait=sys.stdin.readline,
            lower=lambda: lower_integrity(ctypes.windll),  # type: ignore[attr-defined]
            call=lambda command: subprocess.call(command, stdin=subprocess.DEVNULL),
        )
    )
