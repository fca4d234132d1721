"""What is said to a request that cannot be served."""

from __future__ import annotations

from aar.errors import ProtocolError

__all__ = ["Refused"]


class Refused(ProtocolError):
    """A request that is answered with this status and a sentence that says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
