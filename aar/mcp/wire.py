"""HTTP to a server, no further than a message may go. Loaded with the first server that has an address.

The package reads an answer whole, and on the loop. So every answer passes here first: one that is too large becomes an
error of its request, and the connection goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

import httpx2
import trio

from aar.mcp.bounds import MESSAGE_LIMIT, VALUES_LIMIT, excess
from aar.mcp.pace import Pace
from aar.mcp.repair import whole_characters
from aar.mcp.trip import Trip, current_trip
from aar.messages.json_values import values

__all__ = ["BoundedTransport", "proxy_for"]

NOTE_TIMEOUT = 2.0  # seconds for what needs no answer: the package sends nothing else meanwhile
STREAM_EVERY = 0.5  # seconds between two streams that are opened again: the package would do it at once if told so
LARGE = 256 * 1024  # bytes of an answer that a thread looks at first
LASTING = 5.0  # seconds that a stream of news was open, and then its end may be that of its server
NOTE_LENGTH = 64 * 1024  # bytes; what is longer is a request

_DECODED = ("content-encoding", "content-length", "transfer-encoding")  # no longer true of what is handed on
_BLANK_LINE = re.compile(rb"\n\n|\r\n\r\n|\r\r")  # between events


def _nobody() -> None:
    """Nobody wants to know."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Another transport, whose JSON answers have at most `limit` bytes. Bodies that nobody needs are not read.

    `stream_ended` is called when the stream ends on which a server tells news: it may not be there any more.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        *,
        limit: int = MESSAGE_LIMIT,
        stream_ended: Callable[[], None] = _nobody,
    ) -> None:
        self._inner = inner
        self._stream_ended = stream_ended
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
        response = await self._sent(request)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            ended = self._stream_ended if request.method == "GET" else _nobody
            return _same(response, stream=_Events(response, self._limit, ended))
        if kind == "application/json":
            return await self._whole(response)
        await response.aclose()
        return _same(response, content=b"")

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        trip = current_trip.get(Trip()) if request.method == "POST" else Trip()
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            trip.is_refused = True
            raise
        except httpx2.TransportError:
            trip.has_arrived = True  # or not: nobody knows
            raise
        trip.has_arrived |= response.status_code < 400
        return response

    async def _whole(self, response: httpx2.Response) -> httpx2.Response:
        body = bytearray()
        try:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > self._limit:
                    break
        finally:
            await response.aclose()
        if problem := await self._excess(bytes(body)):
            error = {"code": -32603, "message": f"it sent a message {problem}"}
            return httpx2.Response(413, json={"jsonrpc": "2.0", "id": None, "error": error})
        return _same(response, content=whole_characters(bytes(body)))

    async def _excess(self, body: bytes) -> str:
        """In a thread, so that the others need not wait."""
        if len(body) < LARGE:
            return excess(body, self._limit)
        return await trio.to_thread.run_sync(
            excess, body, self._limit, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
        )

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
    """Lines of an answer, whole. An event with too many values ends it; the package tells of one that is too long."""

    def __init__(self, response: httpx2.Response, limit: int, ended: Callable[[], None]) -> None:
        self._response = response
        self._ended = ended
        self._opened = trio.current_time()
        self._limit = limit
        self._pieces: AsyncIterator[bytes] = response.aiter_bytes()
        self._begun: list[bytes] = []  # of a line whose end has not come
        self._size = 0
        self._end = b""  # of what was handed on: a blank line may be cut in two
        self._values = 0
        self._pace = Pace()

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> bytes:
        while True:
            try:
                piece = await anext(self._pieces, None)
            except httpx2.TransportError:
                self._ended()
                raise
            if piece is None and not self._begun:
                if trio.current_time() - self._opened > LASTING:  # some servers end each at once, and all the time
                    self._ended()
                raise StopAsyncIteration
            lines = self._taken(len(self._begun)) if piece is None else self._whole(piece)
            if lines:
                self._count(lines)
                await self._pace.keep(lines.count(b"\n"))
                return whole_characters(lines)

    def _whole(self, piece: bytes) -> bytes:
        """What can be handed on with this piece: lines, or the beginning of one that is too long anyway."""
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        self._begun += [part for part in (piece[:end], piece[end:]) if part]
        self._size = len(piece) - end if end else self._size + len(piece)
        if end:
            return self._taken(len(self._begun) - (end < len(piece)))
        return self._taken(len(self._begun)) if self._size > self._limit else b""

    def _taken(self, count: int) -> bytes:
        taken, self._begun = self._begun[:count], self._begun[count:]
        return b"".join(taken)

    def _count(self, lines: bytes) -> None:
        first, *others = _BLANK_LINE.split(self._end + lines)
        counts = [self._values + values(first), *map(values, others)]
        self._values, self._end = counts[-1], lines[-3:]
        if max(counts) > VALUES_LIMIT:
            raise httpx2.SSEError(f"it sent a message with more than {VALUES_LIMIT:,} values")

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
