"""What a run is to do."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Mode", "RunRequest"]

Mode = Literal["sync", "async", "stream"]


class RunRequest(NamedTuple):
    """`session_id` need not exist. `provider` is a profile of the settings."""

    prompt: str
    mode: Mode = "sync"
    session_id: str | None = None
    provider: str | None = None
