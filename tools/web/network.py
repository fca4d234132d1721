"""Requests to the open internet: public addresses only, slow, small, and never by way of a name that changes its mind.

A name is resolved once, all its addresses are checked, and the connection goes to one of the checked addresses. So a
name server cannot show a public address to the check and a private one to the connection. Each redirect is a request of
its own and goes the same way.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

import httpx2
import trio

from tools.bodies import read_up_to
from tools.failing import ServiceError, reason_of

__all__ = ["Page", "Web", "is_public"]

TIMEOUT = 15.0  # seconds, for each request with its body
MAX_REDIRECTS = 5
MAX_BODY = 5_000_000  # bytes after decompression; the rest is not read
USER_AGENT = "Mozilla/5.0 (compatible; aar-web-tools/1.0)"
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """True for an address of the open internet; an IPv4 address inside an IPv6 one counts as what it is."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip in _NAT64:
            return is_public(str(ip_address(int(ip) & 0xFFFFFFFF)))
        if ip.sixtofour is not None or ip.teredo is not None:
            return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


@dataclass(frozen=True)
class Page:
    """What came back from `url`, after redirects; `cut` says that there was more than is kept."""

    url: str
    content_type: str
    charset: str | None
    body: bytes
    cut: bool = False


@dataclass
class Web:
    """A way to the web for all tools of a server. `every`: seconds from one start of a request to the next."""

    allow_private: bool = False
    every: float = 1.0
    _turn: trio.Lock = field(default_factory=trio.Lock)
    _free_at: float = float("-inf")

    async def request(self, method: str, address: str, form: dict[str, str] | None = None) -> Page:
        """The page at an http or https address.

        Raises:
            ValueError: it is no such address, or it leads to a private one.
            ServiceError: no answer, too many redirects, or an HTTP status that means failure.
        """
        url = web_url(address)
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._one_request(method, url, form)
            if isinstance(answer, Page):
                return answer
            method, form = ("GET", None) if method == "POST" else (method, form)
            url = web_url(str(url.join(answer)))
        raise ServiceError(f"More than {MAX_REDIRECTS} redirects from {address}")

    async def _one_request(self, method: str, url: httpx2.URL, form: dict[str, str] | None) -> Page | str:
        await self._wait_for_turn()
        try:
            with trio.fail_after(TIMEOUT):
                addresses = await self._addresses(url)
                return await _ask_first_reachable(addresses, method, url, form)
        except trio.TooSlowError:
            raise ServiceError(f"No answer from {url.host} within {TIMEOUT:.0f} s") from None
        except (httpx2.HTTPError, ssl.SSLError, OSError) as error:
            raise ServiceError(f"Cannot get {url}: {reason_of(error)}") from error

    async def _wait_for_turn(self) -> None:
        async with self._turn:
            await trio.sleep_until(self._free_at)
            self._free_at = trio.current_time() + self.every

    async def _addresses(self, url: httpx2.URL) -> list[str]:
        port = url.port or (443 if url.scheme == "https" else 80)
        found = await trio.socket.getaddrinfo(url.host, port, type=trio.socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if not self.allow_private and not all(map(is_public, addresses)):
            raise ValueError(f"{url.host} is a private, loopback or link-local address: these are not fetched")
        return addresses


def web_url(address: str) -> httpx2.URL:
    """A checked URL.

    Raises:
        ValueError: it cannot be read, is not http or https, names no host, or carries a login.
    """
    try:
        url = httpx2.URL(address.strip())
    except httpx2.InvalidURL as error:
        raise ValueError(f"Not a URL: {error}") from error
    if url.scheme not in ("http", "https"):
        raise ValueError(f"Only http and https can be fetched, not {url.scheme or 'an address without a scheme'}")
    if not url.host:
        raise ValueError(f"No host in {address!r}")
    if url.userinfo:
        raise ValueError("An address with a login is not fetched")
    return url


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)


async def _ask_first_reachable(
    addresses: list[str], method: str, url: httpx2.URL, form: dict[str, str] | None
) -> Page | str:
    problem: Exception | None = None
    for address in addresses:
        try:
            return await _ask(address, method, url, form)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            problem = error
    raise problem or OSError("the name has no address")


async def _ask(address: str, method: str, url: httpx2.URL, form: dict[str, str] | None) -> Page | str:
    """The page, or where it says that it is. No cookies, and no proxy: that one would resolve the name again."""
    headers = {"Host": url.netloc.decode("ascii"), "User-Agent": USER_AGENT, "Accept-Language": "en,*;q=0.5"}
    timeout = httpx2.Timeout(TIMEOUT, connect=5.0)
    async with httpx2.AsyncClient(verify=_tls(), trust_env=False, timeout=timeout) as client:
        request = client.build_request(method, url.copy_with(host=address), data=form, headers=headers)
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        response = await client.send(request, stream=True)
        try:
            if response.has_redirect_location:
                return response.headers["Location"]
            if response.is_error:
                raise ServiceError(f"HTTP {response.status_code} {response.reason_phrase}".strip() + f" from {url}")
            return await _read(response, url)
        finally:
            with trio.move_on_after(1, shield=True):
                await response.aclose()


async def _read(response: httpx2.Response, url: httpx2.URL) -> Page:
    body = await read_up_to(response, MAX_BODY)
    content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return Page(str(url), content_type, response.charset_encoding, body[:MAX_BODY], cut=len(body) > MAX_BODY)
