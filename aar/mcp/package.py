"""The package `mcp`: whether it is there, and loading it without a pause for the others."""

from __future__ import annotations

import importlib
import importlib.util

import trio

from aar.errors import MissingMcp

__all__ = ["load_package", "require_package"]

MISSING = "MCP servers need a package that is not there: pip install 'aar-agent[mcp]'"


def require_package() -> None:
    """Raises `MissingMcp` when it is not installed. Loads nothing."""
    if importlib.util.find_spec("mcp") is None:
        raise MissingMcp(MISSING)


async def load_package() -> None:
    """Import it, in a thread: it takes half a second. Raises `MissingMcp`."""
    try:
        own = trio.CapacityLimiter(1)
        await trio.to_thread.run_sync(importlib.import_module, "mcp", abandon_on_cancel=True, limiter=own)
    except ImportError as error:
        raise MissingMcp(MISSING) from error
