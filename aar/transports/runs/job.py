"""What a client wants done in a session, as those see it who do it. What clients see of it is up to each way in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from uuid import uuid4

import trio

from aar.client import SessionHandle
from aar.messages.events import Event
from aar.transports.runs.request import RunRequest

__all__ = ["Job"]


@dataclass(eq=False, kw_only=True)
class Job(ABC):
    """`session_id` is known once it is `placed`. `failure` is what kept it from being done, or cut it short."""

    request: RunRequest
    run_id: str = field(default_factory=lambda: uuid4().hex)
    session_id: str | None = None
    failure: BaseException | None = None
    waiting: trio.CancelScope = field(default_factory=trio.CancelScope)  # around what comes before its turn
    cancelled: trio.Event = field(default_factory=trio.Event)  # somebody wants it to end
    placed: trio.Event = field(default_factory=trio.Event)  # its session is known, or it is over
    settled: trio.Event = field(default_factory=trio.Event)

    # --- for who does it ---

    def place(self, session_id: str) -> None:
        self.session_id = session_id
        self.placed.set()

    async def enter(self, handle: SessionHandle) -> None:  # noqa: B027 - not every kind needs it
        """It has the session to itself from here on."""

    @abstractmethod
    def begin(self) -> None:
        """Its turn comes next."""

    @abstractmethod
    def notice(self, event: Event) -> None:
        """Take a fact or a hint of its turn."""

    async def keep_pace(self) -> None:  # noqa: B027
        """Wait while its client is far behind. Facts wait meanwhile, and hints are merged into one."""

    def hurry(self) -> None:  # noqa: B027
        """The turn is over: whoever comes next shall not wait for this client."""

    @abstractmethod
    def settle(self, stop: str, error: str = "") -> None:
        """It is over, for this reason. An `error` is told when it could not be done."""

    # --- for its client ---

    def cancel(self) -> None:
        """Ask it to end. `settled` tells when it has."""
        self.cancelled.set()
        self.waiting.cancel()
