"""Answers kept on disk for a few minutes, in a folder that cannot grow without end."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

__all__ = ["Cache", "cache_folder"]

MAX_BYTES = 50_000_000


def cache_folder() -> Path:
    """`.web_mcp_cache` in the user's cache folder.

    Not in the working folder: a project could bring answers of its own for pages that were never fetched.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / ".web_mcp_cache"


@dataclass(frozen=True)
class Cache:
    """`get` and `put` block on the disk. A folder that cannot be used means no cache, not an error."""

    folder: Path
    max_bytes: int = MAX_BYTES
    now: Callable[[], float] = time.time

    def get(self, key: str, seconds: float) -> str | None:
        """What was put under this key within the last `seconds`."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self._file(key).read_bytes())
            if kept["key"] == key and 0 <= self.now() - kept["at"] < seconds:
                return str(kept["text"])
        return None

    def put(self, key: str, text: str) -> None:
        """Keep a text; the oldest ones leave when there are more than `max_bytes`."""
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
                json.dump({"key": key, "at": self.now(), "text": text}, file)
            Path(name).replace(self._file(key))
            self._make_room()

    def _file(self, key: str) -> Path:
        return self.folder / f"{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}.json"

    def _make_room(self) -> None:
        kept = sorted((entry.stat() for entry in os.scandir(self.folder)), key=lambda stat: stat.st_mtime_ns)
        too_many = sum(stat.st_size for stat in kept) - self.max_bytes
        if too_many <= 0:
            return
        for path in sorted(self.folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
            if too_many <= 0:
                return
            too_many -= path.stat().st_size
            path.unlink(missing_ok=True)
