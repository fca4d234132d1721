"""What a request about a live session says besides its body: the key, and from which fact on it wants to know."""

from __future__ import annotations

import hmac
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from aar.transports.http.refused import Refused

__all__ = ["LiveRequest"]

_LONGEST = 15  # digits of a number of a fact


class LiveRequest(NamedTuple):
    """`given` is the key that came along, or nothing."""

    given: str
    last_event_id: str
    query: dict[str, list[str]]

    @classmethod
    def of(cls, scope: Any) -> LiveRequest:
        """Raises `Refused`."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        kind, _, given = headers.get(b"authorization", "").partition(" ")
        try:
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=20)
        except ValueError as error:
            raise Refused(400, "The address asks for too much") from error
        return cls(given.strip() if kind.lower() == "bearer" else "", headers.get(b"last-event-id", ""), query)

    def check_key(self, key: str) -> None:
        """Raises `Refused`."""
        if not hmac.compare_digest(self.given.encode(errors="replace"), key.encode()):
            raise Refused(401, "The key of this server is needed, which it tells when it starts, or its token")

    @property
    def after(self) -> int:
        """The last fact that the client has: of the header that browsers send, else of the address."""
        given = self.last_event_id or self._one("after")
        if not given:
            return 0
        if not (given.isascii() and given.isdigit() and len(given) <= _LONGEST):
            raise Refused(400, "Last-Event-ID, or ?after=, must be the number of an event")
        return int(given)

    @property
    def answers(self) -> bool:
        """Whether somebody is there to answer questions."""
        return self._one("answers") == "1"

    @property
    def for_interfaces(self) -> bool:
        """Whether events of interfaces are wanted, and not those of the journal."""
        return self._one("view") == "ui"

    @property
    def wants_details(self) -> bool:
        return self._one("details") == "1"

    def _one(self, name: str) -> str:
        return self.query.get(name, [""])[-1]
