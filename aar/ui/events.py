"""The events that interfaces are told: frozen data, each under one of six tags. Names of fields are those of the JSON.

A message is announced (`MessageStarted`), grows by parts (`MessagePartAdded`, `MessagePartUpdated`), and is at last
told whole (`MessageFinalized`); who comes late or cannot keep up needs the last of these alone. Ids of messages hold
within one feed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal

__all__ = [
    "EVENTS",
    "AskRequired",
    "AssistantDone",
    "CallState",
    "CommandResult",
    "DisplayHintsChanged",
    "Flush",
    "MessageAdded",
    "MessageFinalized",
    "MessagePartAdded",
    "MessagePartUpdated",
    "MessageStarted",
    "Part",
    "PickerOpen",
    "SessionRestored",
    "SlashCommandHandled",
    "SpinnerMessage",
    "StatusChanged",
    "SyntheticInjected",
    "Tag",
    "TodoEditRequested",
    "ToolConfirmRequired",
    "ToolOutputDelta",
    "UiEvent",
    "UiMessage",
    "UserMessagesProcessed",
    "WaitingForInput",
]

CallState = Literal["pending", "running", "complete", "error"]


class Tag(StrEnum):
    MESSAGE = "message"
    STATUS = "status"
    TOOL = "tool"
    DIALOG = "dialog"
    SESSION = "session"
    CONTROL = "control"


@dataclass(frozen=True)
class Part:
    """A piece of a message. `state` and what follows is of a tool call alone; `text` is then what it gave."""

    kind: Literal["text", "thinking", "tool_call"]
    text: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    state: CallState | None = None


@dataclass(frozen=True)
class UiMessage:
    """`is_partial`: it was cut, and with no parts it is taken back. A `notice` is for people alone."""

    id: str
    role: Literal["user", "assistant", "notice"]
    parts: tuple[Part, ...] = ()
    is_partial: bool = False
    is_error: bool = False


class UiEvent:
    """What all of them are."""

    tag: ClassVar[Tag]


# --- messages ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class MessageAdded(UiEvent):
    """A message that comes whole: of a person, or a notice."""

    tag = Tag.MESSAGE
    message: UiMessage


@dataclass(frozen=True)
class MessageStarted(UiEvent):
    tag = Tag.MESSAGE
    message_id: str


@dataclass(frozen=True)
class MessagePartAdded(UiEvent):
    """`index` counts the parts of this message from 0."""

    tag = Tag.MESSAGE
    message_id: str
    index: int
    part: Part


@dataclass(frozen=True)
class MessagePartUpdated(UiEvent):
    """`delta` comes behind its text; with a `state` a tool call has come that far, and `delta` is what it gave."""

    tag = Tag.MESSAGE
    message_id: str
    index: int
    delta: str = ""
    state: CallState | None = None


@dataclass(frozen=True)
class MessageFinalized(UiEvent):
    tag = Tag.MESSAGE
    message: UiMessage


# --- what goes on -----------------------------------------------------------------------------


@dataclass(frozen=True)
class StatusChanged(UiEvent):
    """`open_requests` are the questions that wait for an answer: others are settled."""

    tag = Tag.STATUS
    state: str
    turn_id: str = ""
    step_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    queued: int = 0
    open_requests: tuple[str, ...] = ()


@dataclass(frozen=True)
class DisplayHintsChanged(UiEvent):
    """Settings that were changed, as a JSON merge patch: the model, the mode, what is asked."""

    tag = Tag.STATUS
    patch: dict[str, Any]


@dataclass(frozen=True)
class AssistantDone(UiEvent):
    tag = Tag.STATUS
    turn_id: str
    stop: str


@dataclass(frozen=True)
class WaitingForInput(UiEvent):
    tag = Tag.STATUS


@dataclass(frozen=True)
class UserMessagesProcessed(UiEvent):
    """What was said has become part of the conversation."""

    tag = Tag.STATUS
    message_ids: tuple[str, ...]


@dataclass(frozen=True)
class SpinnerMessage(UiEvent):
    """What is being waited for; empty: nothing any more."""

    tag = Tag.STATUS
    text: str


@dataclass(frozen=True)
class SyntheticInjected(UiEvent):
    """Something was said to the model that no person has typed."""

    tag = Tag.STATUS
    kind: str
    text: str


# --- tools and questions ----------------------------------------------------------------------


@dataclass(frozen=True)
class ToolOutputDelta(UiEvent):
    tag = Tag.TOOL
    tool_call_id: str
    text: str


@dataclass(frozen=True)
class ToolConfirmRequired(UiEvent):
    """May this call run? Answered with one of `options`, under this id."""

    tag = Tag.TOOL
    request_id: str
    tool_name: str
    arguments: dict[str, Any]
    reason: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class AskRequired(UiEvent):
    """A question to the person. Answered with a text; with one of `options` where there are any."""

    tag = Tag.DIALOG
    request_id: str
    question: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class TodoEditRequested(UiEvent):
    """The person may change this list. Answered with the list as JSON."""

    tag = Tag.DIALOG
    request_id: str
    todos: tuple[str, ...]


# --- the session, and the interface itself ----------------------------------------------------


@dataclass(frozen=True)
class SessionRestored(UiEvent):
    """A session goes on: `action` is started, resumed or forked."""

    tag = Tag.SESSION
    session_id: str
    action: str
    cwd: str


@dataclass(frozen=True)
class SlashCommandHandled(UiEvent):
    tag = Tag.SESSION
    line: str
    is_known: bool


@dataclass(frozen=True)
class CommandResult(UiEvent):
    tag = Tag.SESSION
    line: str
    text: str
    is_error: bool = False


@dataclass(frozen=True)
class PickerOpen(UiEvent):
    """The person chooses one of `items`. Answered with it."""

    tag = Tag.CONTROL
    request_id: str
    title: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Flush(UiEvent):
    """A barrier: answered by whoever has dealt with everything before it."""

    tag = Tag.CONTROL
    request_id: str


EVENTS: tuple[type[UiEvent], ...] = (
    *(MessageAdded, MessageStarted, MessagePartAdded, MessagePartUpdated, MessageFinalized),
    *(StatusChanged, DisplayHintsChanged, AssistantDone, WaitingForInput, UserMessagesProcessed),
    *(SpinnerMessage, SyntheticInjected),
    *(ToolOutputDelta, ToolConfirmRequired),
    *(AskRequired, TodoEditRequested),
    *(SessionRestored, SlashCommandHandled, CommandResult),
    *(PickerOpen, Flush),
)
