"""One run as its clients see it: its state, its output, and what happened, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import trio

from aar.messages.events import AssistantMessage, ErrorEvent, Event, StepRestarted, StreamChunk
from aar.transports.program.sentences import for_people
from aar.transports.runs.event_log import EventLog
from aar.transports.runs.job import Job

__all__ = ["Run", "Status", "message", "status_after"]

Status = Literal["created", "in-progress", "completed", "failed", "cancelled"]

_STATUS: dict[str, Status] = {
    "end_turn": "completed",
    "max_tokens": "completed",
    "max_steps": "completed",
    "budget_exceeded": "completed",
    "cancelled": "cancelled",
}


def status_after(stop: str) -> Status:
    """The status of a run whose turn ended like this."""
    return _STATUS.get(stop, "failed")


def message(text: str) -> dict[str, Any]:
    """What the agent says, in the form of the API."""
    return {"role": "assistant", "parts": [{"content_type": "text/plain", "content": text}]}


def _now() -> str:
    return datetime.now(UTC).isoformat()


class _Saying:
    """The message that is being said, and how much of it has been passed on.

    A model call that breaks off is tried again, and may say something else. What was passed on cannot be taken back, so
    the piece that comes next says how many characters before it are void.
    """

    def __init__(self) -> None:
        self._passed_on = ""
        self._said = ""

    def begin_again(self) -> None:
        self._said = ""

    def say(self, text: str) -> tuple[str, int] | None:
        """The text to pass on now and the number of characters that it replaces; `None` while there is nothing new."""
        self._said += text
        return None if self._passed_on.startswith(self._said) else self._pass_on()

    def end(self, whole: str) -> tuple[str, int] | None:
        """The same for the rest, once it is known what the message is."""
        self._said = whole
        piece = None if self._passed_on == whole else self._pass_on()
        self._passed_on = self._said = ""
        return piece

    def _pass_on(self) -> tuple[str, int]:
        before, self._passed_on = self._passed_on, self._said
        if self._said.startswith(before):
            return self._said[len(before) :], 0
        return self._said, len(before)


@dataclass(eq=False)
class Run(Job):
    """`error` and `stop_reason` are those of its end."""

    agent_name: str
    status: Status = "created"
    output: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    stop_reason: str | None = None
    created_at: str = field(default_factory=_now)
    finished_at: str | None = None
    _log: EventLog = field(default_factory=EventLog)
    _said: _Saying = field(default_factory=_Saying)
    _output_weight: int = 0
    _problem: str = ""  # the last one that the turn told of
    _changed: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self._note({"type": "run_created", "run": self.as_data()})

    def as_data(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "agent_name": self.agent_name,
            "status": self.status,
            "session_id": self.session_id,
            "output": list(self.output),
            "error": self.error,
            "stop_reason": self.stop_reason,
            "created_at": self.created_at,
            "finished_at": self.finished_at,
        }

    # --- for who runs it ---

    def begin(self) -> None:
        self.status = "in-progress"
        self._note({"type": "run_in_progress", "run": self.as_data()})

    def notice(self, event: Event) -> None:
        """Take what concerns a client from a fact or a hint of its turn."""
        match event:
            case StreamChunk(text=text) if text:
                self._tell(self._said.say(text))
            case StepRestarted():
                self._said.begin_again()
            case AssistantMessage(content=text):
                self._tell(self._said.end(text))
                if text:
                    self.output.append(message(text))
                    self._output_weight += len(text)
            case ErrorEvent(message=text):
                self._problem = for_people(text)

    def settle(self, stop: str, error: str = "") -> None:
        """It is over. Without an `error` a failed one has that of its turn."""
        if self.settled.is_set():
            return
        self.status, self.stop_reason = status_after(stop), stop
        if self.status == "failed":
            self.error = error or self._problem or "The run failed."
        self.finished_at = _now()
        self._note({"type": f"run_{self.status}", "run": self.as_data()})
        self.placed.set()
        self.settled.set()

    def _tell(self, piece: tuple[str, int] | None) -> None:
        if piece is None:
            return
        text, replaced = piece
        event: dict[str, Any] = {"type": "message_created", "message": message(text)}
        self._note(event | {"replaces": replaced} if replaced else event, len(text))

    def _note(self, event: dict[str, Any], size: int = 0) -> None:
        self._log.add(event, size)
        self._changed.set()
        self._changed = trio.Event()

    # --- for its clients ---

    @property
    def events(self) -> list[dict[str, Any]]:
        """What is kept of what happened so far."""
        return self._log.all()

    @property
    def weight(self) -> int:
        """What it takes in memory, in bytes, about."""
        return self._log.weight + self._output_weight

    async def event(self, number: int) -> tuple[dict[str, Any], int] | None:
        """The event of this number, counted from 0, as soon as there is one, and the number of the one behind it.

        A reader that is so late that its event is not kept any more gets one of the type `events_dropped` instead.
        `None` behind the last.
        """
        while (found := self._log.at(number)) is None:
            if self.settled.is_set():
                return None
            await self._changed.wait()
        return found
