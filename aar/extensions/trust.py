"""Which extensions of projects may run: remembered by project, path and content, in the user's own folder.

A project's extension is code that came with the project. It runs only after its user has said so, and anew whenever a
byte of it changes.
"""

from __future__ import annotations

import os
from pathlib import Path

from aar.config.kept_file import KeptFile
from aar.extensions.finding import Found

__all__ = ["TrustFile"]


class TrustFile:
    """`trust/extensions.json` below the user's folder. All methods block and raise `ConfigError`."""

    def __init__(self, home: Path) -> None:
        self.path = home / "trust" / "extensions.json"
        self._file = KeptFile(self.path, "trusted", again="trust")

    def covers(self, found: Found, digest: str) -> bool:
        """Whether this very content is trusted; always for what is not a project's."""
        return found.project is None or self._file.read().get(_key(found)) == digest

    def add(self, found: Found, digest: str) -> None:
        """Trust this content, and no other of this extension any more."""
        with self._file.changing() as known:
            known[_key(found)] = digest

    def remove(self, found: Found) -> bool:
        """Trust it no longer; tells whether it was trusted."""
        with self._file.changing() as known:
            return known.pop(_key(found), None) is not None


def _key(found: Found) -> str:
    """The extension in its project, by real paths: a project that is reached through a link is the same one."""
    return os.path.join(os.path.realpath(found.project or "/"), os.path.relpath(found.path, found.project or "/"))
