"""A job object of Windows: limits for a process and all it starts, and their common end."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["JobObject", "limits"]

EXTENDED_LIMIT_INFORMATION = 9
ACTIVE_PROCESS, PROCESS_MEMORY, KILL_ON_JOB_CLOSE = 0x8, 0x100, 0x2000
SET_QUOTA, TERMINATE = 0x100, 0x1


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("per_process_user_time", ctypes.c_int64),
        ("per_job_user_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


def limits(*, processes: int, memory: int) -> _ExtendedLimits:
    """At most so many processes at a time, so many bytes for each, and the end of all when the job is closed."""
    wanted = _ExtendedLimits()
    wanted.basic.flags = ACTIVE_PROCESS | PROCESS_MEMORY | KILL_ON_JOB_CLOSE
    wanted.basic.active_processes = processes
    wanted.process_memory = memory
    return wanted


class JobObject:
    """Made empty; what is added stays, with all it starts from then on. `kernel` is `ctypes.windll.kernel32`."""

    def __init__(self, kernel: Any, *, processes: int, memory: int) -> None:
        self._kernel = kernel
        kernel.CreateJobObjectW.restype = kernel.OpenProcess.restype = ctypes.c_void_p
        self._job = ctypes.c_void_p(_done(kernel.CreateJobObjectW(None, None), "CreateJobObjectW"))
        wanted = limits(processes=processes, memory=memory)
        size = ctypes.sizeof(wanted)
        told = kernel.SetInformationJobObject(self._job, EXTENDED_LIMIT_INFORMATION, ctypes.byref(wanted), size)
        try:
            _done(told, "SetInformationJobObject")
        except OSError:
            self.close()
            raise

    def add(self, pid: int) -> None:
        """Raises `OSError` when the process cannot be held."""
        kernel = self._kernel
        process = ctypes.c_void_p(_done(kernel.OpenProcess(SET_QUOTA | TERMINATE, False, pid), "OpenProcess"))
        try:
            _done(kernel.AssignProcessToJobObject(self._job, process), "AssignProcessToJobObject")
        finally:
            kernel.CloseHandle(process)

    def close(self) -> None:
        """End everything in it."""
        self._kernel.CloseHandle(self._job)


def _done(answer: int | None, step: str) -> int:
    if not answer:
        raise OSError(f"{step} failed")
    return answer
