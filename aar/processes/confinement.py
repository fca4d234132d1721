"""Walls around one command: what `open_process(confinement=...)` puts up in the child before it becomes the command."""

from __future__ import annotations

import errno
import os
from typing import Any, NamedTuple

__all__ = ["Confinement", "NotConfined", "Place"]


class Place(NamedTuple):
    """A file or folder, and the Landlock rights that the command has in it and below.

    With `identity` (device and inode) nothing runs once another file stands at `path`.
    """

    path: str
    rights: int
    identity: tuple[int, int] | None = None


class Confinement(NamedTuple):
    """Limits that a command and all it starts cannot get rid of.

    `memory` is in bytes, for each process. `capabilities` are the numbers of those that a command of root keeps, and no
    program it starts gives it more; with None its privileges are left alone, which no ruleset allows.
    `ruleset` is the attribute of a Landlock ruleset as the kernel reads it; empty for none, and then `places` mean
    nothing. `system_calls` is a seccomp program, empty for none.
    """

    memory: int
    capabilities: tuple[int, ...] | None
    ruleset: bytes
    places: tuple[Place, ...]
    system_calls: bytes

    def order(self) -> tuple[Any, ...]:
        """The same for the keeper, which knows plain data only."""
        places = [(os.fsencode(place.path), place.rights, place.identity) for place in self.places]
        return (self.memory, self.capabilities, self.ruleset, places, self.system_calls)


_STEPS = {
    "memory": "limiting its memory",
    "privileges": "giving up privileges",
    "landlock": "Landlock",
    "places": "the folders that it may write to",
    "seccomp": "the filter of system calls",
    "program": "reading the walls",
}


class NotConfined(OSError):
    """The walls could not be put up, so nothing was run. `step` is the one that failed."""

    def __init__(self, number: int, step: str) -> None:
        why = os.strerror(number)
        if number == errno.ESTALE:
            why = "one of them was replaced by another since this session began. A new session begins anew"
        super().__init__(
            number, f"The sandbox could not be set up, so nothing was run ({_STEPS.get(step, step)}: {why})"
        )
        self.step = step
