"""Token, origin and host rules in front of an application that knows nothing of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import trio

from aar.transports.http.access import Access
from aar.transports.http.refused import Refused

__all__ = ["REST_OF_A_REQUEST", "Application", "Guarded", "Receive", "Send", "refuse"]

REST_OF_A_REQUEST = 2.0  # seconds that a client has to send the rest of a request that is refused

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]


class Guarded:
    """An ASGI application that only those reach whom `access` lets in; others are told why not.

    `open_paths` need no token. Pages of origins that are let in may use `methods`, send `sent` headers and read `read`
    headers, all lower case. `reason` is the field of an answer that says why
    somebody was refused. There are no web sockets.
    """

    def __init__(
        self,
        app: Application,
        access: Access,
        *,
        methods: str,
        sent: Sequence[str] = (),
        read: Sequence[str] = (),
        open_paths: Collection[str] = (),
        reason: str = "detail",
    ) -> None:
        self._app = app
        self._reason = reason
        self._access = access
        self._open_paths = open_paths
        self._for_pages = {
            "access-control-allow-methods": methods,
            "access-control-allow-headers": ", ".join(
                ["content-type", *(["authorization"] if access.token else []), *sent]
            ),
        }
        if read:
            self._for_pages["access-control-expose-headers"] = ", ".join(read)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self._app(scope, receive, send)

    async def _serve(self, scope: Any, receive: Receive, send: Send) -> None:
        headers = _headers_of(scope)
        telling = self._telling(headers.get("Origin"), send)
        if scope["method"] == "OPTIONS":  # a browser's question, which has no token with it and learns nothing else
            await _answer(telling, 204, {})
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        try:
            self._access.check(headers, needs_token=path not in self._open_paths)
        except Refused as refused:
            await refuse(receive, telling, refused, reason=self._reason)
            return
        await self._app(scope, receive, telling)

    def _telling(self, origin: str | None, send: Send) -> Send:
        more = _encoded({**self._for_pages, **self._access.headers(origin)})

        async def tell(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return tell


def _headers_of(scope: Any) -> dict[str, str]:
    """By names such as `Origin`. What comes twice is one value, as HTTP has it, which is none that anybody lets in."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").title(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def refuse(receive: Receive, send: Send, refused: Refused, *, reason: str = "detail") -> None:
    """Whoever is still sending would find the connection cut, and not see why: so the answer waits a moment."""
    with trio.move_on_after(REST_OF_A_REQUEST):
        while (await receive()).get("more_body", False):
            pass
    body = json.dumps({reason: str(refused)}).encode()
    told = {"content-type": "application/json", "content-length": str(len(body))}
    more = {"www-authenticate": "Bearer"} if refused.status == 401 else {}
    await _answer(send, refused.status, {**told, **more}, body)


async def _answer(send: Send, status: int, headers: dict[str, str], body: bytes = b"") -> None:
    await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": body})
