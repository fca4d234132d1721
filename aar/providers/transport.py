"""The transport below all HTTP to models: pooled connections, and a request that meets a closed one goes out again."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, cast

import httpcore2
import httpx2
import trio

from aar.providers.error_bodies import ErrorBody
from aar.providers.network import Network

__all__ = ["Transport"]

KEPT_FOR = 5.0  # seconds without a request after which a connection is closed
STALE_TIMEOUT = 1.0  # seconds within which a kept connection that the server had closed already fails

CLOSE_TIMEOUT = 1.0  # seconds

_CUT = (httpcore2.RemoteProtocolError, httpcore2.ReadError, httpcore2.WriteError)
_SAID_NOTHING = "Server disconnected"  # how httpcore2 begins to tell of that

_NAMES = (  # errors that httpcore2 and httpx2 know by the same names
    *("TimeoutException", "ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout"),
    *("NetworkError", "ConnectError", "ReadError", "WriteError", "ProxyError"),
    *("UnsupportedProtocol", "ProtocolError", "LocalProtocolError", "RemoteProtocolError"),
)
_TWINS: dict[type[Exception], type[httpx2.TransportError]] = {
    getattr(httpcore2, name): getattr(httpx2, name) for name in _NAMES
}
_KNOWN = tuple(_TWINS)


class Transport(httpx2.AsyncBaseTransport):
    """Sends a request again when a connection from an earlier one turns out to be closed.

    Only then: on a new connection, or after a while, the server may have worked on the request already. Of an error
    it hands out the start of the body. Keeps up to `kept` idle connections. Raises errors of httpx2.
    """

    def __init__(self, context: ssl.SSLContext, *, kept: int, proxy: str = "") -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            proxy=_proxy(proxy) if proxy else None,
            max_connections=None,
            max_keepalive_connections=kept,
            keepalive_expiry=KEPT_FOR,
            network_backend=Network(),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        with _errors_of_httpx():
            answer = await self._send(request)
        body: httpx2.AsyncByteStream = _Body(answer)
        if answer.status >= 400:
            body = ErrorBody(body)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    async def _send(self, request: httpx2.Request) -> httpcore2.Response:
        is_new = False

        async def trace(event: str, _: Mapping[str, Any]) -> None:
            nonlocal is_new
            is_new = is_new or event == "connection.connect_tcp.started"

        sent = _core_request(request, trace)
        began = trio.current_time()
        try:
            return await self._send_once(sent)
        except _CUT as error:
            if is_new or _is_answer(error) or trio.current_time() - began > STALE_TIMEOUT:
                raise
            return await self._send_once(sent)

    async def _send_once(self, request: httpcore2.Request) -> httpcore2.Response:
        try:
            return await self._pool.handle_async_request(request)
        except BaseException:
            await self._close_unused()
            raise

    async def _close_unused(self) -> None:
        """Connections that were made for a request that was cancelled just then: the pool would keep them for ever."""
        connections, taken = self._pool._connections, [request.connection for request in self._pool._requests]
        unused = [one for one in connections if not (one in taken or one.is_idle() or one.is_closed())]
        for one in unused:
            connections.remove(one)
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
            for one in unused:
                await one.aclose()

    async def aclose(self) -> None:
        await self._pool.aclose()


def _is_answer(error: Exception) -> bool:
    """Whether the server said something that is no HTTP, so that it has seen the request."""
    return isinstance(error, httpcore2.RemoteProtocolError) and not str(error).startswith(_SAID_NOTHING)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = cast("AsyncGenerator[bytes, None]", aiter(self._answer.aiter_stream()))
        with _errors_of_httpx():
            async with aclosing(parts):
                async for part in parts:
                    yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


def _core_request(request: httpx2.Request, trace: Any) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        request.method,
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=cast("httpx2.AsyncByteStream", request.stream),
        extensions={**request.extensions, "trace": trace},
    )


def _proxy(address: str) -> httpcore2.Proxy:
    """Raises `httpx2.InvalidURL`, and `ValueError` for a proxy of an unknown kind."""
    proxy = httpx2.Proxy(address)
    url = proxy.url
    return httpcore2.Proxy(
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        auth=proxy.raw_auth,
    )


@contextmanager
def _errors_of_httpx() -> Generator[None, None, None]:
    try:
        yield
    except _KNOWN as error:
        raise _TWINS[type(error)](str(error)) from error
