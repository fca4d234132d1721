"""What is asked of the Linux kernel: a Landlock ruleset for files, and a seccomp filter for sockets."""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct

__all__ = ["DEVICE", "READ", "SAFE_SINCE", "WRITE", "landlock_abi", "ruleset", "socket_filter", "within"]

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = (1 << bit for bit in range(13, 16))

READ = EXECUTE | READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
WRITE |= REFER | TRUNCATE
"""All but devices: root could make one that is the disk."""
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV

SAFE_SINCE = 3
"""The first ABI in which nothing outside can be emptied, by truncate(2)."""

_NEWER = {2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
_SCOPED_SINCE, _ABSTRACT_SOCKETS, _SIGNALS = 6, 1, 2

_CREATE_RULESET, _ASK_FOR_VERSION = 444, 1
_NUMBERS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198), "riscv64": (0xC00000F3, 198)}  # arch, socket()
_IO_URING_SETUP, _X32 = 425, 0x40000000  # the same everywhere; where the numbers of x32 begin
_LOAD, _EQUALS, _FROM, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


def landlock_abi() -> int:
    """The version that this kernel speaks, 0 for none."""
    found: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_FOR_VERSION)
    return max(0, found)


def within(abi: int) -> int:
    """The rights that a kernel of this `abi` knows; what it does not know it does not hold."""
    return (1 << 13) - 1 | sum(right for since, right in _NEWER.items() if abi >= since)


def ruleset(abi: int) -> bytes:
    """A ruleset that forbids all that it knows of files, and signals and abstract sockets of processes outside."""
    if abi < _SCOPED_SINCE:
        return struct.pack("=Q", within(abi))
    return struct.pack("=QQQ", within(abi), 0, _ABSTRACT_SOCKETS | _SIGNALS)


def socket_filter() -> bytes:
    """A seccomp program that forbids sockets with names in the file system; empty where the numbers are not known.

    Landlock lets anybody connect to those, and behind them sit programs that do what they are told without walls: the
    user's systemd, Docker, tmux. io_uring would be a way round, and so would other sets of system calls.
    """
    if platform.machine() not in _NUMBERS:
        return b""
    architecture, socket_call = _NUMBERS[platform.machine()]
    return b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (_LOAD, 0, 0, 4),  # the set of system calls
            (_EQUALS, 0, 7, architecture),
            (_LOAD, 0, 0, 0),  # the number
            (_FROM, 5, 0, _X32),
            (_EQUALS, 5, 0, _IO_URING_SETUP),
            (_EQUALS, 0, 2, socket_call),
            (_LOAD, 0, 0, 16),  # the first argument
            (_EQUALS, 3, 0, int(socket.AF_UNIX)),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERROR | errno.EPERM),
            (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
            (_RETURN, 0, 0, _ERROR | errno.EACCES),
        )
    )
