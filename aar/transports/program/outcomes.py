"""What came of a turn, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aar.messages.events import AssistantMessage, Event, ToolResult

__all__ = ["response_of", "tool_result_of"]


def response_of(turn: Sequence[Event]) -> str:
    """The last answer, else the last output of a tool. Of this turn alone: an answer to an earlier prompt would pass
    for one to this prompt."""
    for event in reversed(turn):
        if isinstance(event, AssistantMessage) and event.content.strip():
            return event.content
    for event in reversed(turn):
        if isinstance(event, ToolResult) and not event.is_error:
            return event.output
    return ""


def tool_result_of(event: ToolResult) -> dict[str, Any]:
    return {
        "tool_name": event.tool_name,
        "output": event.output,
        "is_error": event.is_error,
        "duration_ms": event.duration_ms,
    }
