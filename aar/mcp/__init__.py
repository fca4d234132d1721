"""MCP servers from their client's side: which ones there are, how to reach one, and what it says as text.

Nothing is loaded here: most sessions have no servers. Only `connection` needs the package `mcp`, and loads it when it
connects.
"""
