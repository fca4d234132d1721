"""From the command line to a running server."""

from __future__ import annotations

from tools.starting import need_packages, serve, server_flags

__all__ = ["main"]


def main() -> None:
    flags = server_flags("MCP server: search the web, read pages, read feeds").parse_args()
    need_packages("mcp", "trio", "httpx2", "selectolax", "feedparser", "hypercorn")
    from tools.web.server import web_server

    serve(web_server(), flags)
