"""Which extensions of projects may run: remembered by project, path and content, in the user's own folder.

A project's extension is code that came with the project. It runs only after its user has said so, and anew whenever a
byte of it changes.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aar.errors import ConfigError
from aar.extensions.finding import Found

__all__ = ["TrustFile"]


class TrustFile:
    """`trust/extensions.json` below the user's folder. All methods block."""

    def __init__(self, home: Path) -> None:
        self.path = home / "trust" / "extensions.json"

    def covers(self, found: Found, digest: str) -> bool:
        """Whether this very content is trusted; always for what is not a project's. Raises `ConfigError`."""
        return found.project is None or self._read().get(_key(found)) == digest

    def add(self, found: Found, digest: str) -> None:
        """Trust this content, and no other of this extension any more. Raises `ConfigError`."""
        with self._changing() as known:
            known[_key(found)] = digest

    def remove(self, found: Found) -> bool:
        """Trust it no longer; tells whether it was trusted. Raises `ConfigError`."""
        with self._changing() as known:
            return known.pop(_key(found), None) is not None

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.path}: cannot be read ({error}).") from error
        trusted = known.get("trusted") if isinstance(known, dict) else None
        if not isinstance(trusted, dict):
            raise ConfigError(f"{self.path}: is not what Aar writes. Move it away; then trust anew.")
        return trusted

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The file appears whole or not at all, and two who change it at once do not undo each other."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self._read()
                yield known
                self._write({"version": 1, "trusted": known})
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror or error}).") from error

    def _write(self, content: dict[str, Any]) -> None:
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2, sort_keys=True)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, self.path)


def _key(found: Found) -> str:
    """The extension in its project, by real paths: a project that is reached through a link is the same one."""
    return os.path.join(os.path.realpath(found.project or "/"), os.path.relpath(found.path, found.project or "/"))
