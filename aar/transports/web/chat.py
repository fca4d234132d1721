"""One request to chat: what happened, in order, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import trio

from aar.client import SessionHandle
from aar.errors import ConfigError, SessionInUse
from aar.messages.events import (
    HINTS,
    AgentState,
    ErrorEvent,
    Event,
    ProviderMeta,
    SessionEvent,
    ToolResult,
)
from aar.runtime import state_after
from aar.transports.http.refused import Refused
from aar.transports.program.outcomes import response_of, tool_result_of
from aar.transports.program.sentences import sentence
from aar.transports.runs.job import Job

__all__ = ["Chat"]

MOST_BEHIND = 64  # events that a reader may be behind before hints are merged for it
SOME = 100  # events that are made into plain data at a time


@dataclass(eq=False, kw_only=True)
class Chat(Job):
    """`is_read_along`: its client gets events as they happen, hints among them. Otherwise all facts are kept."""

    is_read_along: bool = False
    state: AgentState = AgentState.IDLE
    step_count: int = 0
    has_begun: bool = False
    _is_over: bool = False  # or shall be
    _events: list[Event] = field(default_factory=list)  # that were not taken yet
    _changed: trio.Event = field(default_factory=trio.Event)

    # --- for who does it ---

    def place(self, session_id: str) -> None:
        super().place(session_id)
        self._add(SessionEvent(action="started", data={"session_id": session_id}))

    async def enter(self, handle: SessionHandle) -> None:
        self.step_count = (await handle.status()).step_count

    def begin(self) -> None:
        self.has_begun = True

    def notice(self, event: Event) -> None:
        if isinstance(event, ProviderMeta):
            self.step_count += 1
        if self.is_read_along or not isinstance(event, HINTS):
            self._add(event)

    async def keep_pace(self) -> None:
        while self.is_read_along and len(self._events) >= MOST_BEHIND and not self._is_over:
            await self._changed.wait()

    def hurry(self) -> None:
        self._is_over = True
        self._wake()

    def settle(self, stop: str, error: str = "") -> None:
        if self.settled.is_set():
            return
        self.state = state_after(stop)
        if error:
            self._add(ErrorEvent(message=error, recoverable=False))
        data = {"session_id": self.session_id, "state": str(self.state), "step_count": self.step_count, "stop": stop}
        self._add(SessionEvent(action="ended", data=data))
        self.placed.set()
        self.settled.set()

    # --- for its client ---

    def cancel(self) -> None:
        super().cancel()
        self.hurry()

    def check(self) -> None:
        """Raises `Refused` when its turn could not even begin."""
        if self.has_begun or not self.settled.is_set():
            return
        match self.failure:
            case None:
                raise Refused(503, "The server is shutting down")
            case SessionInUse():
                raise Refused(409, f"{sentence(self.failure)} Try again later, or leave session_id out")
            case ConfigError():
                raise Refused(400, sentence(self.failure))
            case _:
                raise Refused(500, sentence(self.failure))

    async def take(self) -> list[Event]:
        """What has happened since the last time, as soon as there is something; nothing when that was all."""
        while not self._events and not self.settled.is_set():
            await self._changed.wait()
        taken, self._events = self._events, []
        self._wake()
        return taken

    async def as_data(self) -> dict[str, Any]:
        """The answer to a client that has waited until it was settled."""
        events = await self.take()
        told: list[dict[str, Any]] = []
        for start in range(0, len(events), SOME):
            told += [event.model_dump(mode="json") for event in events[start : start + SOME]]
            await trio.lowlevel.checkpoint()
        return {
            "session_id": self.session_id,
            "response": response_of(events),
            "tool_results": [tool_result_of(event) for event in events if isinstance(event, ToolResult)],
            "events": told,
            "state": str(self.state),
            "step_count": self.step_count,
        }

    def _add(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
