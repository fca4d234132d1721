"""What is asked of the Linux kernel: a Landlock ruleset for files, and a seccomp filter for what that leaves open."""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct

__all__ = ["DEVICE", "READ", "SAFE_SINCE", "WRITE", "call_filter", "landlock_abi", "ruleset", "within"]

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
_NUMBERS = {  # the set of system calls, prlimit(), socket(), socketpair()
    "x86_64": (0xC000003E, 302, 41, 53),
    "aarch64": (0xC00000B7, 261, 198, 199),
    "riscv64": (0xC00000F3, 261, 198, 199),
}
_IO_URING_SETUP, _X32 = 425, 0x40000000  # the same everywhere; where the numbers of x32 begin
_LOAD, _EQUALS, _FROM, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_SET_OF_CALLS, _NUMBER, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 4, 0, 16, 24  # where a program finds them
_TYPE_OF_SOCKET = 0xF  # beside flags
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


def call_filter(*, unix_sockets: bool) -> bytes:
    """A seccomp program for what Landlock leaves open; empty where the numbers of system calls are not known.

    It forbids to set limits of other processes, and, unless `unix_sockets`, sockets with names in the file system:
    Landlock lets anybody connect to those, and behind them sit programs that do what they are told without walls. It
    also forbids what would be a way round: io_uring, and other sets of system calls.
    """
    if platform.machine() not in _NUMBERS:
        return b""
    architecture, limit_call, socket_call, pair_call = _NUMBERS[platform.machine()]
    program = [
        (_LOAD, 0, 0, _SET_OF_CALLS),
        (_EQUALS, 1, 0, architecture),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
        (_LOAD, 0, 0, _NUMBER),
        (_FROM, 0, 1, _X32),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
        (_EQUALS, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_EQUALS, 0, 4, limit_call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUALS, 1, 0, 0),  # 0 is the caller itself
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    if not unix_sockets:
        program += _no_named_sockets(socket_call, pair_call)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in [*program, (_RETURN, 0, 0, _ALLOW)])


def _no_named_sockets(socket_call: int, pair_call: int) -> list[tuple[int, int, int, int]]:
    return [
        (_EQUALS, 0, 4, socket_call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUALS, 0, 1, int(socket.AF_UNIX)),
        (_RETURN, 0, 0, _ERROR | errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUALS, 0, 6, pair_call),  # one that needs no connection could send to anybody
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        (_AND, 0, 0, _TYPE_OF_SOCKET),
        (_EQUALS, 1, 0, int(socket.SOCK_DGRAM)),
        (_EQUALS, 0, 1, int(socket.SOCK_RAW)),  # another word for the same
        (_RETURN, 0, 0, _ERROR | errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
    ]
