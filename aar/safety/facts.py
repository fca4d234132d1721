"""What rules look at in a tool."""

from __future__ import annotations

from typing import Protocol

from aar.messages.tools import SideEffect

__all__ = ["ToolFacts"]


class ToolFacts(Protocol):
    """What the policy wants to know of a tool."""

    @property
    def name(self) -> str: ...
    @property
    def side_effects(self) -> tuple[SideEffect, ...]: ...
    @property
    def requires_approval(self) -> bool: ...
    @property
    def edition(self) -> str: ...
