"""Closing this process to others of the same user: its environment and its memory hold keys."""

from __future__ import annotations

import os
import sys

__all__ = ["DEBUGGABLE", "close_to_others"]

DEBUGGABLE = "AAR_DEBUGGABLE"
PR_SET_DUMPABLE = 4


def close_to_others() -> None:
    """From now on no process but root's can read our `/proc/PID/environ` and memory, or trace us. Linux only.

    Without this a command could: `cat /proc/$PARENT/environ`. The price is that debuggers, profilers that attach from
    outside (`gdb`, `strace`, `py-spy`) and core dumps do not work; with `AAR_DEBUGGABLE` set nothing is done.
    Programs that we start are as they always are.
    """
    if sys.platform != "linux" or os.environ.get(DEBUGGABLE):
        return
    import ctypes  # two milliseconds that only those pay who start a command

    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, *[ctypes.c_ulong(0)] * 4)
