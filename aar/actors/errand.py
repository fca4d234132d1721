"""What a session gives to a session of its own to do, and what that may use of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from aar.messages.events import ProviderMeta
from aar.messages.settings import AgentConfig
from aar.messages.tools import ToolOutcome

__all__ = ["Delegate", "Errand"]


class Errand(NamedTuple):
    """A piece of work, the folder and the settings that it is done with, and the agent that does it, if one is named.

    `report(text)` shows what is going on. `may(tool, arguments, reason)` asks those who attend the session that gave
    it. `spent(meta)` puts on record what it cost. It may cost `tokens_left` and `dollars_left`, 0 for no limit.
    """

    prompt: str
    agent: str
    cwd: str
    config: AgentConfig
    trace_id: str
    report: Callable[[str], None]
    may: Callable[[str, Mapping[str, Any], str], Awaitable[bool]]
    spent: Callable[[ProviderMeta], Awaitable[None]]
    tokens_left: int = 0
    dollars_left: float = 0.0


Delegate = Callable[[Errand], Awaitable[ToolOutcome]]
"""Has an errand done. Whoever is cancelled while it waits ends it."""
