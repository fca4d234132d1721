"""Six kinds of messages: who sees one, and for how long. Nobody else looks at what tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    Notice,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)

__all__ = [
    "MATRIX",
    "Kind",
    "Rule",
    "bookmark",
    "display_only",
    "ephemeral",
    "is_for_people",
    "is_put_in",
    "kind_of",
    "metadata",
    "rule_of",
    "synthetic",
]


class Kind(StrEnum):
    """What is not marked as another kind is `normal`, if it was said, `display_only`, if it is told to people, and
    `metadata`.
    """

    NORMAL = "normal"
    SYNTHETIC = "synthetic"
    EPHEMERAL = "ephemeral"
    DISPLAY_ONLY = "display_only"
    BOOKMARK = "bookmark"
    METADATA = "metadata"


class Rule(NamedTuple):
    """`to_model` once: until a model has seen it (synthetic), or for one call, seen or not (ephemeral)."""

    to_model: Literal["always", "once", "never"]
    is_stored: bool
    shown: Literal["text", "divider", "no"]
    in_text: bool
    in_data: bool


MATRIX: Mapping[Kind, Rule] = MappingProxyType(
    {
        Kind.NORMAL: Rule("always", True, "text", True, True),
        Kind.SYNTHETIC: Rule("once", False, "text", False, False),
        Kind.EPHEMERAL: Rule("once", False, "text", False, False),
        Kind.DISPLAY_ONLY: Rule("never", True, "text", True, False),
        Kind.BOOKMARK: Rule("never", True, "divider", True, False),
        Kind.METADATA: Rule("never", True, "no", False, True),
    }
)
"""To the model, stored, shown, exported as text, exported as data."""

_MARKED = {kind.value: kind for kind in Kind if kind is not Kind.NORMAL}
_SAID = (UserMessage, AssistantMessage, ToolCall, ToolResult, ReasoningBlock)


def kind_of(event: Event) -> Kind:
    """The kind of any event."""
    if isinstance(event, Notice):
        return _MARKED.get(event.kind, Kind.DISPLAY_ONLY)
    if isinstance(event, _SAID):
        return _MARKED.get(str(event.data.get("kind", "")), Kind.NORMAL)
    return Kind.DISPLAY_ONLY if isinstance(event, ErrorEvent) else Kind.METADATA


def rule_of(event: Event) -> Rule:
    return MATRIX[kind_of(event)]


def is_for_people(event: Event) -> bool:
    """Whether it is shown: not what Aar itself has said to the model so that it goes on, and no metadata."""
    is_internal = event.data.get("kind") == "internal" or bool(event.data.get("internal"))
    return rule_of(event).shown != "no" and not is_internal


def is_put_in(event: Event) -> bool:
    """Whether it is told to people as a part of the conversation, and not about what goes on at the moment."""
    return isinstance(event, Notice) and event.kind in _MARKED and rule_of(event).shown != "no"


# --- making them ------------------------------------------------------------------------------


def synthetic(text: str, **data: Any) -> UserMessage:
    """For the model, until it has seen it once. Not stored."""
    return UserMessage(content=text, data={**data, "kind": Kind.SYNTHETIC.value})


def ephemeral(text: str, **data: Any) -> UserMessage:
    """For one model call. Not stored."""
    return UserMessage(content=text, data={**data, "kind": Kind.EPHEMERAL.value})


def display_only(text: str, **data: Any) -> Notice:
    """For people, on record."""
    return Notice(kind=Kind.DISPLAY_ONLY.value, text=text, data=data)


def bookmark(label: str) -> Notice:
    """A divider with a label, on record. Its text is the divider, so that whoever shows notices shows one."""
    return Notice(kind=Kind.BOOKMARK.value, text=f"──── {label} ────", data={"label": label})


def metadata(**data: Any) -> Notice:
    """For programs, on record. It has no text."""
    return Notice(kind=Kind.METADATA.value, data=data)
