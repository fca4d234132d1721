"""Between the server and the application: what has begun on a connection is finished, whatever the answer is."""

from __future__ import annotations

from typing import Any

import trio

from aar.transports.http.guarding import REST_OF_A_REQUEST, Application, Receive, Send

__all__ = ["Finishing"]


class Finishing:
    """A Quart application.

    The server closes a connection, or makes it ready for the next request, inside `send`. In the middle of that it says
    that the client has left, upon which Quart would cancel it: so the last `send` cannot be cancelled.

    A client that is refused while it is still sending would find the connection cut, and not see why: so the answer
    waits for it a moment.
    """

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        received = trio.Event()

        async def note(*_: Any) -> Any:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                received.set()
            return message

        async def finish(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                with trio.move_on_after(REST_OF_A_REQUEST):
                    await received.wait()
            is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
            with trio.CancelScope(shield=is_last):
                await send(message)

        await self._app(scope, note, finish)
