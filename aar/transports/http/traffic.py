"""What goes on at a server: which connections are used, and which answers wait for news and would never end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import trio

from aar.transports.http.guarding import Application, Receive, Send
from aar.transports.http.listening import connections_at, cut_connections

__all__ = ["IDLE", "Traffic"]

IDLE = 30.0  # seconds; a connection that nobody uses for so long is closed, and so it is within twice as many

_LISTEN = (b"mcp-method", b"subscriptions/listen")


class Traffic:
    """An ASGI application around another one."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._open: Counter[Any] = Counter()  # requests by the other end of their connection
        self._waiting: set[trio.CancelScope] = set()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = tuple(scope.get("client") or ())
        self._open[client] += 1
        try:
            if _is_endless(scope):
                await self._until_ended(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]

    async def _until_ended(self, scope: Any, receive: Receive, send: Send) -> None:
        waiting = trio.CancelScope()

        async def note(message: Any) -> None:
            if message["type"] == "http.response.start" and _is_stream(message):
                self._waiting.add(waiting)
            elif not message.get("more_body", False):
                self._waiting.discard(waiting)
            await send(message)

        try:
            with waiting:
                await self._app(scope, receive, note)
            if waiting.cancelled_caught:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._waiting.discard(waiting)

    def end_waiting(self) -> None:
        """End the answers that would wait for news for ever. All others come to an end by themselves."""
        for waiting in list(self._waiting):
            waiting.cancel()

    async def close_idle_connections(self, port: int) -> None:
        """For ever. The server's own limit knows nothing of an HTTP/2 connection that was never used, or reset."""
        idle: set[Any] = set()
        while True:
            await trio.sleep(IDLE)
            unused = connections_at(port) - self._open.keys()
            cut_connections(port, unused & idle)
            idle = unused - idle


def _is_stream(message: Any) -> bool:
    return any(
        name.lower() == b"content-type" and kind.startswith(b"text/event-stream") for name, kind in message["headers"]
    )


def _is_endless(scope: Any) -> bool:
    """Whether a stream that answers this tells what happens, whenever that is, and not what comes of the request."""
    return scope["method"] == "GET" or _LISTEN in scope["headers"]
