"""What happens in a session: facts, which are kept, and hints, which are only live.

A fact is written to the session's journal before anybody sees it. A hint is a live fragment; the fact that
follows contains all of it, so a reader that misses hints misses nothing.

A new thing that can happen is one class here and one branch in `journal/state.py`.
"""

import time
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from aar.messages.base import Message, new_call_id, new_event_id
from aar.messages.content import ContentBlock, text_of_parts

__all__ = [
    "AgentState",
    "AnyEvent",
    "ApprovalRequested",
    "ApprovalResolved",
    "AssistantMessage",
    "Compacted",
    "ConfigChanged",
    "ErrorEvent",
    "Event",
    "EventType",
    "HINTS",
    "Notice",
    "PromptQueued",
    "PromptsCleared",
    "ProviderMeta",
    "ProviderSwitchEvent",
    "ReasoningBlock",
    "Recorded",
    "SessionEvent",
    "StepRestarted",
    "StopReason",
    "StreamChunk",
    "ToolCall",
    "ToolOutput",
    "ToolResult",
    "ToolStarted",
    "TurnEnded",
    "TurnStarted",
    "TurnStop",
    "UserMessage",
]


class EventType(StrEnum):
    """The `type` tags. The first ten are the public event model, the rest are Aar's own facts and hints."""

    USER_MESSAGE = "user_message"
    ASSISTANT_MESSAGE = "assistant_message"
    STREAM_CHUNK = "stream_chunk"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    REASONING = "reasoning"
    PROVIDER_META = "provider_meta"
    ERROR = "error"
    SESSION = "session"
    PROVIDER_SWITCH = "provider_switch"
    PROMPT_QUEUED = "prompt_queued"
    PROMPTS_CLEARED = "prompts_cleared"
    TURN_STARTED = "turn_started"
    TURN_ENDED = "turn_ended"
    TOOL_STARTED = "tool_started"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_RESOLVED = "approval_resolved"
    CONFIG_CHANGED = "config_changed"
    COMPACTED = "compacted"
    NOTICE = "notice"
    TOOL_OUTPUT = "tool_output"
    STEP_RESTARTED = "step_restarted"


class StopReason(StrEnum):
    """Why the model stopped, as an `assistant_message` carries it."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    TIMEOUT = "timeout"
    MAX_STEPS = "max_steps"
    BUDGET_EXCEEDED = "budget_exceeded"
    CANCELLED = "cancelled"
    ERROR = "error"


class AgentState(StrEnum):
    """What a session is doing, or how its last turn ended."""

    IDLE = "idle"
    RUNNING = "running"
    WAITING_FOR_TOOL = "waiting_for_tool"
    WAITING_FOR_INPUT = "waiting_for_input"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    MAX_STEPS = "max_steps"
    BUDGET_EXCEEDED = "budget_exceeded"


TurnStop = Literal[
    "end_turn",
    "max_tokens",
    "cancelled",
    "timed_out",
    "max_steps",
    "budget_exceeded",
    "refused",
    "error",
    "interrupted",
]


class Event(Message):
    """`timestamp` is Unix time in seconds; `data` holds free annotations."""

    id: str = Field(default_factory=new_event_id)
    type: str
    timestamp: float = Field(default_factory=time.time)
    data: dict[str, Any] = Field(default_factory=dict)  # a default of `{}` would be copied deeply for each event


# --- facts of the public event model ----------------------------------------------------------


class UserMessage(Event):
    """`data.kind` is prompt, steering, follow_up or internal; an internal one is not for people."""

    type: Literal["user_message"] = "user_message"
    content: str = ""
    parts: list[ContentBlock] = []

    @property
    def is_multimodal(self) -> bool:
        return bool(self.parts)

    @classmethod
    def of(cls, prompt: str | list[Any], **fields: Any) -> "UserMessage":
        """A message from text or from content blocks (models or plain dicts)."""
        if isinstance(prompt, str):
            return cls(content=prompt, **fields)
        message = cls(parts=prompt, **fields)
        return message.model_copy(update={"content": text_of_parts(list(message.parts))})


class AssistantMessage(Event):
    """`data.partial` is true for text that was cut by a cancel, a time-out or an error."""

    type: Literal["assistant_message"] = "assistant_message"
    content: str = ""
    stop_reason: StopReason | None = None


class ToolCall(Event):
    type: Literal["tool_call"] = "tool_call"
    tool_name: str = ""
    tool_call_id: str = Field(default_factory=new_call_id)
    arguments: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_id(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if values.get("tool_call_id") or values.get("call_id"):
            if "call_id" in values and not values.get("tool_call_id"):
                values = {**values, "tool_call_id": values["call_id"]}
            return values
        return {**values, "tool_call_id": new_call_id()}


class ToolResult(Event):
    """`duration_ms` is the wall time of the tool itself, without any wait for an approval."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str = ""
    tool_name: str = ""
    output: str = ""
    is_error: bool = False
    duration_ms: float = 0.0


class ReasoningBlock(Event):
    """What the model thought. `data.signature` and the like are what its provider wants to see again.

    `data.text_before`: so many characters of the answer came before it, where they came before it.
    """

    type: Literal["reasoning"] = "reasoning"
    content: str = ""


class ProviderMeta(Event):
    """One per answered model call. `duration_ms` includes retries."""

    type: Literal["provider_meta"] = "provider_meta"
    provider: str = ""
    model: str = ""
    usage: dict[str, int] = {}
    request_id: str = ""
    duration_ms: float = 0.0


class ErrorEvent(Event):
    """`recoverable` says whether sending the prompt again may work."""

    type: Literal["error"] = "error"
    message: str = ""
    recoverable: bool = True


class SessionEvent(Event):
    """`action` is started, resumed, forked, rewound or renamed; transports add `ended`, which is not stored.

    A rewound session goes on from its first `data.messages` messages; a renamed one has the name `data.name`.
    """

    type: Literal["session"] = "session"
    action: str = ""


class ProviderSwitchEvent(Event):
    type: Literal["provider_switch"] = "provider_switch"
    from_provider: str = ""
    from_model: str = ""
    to_provider: str = ""
    to_model: str = ""


# --- Aar's own facts --------------------------------------------------------------------------


class PromptQueued(Event):
    """A prompt that has to wait. `user_message` repeats it when its turn starts; `data.turn_id` is that turn."""

    type: Literal["prompt_queued"] = "prompt_queued"
    content: str = ""
    parts: list[ContentBlock] = []


class PromptsCleared(Event):
    type: Literal["prompts_cleared"] = "prompts_cleared"
    count: int = 0


class TurnStarted(Event):
    type: Literal["turn_started"] = "turn_started"


class TurnEnded(Event):
    """The last fact of a turn, whatever way it ended. The answer to a `Prompt`."""

    type: Literal["turn_ended"] = "turn_ended"
    stop: TurnStop = "end_turn"


class ToolStarted(Event):
    """The tool may have had an effect from here on. Comes after any approval."""

    type: Literal["tool_started"] = "tool_started"
    tool_call_id: str = ""
    side_effects: list[str] = []


class ApprovalRequested(Event):
    """A question to a human. `options` are the decisions that may be given."""

    type: Literal["approval_requested"] = "approval_requested"
    tool_call_id: str = ""
    tool_name: str = ""
    arguments: dict[str, Any] = {}
    reason: str = ""
    options: list[str] = ["allow", "allow_always", "deny"]


class ApprovalResolved(Event):
    """`key` is what a session-wide decision covers; `by` names who decided (client, timeout, nobody, ...)."""

    type: Literal["approval_resolved"] = "approval_resolved"
    tool_call_id: str = ""
    tool_name: str = ""
    decision: Literal["allow", "deny", "withdrawn", "revoked"] = "deny"
    scope: Literal["once", "session", "project"] = "once"
    by: str = ""
    key: str = ""


class ConfigChanged(Event):
    """`patch` is a JSON merge patch (RFC 7396) over the session's settings, without keys."""

    type: Literal["config_changed"] = "config_changed"
    patch: dict[str, Any] = {}


class Compacted(Event):
    """Everything up to `up_to_seq` is represented by `summary` from now on."""

    type: Literal["compacted"] = "compacted"
    up_to_seq: int = 0
    summary: str = ""


class Notice(Event):
    """Something worth telling that is not an error.

    `kind` is retry, hook_failed, trimmed, journal_recovered, model_chosen, ...
    """

    type: Literal["notice"] = "notice"
    kind: str = ""
    text: str = ""


# --- hints ------------------------------------------------------------------------------------


class StreamChunk(Event):
    """Text since the last chunk. Exactly one with `finished` closes each stream attempt."""

    type: Literal["stream_chunk"] = "stream_chunk"
    text: str = ""
    reasoning_text: str = ""
    finished: bool = False


class ToolOutput(Event):
    """Output of a running tool since the last one. `finished`: done, and waiting for earlier calls."""

    type: Literal["tool_output"] = "tool_output"
    tool_call_id: str = ""
    text: str = ""
    finished: bool = False


class StepRestarted(Event):
    """A retry began: forget the fragments of this step. `data.why` says it to people, if it is no broken connection."""

    type: Literal["step_restarted"] = "step_restarted"


_FACTS = (
    UserMessage
    | AssistantMessage
    | ToolCall
    | ToolResult
    | ReasoningBlock
    | ProviderMeta
    | ErrorEvent
    | SessionEvent
    | ProviderSwitchEvent
    | PromptQueued
    | PromptsCleared
    | TurnStarted
    | TurnEnded
    | ToolStarted
    | ApprovalRequested
    | ApprovalResolved
    | ConfigChanged
    | Compacted
    | Notice
)
HINTS = (StreamChunk, ToolOutput, StepRestarted)
AnyEvent = Annotated[_FACTS | StreamChunk | ToolOutput | StepRestarted, Field(discriminator="type")]


class Recorded(NamedTuple):
    """A place in a journal. Facts count from 1 without gaps; a hint has `seq` 0."""

    seq: int
    turn_id: str
    event: Event
