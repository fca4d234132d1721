"""A file in the user's own folder in which Aar remembers what the user has decided: a JSON object by names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aar.errors import ConfigError

__all__ = ["KeptFile"]


class KeptFile:
    """`{"version": 1, key: {...}}`, which only its user can read. All methods block and raise `ConfigError`.

    `again` says what is to be done when somebody else has written the file.
    """

    def __init__(self, path: Path, key: str, *, again: str) -> None:
        self.path = path
        self._key = key
        self._again = again

    def read(self) -> dict[str, Any]:
        """What is remembered; nothing when there is no file."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self.path}: cannot be read ({error}).") from error
        known = data.get(self._key) if isinstance(data, dict) else None
        if not isinstance(known, dict):
            raise self.damaged()
        return known

    def damaged(self) -> ConfigError:
        """What to raise for contents that are not ours."""
        return ConfigError(f"{self.path}: is not what Aar writes. Move it away; then {self._again} anew.")

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """What is remembered, to be changed inside the block.

        The file appears whole or not at all, and two who change it at once do not undo each other.
        """
        import fcntl  # not on every system, and few start-ups change anything

        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self.read()
                yield known
                self._write(known)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror or error}).") from error

    def _write(self, known: dict[str, Any]) -> None:
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"version": 1, self._key: known}, file, indent=2, sort_keys=True)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, self.path)
