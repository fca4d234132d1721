"""What the servers share when they start: find their packages, read their flags, serve under Trio."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

__all__ = ["need_packages", "serve", "server_flags"]

ROOT = Path(__file__).resolve().parent.parent


def need_packages(*names: str) -> None:
    """Return only if these can be imported; else go on with the Python of `.venv` beside this folder, or give up.

    An MCP client starts `python3` from its own search path, and that one seldom has the packages.
    """
    missing = [name for name in names if find_spec(name) is None]
    if not missing:
        return
    python = ROOT / ".venv" / "bin" / "python"
    if python.exists() and Path(sys.executable) != python:
        os.execv(python, [str(python), *sys.argv])
    packages = ", ".join(missing)
    sys.exit(f"missing: {packages}. In {ROOT}: python3 -m venv .venv && .venv/bin/pip install '.[servers]'")


def server_flags(description: str) -> argparse.ArgumentParser:
    """`--transport`, `--host` and `--port`."""
    parser = argparse.ArgumentParser(description=description)
    transports = ["stdio", "sse", "http"]
    parser.add_argument("--transport", choices=transports, default="stdio", help="how clients connect (default: stdio)")
    parser.add_argument("--host", default="127.0.0.1", help="for sse and http (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="for sse and http; 0 takes a free one (default: 8000)")
    return parser


def serve(server: MCPServer, flags: argparse.Namespace) -> None:
    """Serve until the client leaves or a signal comes; prints the address of `sse` and `http` to standard error."""
    import trio

    from tools.listening import listen

    try:
        if flags.transport == "stdio":
            trio.run(server.run_stdio_async)
        else:
            trio.run(listen, server, flags.transport, flags.host, flags.port)
    except* KeyboardInterrupt:
        sys.exit(130)
