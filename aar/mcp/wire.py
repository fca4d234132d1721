"""HTTP to a server, no further than a message may go. Loaded with the first server that has an address.

The package reads an answer whole, and on the loop. So every answer passes here first: one that is too large becomes an
error of its request, and the connection goes on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

import httpx2
import trio

from aar.mcp.bounds import MESSAGE_LIMIT, VALUES_LIMIT, excess, marks

__all__ = ["BoundedTransport", "proxy_for"]

NOTE_TIMEOUT = 2.0  # seconds for what needs no answer: the package sends nothing else meanwhile
STREAM_EVERY = 0.5  # seconds between two streams that are opened again: the package would do it at once if told so
NOTE_LENGTH = 64 * 1024  # bytes; what is longer is a request

_DECODED = ("content-encoding", "content-length", "transfer-encoding")  # no longer true of what is handed on
_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Another transport, whose JSON answers have at most `limit` bytes. Bodies that nobody needs are not read."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, limit: int = MESSAGE_LIMIT) -> None:
        self._inner = inner
        self._limit = limit
        self._next_stream = -float("inf")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            await trio.sleep_until(self._next_stream)
            self._next_stream = trio.current_time() + STREAM_EVERY
        if _is_note(request):
            with trio.move_on_after(NOTE_TIMEOUT):
                return await self._ask(request)
            return httpx2.Response(202)
        return await self._ask(request)

    async def _ask(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            return _same(response, stream=_Events(response))
        if kind == "application/json":
            return await self._whole(response)
        await response.aclose()
        return _same(response, content=b"")

    async def _whole(self, response: httpx2.Response) -> httpx2.Response:
        body = bytearray()
        try:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > self._limit:
                    break
        finally:
            await response.aclose()
        if problem := excess(bytes(body), self._limit):
            error = {"code": -32603, "message": f"it sent a message {problem}"}
            return httpx2.Response(413, json={"jsonrpc": "2.0", "id": None, "error": error})
        return _same(response, content=bytes(body))

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_note(request: httpx2.Request) -> bool:
    """Whether it is a notification, or our answer to the server."""
    if request.method != "POST" or len(request.content) > NOTE_LENGTH:
        return False
    message = json.loads(request.content)
    return not ("id" in message and "method" in message)


def _same(response: httpx2.Response, **body: object) -> httpx2.Response:
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _DECODED]
    return httpx2.Response(response.status_code, headers=headers, extensions=response.extensions, **body)  # type: ignore[arg-type]


class _Events(httpx2.AsyncByteStream):
    """The events of an answer. One with too many values ends it; one that is too long ends it in the package."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._pieces: AsyncIterator[bytes] = response.aiter_bytes()
        self._end = b""  # of the last piece: a blank line may be cut in two
        self._marks = 0

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> bytes:
        piece = await anext(self._pieces)
        seen = self._end + piece
        begins = max(seen.rfind(blank) for blank in _BLANK_LINES)
        self._marks = marks(seen[begins:]) if begins >= 0 else self._marks + marks(piece)
        self._end = piece[-3:]
        if self._marks > VALUES_LIMIT:
            raise httpx2.SSEError(f"it sent a message with more than {VALUES_LIMIT:,} values")
        return piece

    async def aclose(self) -> None:
        await self._response.aclose()


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address. There is none on the way to our own machine."""
    parts = urlsplit(url)
    host, proxies = parts.hostname or "", getproxies_environment()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or _is_loopback(host) or proxy_bypass_environment(host, proxies):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
