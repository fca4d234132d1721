"""What a request brings along, measured before it is read: reading millions of values would hold up all others."""

from __future__ import annotations

from typing import Any

import trio

from aar.messages.json_values import counts
from aar.transports.http.guarding import Application, Receive, Send, refuse
from aar.transports.http.refused import Refused

__all__ = ["MOST_BODY", "MOST_VALUES", "SENDING", "Measured", "check_values"]

MOST_BODY = 16 * 1024 * 1024  # bytes of a request
MOST_VALUES = 50_000  # in its JSON: commas and opening brackets outside of texts
SENDING = 30  # seconds that a client may take to send one


async def check_values(body: bytes) -> None:
    """Others have their turn meanwhile. Raises `Refused` when there are more than `MOST_VALUES`."""
    for count in counts(body) if len(body) > MOST_VALUES else ():
        if count > MOST_VALUES:
            raise Refused(413, f"A request may have {MOST_VALUES:,} values at most")
        await trio.lowlevel.checkpoint()


class Measured:
    """An ASGI application around one that reads JSON whole, whatever its size. It begins when all of the body is there.

    What is too large or too slow is refused; `reason` is the field that says why.
    """

    def __init__(self, app: Application, *, reason: str = "detail") -> None:
        self._app = app
        self._reason = reason

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            await self._app(scope, receive, send)
            return
        is_whole = False

        async def note() -> Any:
            nonlocal is_whole
            if is_whole:  # whoever waits for the rest need not
                return {"type": "http.request", "body": b"", "more_body": False}
            message = await receive()
            is_whole = not message.get("more_body", False)
            return message

        try:
            _check_declared(scope)
            messages = await _in_time(note)
            await check_values(messages[0]["body"])
        except Refused as refused:
            await refuse(note, send, refused, reason=self._reason)
            return
        messages.reverse()

        async def again() -> Any:
            return messages.pop() if messages else await receive()

        await self._app(scope, again, send)


def _check_declared(scope: Any) -> None:
    """Who says beforehand that it is too large need not send it. Raises `Refused`."""
    for name, value in scope.get("headers", ()):
        if name.lower() == b"content-length" and value.isdigit() and (len(value) > 18 or int(value) > MOST_BODY):
            raise _too_large()


def _too_large() -> Refused:
    return Refused(413, f"A request may have {MOST_BODY // 1024**2} MiB at most")


async def _in_time(receive: Receive) -> list[Any]:
    with trio.move_on_after(SENDING):
        return await _whole(receive)
    raise Refused(408, "The request did not come in time")


async def _whole(receive: Receive) -> list[Any]:
    """The body as one message; what tells that the client has left instead comes behind what there is of it."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return [{"type": "http.request", "body": bytes(body), "more_body": True}, message]
        body += message.get("body", b"")
        if len(body) > MOST_BODY:
            raise _too_large()
        if not message.get("more_body", False):
            return [{"type": "http.request", "body": bytes(body), "more_body": False}]
