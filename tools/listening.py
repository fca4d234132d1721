"""Serving over HTTP: Hypercorn under Trio, on loopback unless there is a token."""

from __future__ import annotations

import hmac
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import trio
from mcp.server.mcpserver import MCPServer

__all__ = ["listen"]

App = Callable[[Any, Any, Any], Awaitable[None]]
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def behind(token: str, app: App) -> App:
    """The same app, for requests that carry `Authorization: Bearer <token>`; all others get a 401."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", [])).get(b"authorization", b"")
        if scope["type"] == "lifespan" or hmac.compare_digest(given, expected):
            await app(scope, receive, send)
        else:
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    return guarded


async def listen(server: MCPServer, transport: Literal["sse", "http"], host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM. With `MCP_SERVER_TOKEN` set, every request must carry it as a bearer token.

    Raises:
        SystemExit: the host is not loopback and there is no token.
    """
    token = os.environ.get("MCP_SERVER_TOKEN", "")
    if host not in LOOPBACK and not token:
        sys.exit(f"{host} can be reached from other machines: set MCP_SERVER_TOKEN, or use --host 127.0.0.1")
    app: Any = server.sse_app(host=host) if transport == "sse" else server.streamable_http_app(host=host)
    path = "/sse" if transport == "sse" else "/mcp"
    await _serve(behind(token, app) if token else app, f"[{host}]" if ":" in host else host, port, path)


async def _serve(app: Any, host: str, port: int, path: str) -> None:
    from hypercorn.config import Config
    from hypercorn.trio import serve

    config = Config()
    config.bind = [f"{host}:{port}"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 1.0
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:

            async def serve_app(task_status: trio.TaskStatus[list[str]]) -> None:
                await serve(app, config, shutdown_trigger=stop.wait, task_status=task_status)

            addresses = await nursery.start(serve_app)
            sys.stderr.write(f"Serving on {addresses[0]}{path}\n")
            sys.stderr.flush()
            async for _ in signals:
                stop.set()
                break
