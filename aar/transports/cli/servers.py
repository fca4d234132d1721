"""What becomes of MCP servers, told at the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from aar.client import SessionHandle
from aar.display import plain
from aar.messages.mcp import McpServer, McpStatus
from aar.transports.program.exits import complain

__all__ = ["tell_of_servers"]

PATIENCE = 10.0  # seconds that a command waits for servers before it goes on without them


async def tell_of_servers(handle: SessionHandle, servers: Sequence[McpServer]) -> tuple[McpStatus, ...]:
    """Wait for the servers, a moment at most, and say on standard error how many tools there are."""
    if not servers:
        return ()
    with trio.move_on_after(PATIENCE):
        await handle.mcp_servers(wait=True)
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
