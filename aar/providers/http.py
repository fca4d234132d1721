"""HTTP for adapters: small pools of connections, and streams that close when they are left."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

import trio

from aar._version import __version__
from aar.errors import InvalidSetting
from aar.providers.leftovers import unwind

if TYPE_CHECKING:
    import ssl

    import httpx2

__all__ = ["CONNECT_TIMEOUT", "HttpPool", "is_loopback", "open_chunks", "split_url"]

CONNECT_TIMEOUT = 10.0  # seconds
CLOSE_TIMEOUT = 2.0  # seconds
REQUESTS_PER_CLIENT = 16  # a client searches all of its connections at every request: many small ones are cheaper
_HEADERS = {
    "accept": "*/*",
    "accept-encoding": "identity",  # a compressed stream comes in lumps: what it saves in bytes it costs in waiting
    "connection": "keep-alive",
    "user-agent": f"aar/{__version__}",
}


class _Route(NamedTuple):
    is_tls: bool
    proxy: str


class _Shard:
    """Some connections, and how many requests are using them. The pool has `left` it when no other request may."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self.transport = transport
        self.in_use = 0
        self.left = False
        self._client: httpx2.AsyncClient | None = None

    @property
    def client(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = _new_client(self.transport)
        return self._client


class HttpPool:
    """Connections for any number of requests at the same time, in groups of 16 with a client each.

    Proxies are read from the environment once; loopback addresses never go through one. Only connecting has a
    time limit: how long a server may be silent is its caller's to say. A kept connection that the server has closed
    costs nothing but a new one. Redirects are not followed, so that a key
    reaches no server but the one it was given for.
    """

    def __init__(self, *, requests_per_client: int = REQUESTS_PER_CLIENT) -> None:
        self._requests_per_client = requests_per_client
        self._shards: dict[_Route, list[_Shard]] = {}
        self._proxies: dict[str, str] | None = None

    @asynccontextmanager
    async def client(self, url: str) -> AsyncGenerator[httpx2.AsyncClient, None]:
        """A client for one request to `url`, shared with other requests."""
        shard = await self._shard(self._route(url))
        shard.in_use += 1
        try:
            yield shard.client
        finally:
            await _give_back(shard)

    @asynccontextmanager
    async def open_stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> AsyncGenerator[httpx2.Response, None]:
        """Send a request; the block starts when the headers of the answer are there, its body unread.

        Leaving the block closes the connection unless the body was read to its end. Raises `httpx2.HTTPError`.
        """
        shard = await self._shard(self._route(url))
        shard.in_use += 1
        try:
            # Without the client, which only has cookies, redirects and hooks to add: a tenth of the cost of a request.
            request = _request(method, url, headers or {}, content)
            response = await shard.transport.handle_async_request(request)
            response.request = request
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            await _give_back(shard)

    async def aclose(self) -> None:
        """Close all connections, those in use with the last request of their client. The pool may be used again."""
        shards = [shard for shards in self._shards.values() for shard in shards]
        self._shards.clear()
        for shard in shards:
            shard.left = True
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
            for shard in shards:
                # Closed now, a connection that is just being made would be forgotten, and stay open.
                if not shard.in_use:
                    await shard.transport.aclose()

    async def _shard(self, route: _Route) -> _Shard:
        for shard in self._shards.get(route, ()):
            if shard.in_use < self._requests_per_client:
                return shard
        context = await _tls_context() if route.is_tls else _no_tls_context()
        shard = _Shard(_new_transport(context, route.proxy))
        self._shards.setdefault(route, []).append(shard)
        return shard

    def _route(self, url: str) -> _Route:
        parts = urlsplit(url)
        return _Route(parts.scheme == "https", self._proxy(parts.scheme, parts.hostname or ""))

    def _proxy(self, scheme: str, host: str) -> str:
        from urllib.request import getproxies_environment, proxy_bypass

        if self._proxies is None:
            self._proxies = getproxies_environment()
        proxy = self._proxies.get(scheme) or self._proxies.get("all") or ""
        if not proxy or is_loopback(host) or proxy_bypass(host):
            return ""
        return proxy if "://" in proxy else f"http://{proxy}"


async def _give_back(shard: _Shard) -> None:
    shard.in_use -= 1
    if shard.left and not shard.in_use:
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
            await shard.transport.aclose()


@asynccontextmanager
async def open_chunks(response: httpx2.Response) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
    """The body of a response as the network cuts it. Leaving the block early drops the connection."""
    chunks = response.aiter_bytes()
    try:
        yield chunks
    finally:
        if not response.is_closed:
            await unwind(chunks)
        await chunks.aclose()


@lru_cache(maxsize=64)
def _parsed(url: str) -> httpx2.URL:
    """An adapter asks the same few addresses again and again."""
    import httpx2

    return httpx2.URL(url)


def split_url(address: str) -> SplitResult:
    """The parts of a server's URL. Raises `InvalidSetting` for what is no such URL."""
    try:
        parts = urlsplit(address)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not address.isprintable() or " " in address:
        raise InvalidSetting("provider.base_url is no URL of a server: write it like https://host/v1")
    return parts


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine itself."""
    return host == "localhost" or host.endswith(".localhost") or host.startswith("127.") or host == "::1"


def _new_transport(context: ssl.SSLContext, proxy: str) -> httpx2.AsyncBaseTransport:
    from aar.providers.transport import Transport

    return Transport(context, proxy=proxy, kept=REQUESTS_PER_CLIENT)


def _new_client(transport: httpx2.AsyncBaseTransport) -> httpx2.AsyncClient:
    import httpx2

    timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT)
    return httpx2.AsyncClient(transport=transport, trust_env=False, timeout=timeout, headers=_HEADERS)


def _request(method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> httpx2.Request:
    import httpx2

    where = _parsed(url)
    request = httpx2.Request(
        method,
        where,
        headers={**_HEADERS, **{name.lower(): value for name, value in headers.items()}},
        content=content,
        extensions={"timeout": {"connect": CONNECT_TIMEOUT}},
    )
    if where.userinfo:
        request.headers["authorization"] = _basic(where.username, where.password)
    return request


def _basic(name: str, password: str) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


async def _tls_context() -> ssl.SSLContext:
    """Loading the certificates of the system takes about 0.1 s: once per process, and beside the event loop."""
    return await trio.to_thread.run_sync(_trusting_context, abandon_on_cancel=True)


@cache
def _trusting_context() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()


@cache
def _no_tls_context() -> ssl.SSLContext:
    """For plain HTTP: made in no time, and trusts nobody."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
