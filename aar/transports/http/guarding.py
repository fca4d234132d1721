"""Token, origin and host rules in front of an application that knows nothing of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aar.transports.http.access import Access
from aar.transports.http.refused import Refused

__all__ = ["Guarded"]

Application = Callable[[Any, Any, Any], Awaitable[None]]


class Guarded:
    """An ASGI application that only those reach whom `access` lets in; others are told why not."""

    def __init__(self, app: Application, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode("latin-1").title(): value.decode("latin-1") for name, value in scope["headers"]}
            try:
                # `/ping` is open where there is one; here every path needs the token.
                self._access.check(f"{scope['path']}/", headers)
            except Refused as refused:
                await _refuse(send, refused)
                return
        elif scope["type"] == "websocket":
            return
        await self._app(scope, receive, send)


async def _refuse(send: Any, refused: Refused) -> None:
    body = json.dumps({"detail": str(refused)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
