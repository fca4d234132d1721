"""From the command line to a running server."""

from __future__ import annotations

from tools.starting import need_packages, serve, server_flags

__all__ = ["main"]


def main() -> None:
    flags = server_flags("MCP server: read, answer, label and close the issues of a GitLab").parse_args()
    need_packages("mcp", "trio", "httpx2", "hypercorn")
    from tools.gitlab.server import gitlab_server

    serve(gitlab_server(), flags)
