"""A server at an address (Streamable HTTP), as a transport for the package `mcp`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from aar.mcp.bounds import MESSAGE_LIMIT
from aar.mcp.listing import cleaned
from aar.mcp.trip import Trip, current_trip
from aar.messages.mcp import McpServer

if TYPE_CHECKING:
    import httpx2

__all__ = ["HttpLink"]

CONNECT_TIMEOUT = 10.0  # seconds; also for writing
GOODBYE_TIMEOUT = 2.0  # seconds that the end of a session at the server may take
CHALLENGE = 200  # characters that are told of what a server says when it refuses a key
SESSION, VERSION = "mcp-session-id", "mcp-protocol-version"

logger = logging.getLogger(__name__)


class HttpLink:
    """One session with a server. `ended` is set when the server does not know it any more; `why` says why.

    `doubt` is called when it may not be there any more, which the next request to it shows.
    """

    last_words = ""

    def __init__(self, server: McpServer, *, limit: int = MESSAGE_LIMIT, doubt: Callable[[], None]) -> None:
        self._server = server
        self._doubt = doubt
        self._limit = limit
        self._session: dict[str, str] = {}
        self.ended = trio.Event()
        self.why = ""

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        """The two streams that a `Client` wants. Every request carries the server's headers.

        At the end the server is told to forget the session, if it keeps one.
        """
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from aar.mcp.wire import BoundedTransport, proxy_for

        # No limit on silence: a server may have nothing to tell for hours, and a call has a limit of its own.
        timeout = httpx2.Timeout(CONNECT_TIMEOUT, read=None)
        hooks: dict[str, list[Callable[..., Any]]] = {
            "request": [self._note_request],
            "response": [self._note_response],
        }
        wire = BoundedTransport(
            httpx2.AsyncHTTPTransport(proxy=proxy_for(self._server.url)), limit=self._limit, stream_ended=self._doubt
        )
        headers = {"Accept-Encoding": "identity", **self._server.headers}
        async with httpx2.AsyncClient(
            headers=headers, timeout=timeout, event_hooks=hooks, transport=wire, trust_env=False
        ) as client:
            try:
                async with streamable_http_client(
                    self._server.url, http_client=client, terminate_on_close=False, max_sse_event_size=self._limit
                ) as streams:
                    yield streams
            finally:
                with trio.move_on_after(GOODBYE_TIMEOUT, shield=True):
                    await self._forget(client)

    async def _note_request(self, request: httpx2.Request) -> None:
        for name in (SESSION, VERSION):
            if name in request.headers:
                self._session[name] = request.headers[name]

    async def _note_response(self, response: httpx2.Response) -> None:
        if response.request.method != "POST" or self.ended.is_set():
            return
        if response.status_code < 400:
            self.why = ""  # what was refused before, such as a question of a newer protocol, explains nothing any more
        elif await _forgets_session(response):
            current_trip.get(Trip()).is_refused = True
            self._session.clear()
            self._end("it does not know this session any more")
        elif response.status_code in (401, 403):
            self.why = _refusal(response)
        else:
            self.why = f"it answers {response.status_code} {response.reason_phrase}".rstrip()

    def _end(self, why: str) -> None:
        self.why = why
        self.ended.set()

    async def _forget(self, client: httpx2.AsyncClient) -> None:
        import httpx2

        if SESSION not in self._session:
            return
        try:
            await client.delete(self._server.url, headers=self._session)
        except httpx2.HTTPError as error:
            logger.debug("the session at %s could not be ended: %r", self._server.name, error)


async def _forgets_session(response: httpx2.Response) -> bool:
    """404 by the protocol. Many servers, made after an example of its SDK, answer 400 and say what they miss."""
    if SESSION not in response.request.headers or response.status_code not in (400, 404):
        return False
    return response.status_code == 404 or b"session" in (await response.aread()).lower()


def _refusal(response: httpx2.Response) -> str:
    """What to do about a key that is missing or wrong, and what the server says about it."""
    said = cleaned(response.headers.get("www-authenticate"), CHALLENGE)
    advice = 'give it one in its headers, such as {"Authorization": "Bearer ..."}. Signing in (OAuth) is not supported'
    reason = f"it answers {response.status_code}: it wants another key than it gets; {advice}"
    return f"{reason}. It says: {said}" if said else reason
