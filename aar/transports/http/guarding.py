"""Token, origin and host rules in front of an application that knows nothing of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from aar.transports.http.access import OPEN_PATH, Access
from aar.transports.http.refused import Refused

__all__ = ["Guarded"]

REST_OF_A_REQUEST = 2.0  # seconds that a client has to send the rest of a request that is refused

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]


class Guarded:
    """An ASGI application that only those reach whom `access` lets in; others are told why not.

    Pages of origins that are let in may use `methods`, send `sent` headers and read `read` headers, all lower case.
    """

    def __init__(
        self, app: Application, access: Access, *, methods: str, sent: Sequence[str] = (), read: Sequence[str] = ()
    ) -> None:
        self._app = app
        self._access = access
        self._for_pages = {
            "access-control-allow-methods": methods,
            "access-control-allow-headers": ", ".join(("content-type", "authorization", *sent)),
            "access-control-expose-headers": ", ".join(read),
        }

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self._app(scope, receive, send)

    async def _serve(self, scope: Any, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").title(): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("Origin")
        is_question = scope["method"] == "OPTIONS" and origin is not None  # of a browser, which sends no token with it
        try:
            # `/ping` is open where there is one; here every path needs the token.
            self._access.check(OPEN_PATH if is_question else f"{scope['path']}/", headers)
        except Refused as refused:
            await _refuse(receive, send, refused)
            return
        if origin is None:
            await self._app(scope, receive, send)
        elif is_question:
            await _answer(send, 204, {**self._for_pages, **_open_to(origin)})
        else:
            await self._app(scope, receive, self._telling(origin, send))

    def _telling(self, origin: str, send: Send) -> Send:
        async def tell(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = _encoded({**self._for_pages, **_open_to(origin)})
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return tell


def _open_to(origin: str) -> dict[str, str]:
    return {"access-control-allow-origin": origin, "vary": "origin"}


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _refuse(receive: Receive, send: Send, refused: Refused) -> None:
    """Whoever is still sending would find the connection cut, and not see why: so the answer waits a moment."""
    with trio.move_on_after(REST_OF_A_REQUEST):
        while (await receive()).get("more_body", False):
            pass
    more = {"www-authenticate": "Bearer"} if refused.status == 401 else {}
    await _answer(send, refused.status, more, json.dumps({"detail": str(refused)}).encode())


async def _answer(send: Send, status: int, headers: dict[str, str], body: bytes = b"") -> None:
    kind = {"content-type": "application/json"} if body else {}
    told = _encoded({**kind, "content-length": str(len(body)), **headers})
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})
