"""The MCP servers that a command begins with, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from aar.client import SessionHandle
from aar.display import plain
from aar.messages.mcp import McpServer, McpStatus
from aar.runtime import mcp_servers_of_file
from aar.transports.program.exits import complain

__all__ = ["named_servers", "tell_of_servers", "wait_for_servers"]

PATIENCE = 10.0  # seconds that a command waits for servers before it goes on without them


def named_servers(file: Path | None, home: Path) -> tuple[McpServer, ...]:
    """Those of the file that was given, else of the user's own; what cannot be used there is told.

    Raises `ConfigError` when nothing can be used.
    """
    found = mcp_servers_of_file(file, home=home)
    for problem in found.problems:
        complain(problem)
    return found.servers


async def wait_for_servers(handle: SessionHandle, servers: Sequence[McpServer]) -> None:
    """Until each of them has connected or failed once, a moment at most."""
    if servers:
        with trio.move_on_after(PATIENCE):
            await handle.mcp_servers(wait=True)


async def tell_of_servers(handle: SessionHandle, servers: Sequence[McpServer]) -> tuple[McpStatus, ...]:
    """Say on standard error how many tools there are now, and which servers are not there."""
    if not servers:
        return ()
    found = await handle.mcp_servers()
    for status in found:
        if status.state == "failed":
            complain(f"MCP server {status.name!r} could not be connected: {plain(status.reason).rstrip('.')}.")
        elif status.state == "connecting":
            complain(f"MCP server {status.name!r} is not ready yet; its tools come when it is.")
        if status.left_out:
            complain(f"Tools of MCP server {status.name!r} are left out: {plain(', '.join(status.left_out))}.")
    complain(f"Registered {sum(len(status.tools) for status in found)} MCP tool(s)")
    return found
