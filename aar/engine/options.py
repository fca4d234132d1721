"""How an engine runs: options, all of which may be left out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, TypeVar

import trio

from aar.engine.events import EngineEvent, EngineMessage
from aar.messages.events import ToolCall, UserMessage
from aar.messages.provider import NeutralMessage
from aar.messages.tools import ToolOutcome

__all__ = ["Options", "QueueMode", "Said", "TurnDone", "ToolExecutionMode", "messages_of"]

T = TypeVar("T")
Maybe: TypeAlias = T | Awaitable[T]
Said = str | UserMessage


class ToolExecutionMode(StrEnum):
    """`batch`: tools marked parallel run side by side, the others alone.

    `parallel`: all run side by side but those marked sequential. `sequential`: one after another, whatever they say.
    """

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    BATCH = "batch"


class QueueMode(StrEnum):
    """How much of a queue is said at a time."""

    ONE_AT_A_TIME = "one_at_a_time"
    ALL = "all"


class TurnDone(NamedTuple):
    """A turn of the engine that is over: the answer, the results of its calls, and all messages."""

    message: EngineMessage | None
    results: tuple[EngineMessage, ...]
    messages: tuple[EngineMessage, ...]


@dataclass(frozen=True)
class Options:
    """Functions may be plain or coroutine functions.

    `before_tool_call(call, signal)` gives a `ToolOutcome` to have that instead of running the tool.
    `after_tool_call(call, outcome, signal)` gives another outcome, or `None` to leave it. `signal` is set once `abort`
    was asked for. `get_steering_messages` and `get_follow_up_messages` are asked where the queues are drained.
    `transform_context` and `get_ephemeral_messages` change one model call and nothing that is stored.
    """

    tool_execution_mode: ToolExecutionMode = ToolExecutionMode.BATCH
    steering_mode: QueueMode = QueueMode.ONE_AT_A_TIME
    followup_mode: QueueMode = QueueMode.ONE_AT_A_TIME
    before_tool_call: Callable[[ToolCall, trio.Event], Maybe[ToolOutcome | None]] | None = None
    after_tool_call: Callable[[ToolCall, ToolOutcome, trio.Event], Maybe[ToolOutcome | None]] | None = None
    on_event: Callable[[EngineEvent], Any] | None = None
    get_steering_messages: Callable[[], Maybe[Sequence[Said]]] | None = None
    get_follow_up_messages: Callable[[], Maybe[Sequence[Said]]] | None = None
    should_stop_after_turn: Callable[[TurnDone], Maybe[bool]] | None = None
    transform_context: Callable[[list[NeutralMessage]], Maybe[list[NeutralMessage]]] | None = None
    get_ephemeral_messages: Callable[[], Maybe[Sequence[Said]]] | None = None

    def __post_init__(self) -> None:
        """Modes may be given by their names. Raises `ValueError` for one that there is none of, and `TypeError`."""
        modes: dict[str, type[StrEnum]] = {
            "tool_execution_mode": ToolExecutionMode,
            "steering_mode": QueueMode,
            "followup_mode": QueueMode,
        }
        for field in fields(self):
            given = getattr(self, field.name)
            if field.name in modes:
                object.__setattr__(self, field.name, _mode(field.name, modes[field.name], given))
            elif given is not None and not callable(given):
                raise TypeError(f"{field.name} must be a function, not {given!r}")


def _mode(name: str, modes: type[StrEnum], given: Any) -> StrEnum:
    try:
        return modes(given)
    except ValueError as error:
        raise ValueError(
            f"{name}: {given!r} is not a valid {modes.__name__}. Use one of: {', '.join(modes)}"
        ) from error


def messages_of(given: Any) -> list[UserMessage]:
    """What was given to be said: one message, several or none. Raises `TypeError` for what is no message."""
    several = [given] if isinstance(given, Said) else given
    if several is None:
        return []
    if not isinstance(several, Iterable) or isinstance(several, Mapping):
        raise TypeError(f"a message is text or a UserMessage, not {given!r}")
    return [_message(one) for one in several]


def _message(given: Any) -> UserMessage:
    if not isinstance(given, Said):
        raise TypeError(f"a message is text or a UserMessage, not {given!r}")
    return UserMessage.of(given) if isinstance(given, str) else given
