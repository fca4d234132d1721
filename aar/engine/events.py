"""The eleven events of the engine, and the messages they carry.

One vocabulary inside, another one here: what the engine calls a turn is a step, one model call with its tools, and what
`agent_start` and `agent_end` frame is a turn of the session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from aar.messages.content import ContentBlock
from aar.messages.events import ReasoningBlock, StopReason, ToolCall, ToolResult
from aar.messages.provider import Usage

__all__ = ["EVENT_KINDS", "Content", "EngineEvent", "EngineMessage", "EventKind"]

EventKind = Literal[
    "agent_start",
    "agent_end",
    "agent_error",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)

Content = ContentBlock | ReasoningBlock | ToolCall


@dataclass(frozen=True, slots=True)
class EngineMessage:
    """One message of the conversation. A finished one never changes and stays the same object.

    `contents` of an answer are what the model thought, what it said, and its calls in its order. `error` says what cut
    it. A tool's result has `tool_call_id` and `is_error`.
    """

    role: Literal["user", "assistant", "tool_result"]
    contents: tuple[Content, ...] = ()
    stop_reason: StopReason | None = None
    usage: Usage = field(default_factory=Usage)
    error: str = ""
    tool_call_id: str = ""
    is_error: bool = False

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.contents if part.type == "text")

    @property
    def thinking(self) -> str:
        return "".join(part.content for part in self.contents if isinstance(part, ReasoningBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.contents if isinstance(part, ToolCall))


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """`seq` is the newest fact of the session's journal when this was told.

    | kind | carries |
    | message_start, message_end | `message` |
    | message_update | `message` so far; `delta`, and whether that `is_thinking` |
    | tool_execution_start | `tool_call`, as it is run |
    | tool_execution_update | `tool_call`, `delta` |
    | tool_execution_end | `tool_call`, and the `result` as the model sees it |
    | agent_error | `error` |
    | turn_end | `message`: the answer of this turn, if there was one |
    | agent_end | `messages`: all of them |
    """

    type: EventKind
    seq: int = 0
    message: EngineMessage | None = None
    delta: str = ""
    is_thinking: bool = False
    tool_call: ToolCall | None = None
    result: ToolResult | None = None
    error: str = ""
    messages: tuple[EngineMessage, ...] = ()
