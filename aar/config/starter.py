"""The files that `aar init` writes."""

from __future__ import annotations

__all__ = ["Written", "write_starter_files"]


class Written: ...


def write_starter_files() -> None: ...
