"""The MCP servers that a command begins with."""

from __future__ import annotations

from pathlib import Path

from aar.messages.mcp import McpServer
from aar.runtime import mcp_servers_of_file
from aar.transports.program.exits import complain

__all__ = ["named_servers"]


def named_servers(file: Path | None, home: Path) -> tuple[McpServer, ...]:
    """Those of the file that was given, else of the user's own; what cannot be used there is told.

    Raises `ConfigError` when nothing can be used.
    """
    found = mcp_servers_of_file(file, home=home)
    for problem in found.problems:
        complain(problem)
    return found.servers
