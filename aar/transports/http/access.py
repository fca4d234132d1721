"""Who may ask: whoever has the token, and no page in a browser that was not named."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from aar.errors import ConfigError
from aar.transports.http.refused import Refused

__all__ = ["Access", "is_loopback"]


@dataclass(frozen=True)
class Access:
    """Without a `token` anybody who reaches the server may use it; then at least no page of a browser can.

    `origins` are those of pages that may (`https://app.example.org`), `hosts` the names that the server is called by
    besides `localhost` and addresses, both in lower case. `*` stands for all.
    """

    token: str = ""
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    has_pages: bool = False  # of its own, which may use it

    @classmethod
    def of(cls, token: str, origins: Iterable[str], hosts: Iterable[str]) -> Access:
        """From names as people write them: one or several, in any case, `https://a.example/` and `host:80` as well.

        Raises `ConfigError` for what no browser would send, since it would let nobody in without a word.
        """
        pages, names = ([one] if isinstance(one, str) else one for one in (origins, hosts))
        return cls(token, frozenset(map(_origin_of, pages)), frozenset(map(_host_of, names)))

    def check(self, headers: Mapping[str, str], *, needs_token: bool = True) -> None:
        """Raises `Refused`."""
        origin = headers.get("Origin")
        if origin is not None and not self._admits(origin) and not self._is_own(origin, headers.get("Host", "")):
            raise Refused(403, "Pages of this origin are not allowed; the server must be started with --allow-origin")
        if origin is None and headers.get("Sec-Fetch-Site", "none").lower() not in ("none", "same-origin"):
            raise Refused(403, "Pages of other sites are not allowed")
        if not self.token and not self._is_known(headers.get("Host", "")):
            raise Refused(
                421, "This host name is not allowed; the server must be started with --allow-host, or a token"
            )
        if self.token and needs_token and not self._has_token(headers.get("Authorization", "")):
            raise Refused(401, "A valid bearer token is needed")

    def headers(self, origin: str | None) -> dict[str, str]:
        """What tells a browser whether its page may read the answer."""
        told = {"vary": "origin"} if self.origins else {}
        if origin is not None and self._admits(origin):
            told["access-control-allow-origin"] = origin
        return told

    def _admits(self, origin: str) -> bool:
        return "*" in self.origins or origin.lower() in self.origins

    def _is_own(self, origin: str, host: str) -> bool:
        """A page that came from this server. Without a token the name it was called by is looked at, too."""
        return self.has_pages and bool(host) and urlsplit(origin.lower()).netloc == host.lower()

    def _is_known(self, host: str) -> bool:
        """A page that points a name of its own at this machine sends that name; addresses cannot be pointed."""
        name = _name_of(host)
        return name == "" or name in self.hosts or "*" in self.hosts or _is_local_name(name) or _is_address(name)

    def _has_token(self, authorization: str) -> bool:
        kind, _, given = authorization.partition(" ")
        is_same = hmac.compare_digest(given.strip().encode(errors="replace"), self.token.encode())
        return kind.lower() == "bearer" and is_same


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if _is_local_name(host.lower()):
        return True
    return _is_address(host) and ip_address(host).is_loopback


def _is_local_name(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _origin_of(written: str) -> str:
    origin = written.lower().rstrip("/")
    if origin in ("*", "null") or re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+", origin):
        return origin
    raise ConfigError(f"{written!r} is no origin of web pages: write it like https://app.example.org, without a path.")


def _host_of(written: str) -> str:
    host = written.lower()
    if not host or re.search(r"[/?#@\s]", host):
        raise ConfigError(f"{written!r} is no name of a host: write it like build.example.org.")
    name, _, port = host.partition(":")
    return name if port.isdigit() else host


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or host
    except ValueError:
        return host
