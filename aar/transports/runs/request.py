"""What a run is to do."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from aar.client import PromptContent

__all__ = ["Mode", "RunRequest"]

Mode = Literal["sync", "async", "stream"]


class RunRequest(NamedTuple):
    """`session_id` need not exist. `provider` is a profile of the settings.

    `safety` are rules for this run alone, instead of those of the settings. Without `may_be_approved` every question
    is answered with no, whoever could answer it.
    """

    prompt: PromptContent
    mode: Mode = "sync"
    session_id: str | None = None
    provider: str | None = None
    safety: dict[str, Any] | None = None
    may_be_approved: bool = True
