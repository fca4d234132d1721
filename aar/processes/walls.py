"""The walls of `confinement.py`, as they are put up: run by `keeper.py`, in the child that becomes the command.

It imports nothing of Aar, because the keeper cannot. Each step raises `OSError`, and then the command is not run.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Sequence

__all__ = ["put_up"]

PR_SET_SECCOMP, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 22, 23, 24, 38, 47
SECCOMP_MODE_FILTER, PR_CAP_AMBIENT_CLEAR_ALL, CAPABILITY_VERSION_3 = 2, 4, 0x20080522
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_RULE_PATH_BENEATH = 1

Place = tuple[bytes, int, tuple[int, int] | None]

_libc = ctypes.CDLL(None, use_errno=True)


def put_up(
    memory: int, capabilities: Sequence[int] | None, ruleset: bytes, places: Sequence[Place], system_calls: bytes
) -> Iterator[str]:
    """Put up one wall after the other around this process. Gives the name of each before it is tried."""
    if capabilities is not None:
        yield "privileges"
        _drop_capabilities(frozenset(capabilities))
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if ruleset:
        yield "landlock"
        rules = _checked(_libc.syscall(LANDLOCK_CREATE_RULESET, ruleset, ctypes.c_size_t(len(ruleset)), 0))
        yield "places"
        for place in places:
            _allow(rules, *place)
        yield "landlock"
        _checked(_libc.syscall(LANDLOCK_RESTRICT_SELF, rules, 0))
        os.close(rules)
    if system_calls:
        yield "seccomp"
        instructions = ctypes.create_string_buffer(system_calls, len(system_calls))
        program = struct.pack("@HP", len(system_calls) // 8, ctypes.addressof(instructions))
        _checked(_libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), program))
    yield "memory"  # at last, for this program needs some, too
    _limit_memory(memory)


def _limit_memory(memory: int) -> None:
    """Of what it may write to, not of what it reserves: node and Java reserve gigabytes that they never use."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _drop_capabilities(kept: frozenset[int]) -> None:
    """All but `kept`, which only a process of root has. Others of root could undo the walls."""
    if os.geteuid() == 0:  # for others, programs that they start get none
        for number in range(64):
            if number not in kept and not _drop_for_good(number):
                break
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    held = ctypes.create_string_buffer(24)
    _checked(_libc.capget(header, held))
    wanted = sum(1 << number for number in kept) & int(struct.unpack_from("=I", held.raw, 4)[0])
    _checked(_libc.capset(header, struct.pack("=6I", wanted, wanted, 0, 0, 0, 0)))


def _drop_for_good(number: int) -> bool:
    """False when the kernel knows no such capability."""
    held = _libc.prctl(PR_CAPBSET_READ, *map(ctypes.c_ulong, (number, 0, 0, 0)))
    if held > 0:
        _prctl(PR_CAPBSET_DROP, number)
    return bool(held >= 0)


def _allow(rules: int, path: bytes, rights: int, identity: tuple[int, int] | None) -> None:
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(place)
    if identity is not None and identity != (found.st_dev, found.st_ino):
        raise OSError(errno.ESTALE, "another file stands there now")
    _checked(_libc.syscall(LANDLOCK_ADD_RULE, rules, LANDLOCK_RULE_PATH_BENEATH, struct.pack("=Qi", rights, place), 0))
    os.close(place)


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3))


def _checked(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), "")
    return answer
