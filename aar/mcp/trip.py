"""How far the requests of one question to a server over HTTP came: what never arrived may be asked again."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Trip", "current_trip"]


@dataclass(eq=False)
class Trip:
    """`is_refused`: nobody was there, or the server did not know the session. `has_arrived`: it may have been done."""

    is_refused: bool = False
    has_arrived: bool = False

    @property
    def came_to_nothing(self) -> bool:
        """Whether the server has certainly done nothing of what it was asked."""
        return self.is_refused and not self.has_arrived


current_trip: ContextVar[Trip] = ContextVar("current_trip")
"""That of the question which is being asked. The package sends each message in the context of whoever gave it."""
