"""MCP servers from their client's side: which ones there are, how to reach one, and what it says as text.

Only `connection` needs the package `mcp`, and loads it when it connects.
"""

from __future__ import annotations

from aar.mcp.entries import editor_servers
from aar.mcp.files import FoundServers, default_file, read_servers
from aar.mcp.package import require_package

__all__ = ["FoundServers", "default_file", "editor_servers", "read_servers", "require_package"]
