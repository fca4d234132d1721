"""One change of a file at a time, for threads that change files side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["PathLocks"]


@dataclass
class _Shared:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class PathLocks:
    """A lock for each name that somebody holds or waits for right now, and none for any other."""

    def __init__(self) -> None:
        self._locks: dict[str, _Shared] = {}
        self._own = threading.Lock()

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Hold the lock of `name`. Blocks the calling thread; not to be nested for one name."""
        with self._own:
            shared = self._locks.setdefault(name, _Shared())
            shared.users += 1
        try:
            with shared.lock:
                yield
        finally:
            with self._own:
                shared.users -= 1
                if not shared.users:
                    del self._locks[name]

    def __len__(self) -> int:
        return len(self._locks)
