"""The messages of a session for a purpose. Whoever has one of these purposes takes the view that is named after it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aar.journal.state import Session, is_rewind
from aar.journal.transcript import Transcript
from aar.messages.events import (
    AssistantMessage,
    Compacted,
    ErrorEvent,
    Event,
    Notice,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from aar.messages.kinds import is_for_people, rule_of
from aar.messages.provider import NeutralMessage

__all__ = ["Messages", "Shown", "without_long_results"]


class Shown(NamedTuple):
    """Something to show: under its title, or as a divider."""

    title: str
    text: str
    is_divider: bool = False


class Messages:
    """Facts in order, and what is said to the model without being stored. Never changes."""

    def __init__(self, facts: Iterable[Event] = (), live: Iterable[Event] = ()) -> None:
        self._all: tuple[Event, ...] = (*facts, *live)

    @classmethod
    def of(cls, session: Session, live: Iterable[Event] = ()) -> Messages:
        return cls(session.events, live)

    def for_llm(self) -> list[NeutralMessage]:
        """What a model is sent, as every provider can express it: no empty answers, and each call has its result."""
        return self._for_model(also_once=True)

    def for_compaction(self, longest_result: int) -> list[NeutralMessage]:
        """What a summary is made of: what stays, with no more than so many characters of each result of a tool."""
        return without_long_results(self._for_model(also_once=False), longest_result)

    def _for_model(self, *, also_once: bool) -> list[NeutralMessage]:
        """Facts keep their places: a summary says up to which one it goes."""
        transcript = Transcript()
        for seq, event in enumerate(self._all, 1):
            if _is_for_model(event, also_once=also_once):
                transcript.apply(event, seq=seq)
        return transcript.messages()

    def for_save(self) -> list[Event]:
        """What is stored."""
        return [event for event in self._all if rule_of(event).is_stored]

    def for_export(self) -> str:
        """The conversation as text, for people."""
        shown = (_shown(event) for event in self._all if rule_of(event).in_text and is_for_people(event))
        return "\n".join(
            f"{one.text}\n" if one.is_divider else f"## {one.title}\n\n{one.text}\n" for one in shown if one is not None
        )

    def for_structured_export(self) -> list[dict[str, Any]]:
        """The conversation as plain data, for programs."""
        return [event.dump() for event in self._all if rule_of(event).in_data]

    def for_display(self) -> list[Shown]:
        """What is shown, in order."""
        shown = (_shown(event) for event in self._all if is_for_people(event))
        return [one for one in shown if one is not None]


def _is_for_model(event: Event, *, also_once: bool) -> bool:
    to_model = rule_of(event).to_model
    changes_all = isinstance(event, Compacted) or is_rewind(event)
    return changes_all or to_model == "always" or (to_model == "once" and also_once)


def _shown(event: Event) -> Shown | None:
    match event:
        case UserMessage():
            return Shown(str(event.data.get("injector", "User")), event.content)
        case AssistantMessage() | ReasoningBlock() if event.content:
            return Shown("Assistant" if isinstance(event, AssistantMessage) else "Thinking", event.content)
        case ToolCall():
            return Shown(f"Tool: {event.tool_name}", json.dumps(event.arguments, ensure_ascii=False, indent=2))
        case ToolResult():
            return Shown(f"Result: {event.tool_name}", event.output)
        case Notice() if event.text:
            return Shown("Notice", event.text, is_divider=rule_of(event).shown == "divider")
        case ErrorEvent():
            return Shown("Error", event.message)
        case _:
            return None


def without_long_results(messages: Iterable[NeutralMessage], longest: int) -> list[NeutralMessage]:
    """The same messages with the results of tools cut to so many characters, and a mark where something is missing."""
    return [{"role": one["role"], "content": _cut(one["content"], longest)} for one in messages]


def _cut(content: str | Sequence[dict[str, Any]], longest: int) -> Any:
    if isinstance(content, str):
        return content
    return [_cut_block(block, longest) for block in content]


def _cut_block(block: dict[str, Any], longest: int) -> dict[str, Any]:
    text = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(text, str) or len(text) <= longest:
        return block
    return {**block, "content": f"{text[:longest]}[...]" if longest else "[...]"}
