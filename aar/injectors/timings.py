"""When injectors are asked: nine timings, with a protocol for each. An object may be an injector of several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from aar.injectors.injections import (
    AfterResponseInjection,
    AfterToolInjection,
    BeforeChatInjection,
    BeforeCompactionInjection,
    Injection,
    OnErrorInjection,
)
from aar.messages.events import Compacted, Event, ToolCall
from aar.messages.provider import NeutralMessage, ProviderResponse
from aar.messages.settings import AgentConfig
from aar.messages.tools import ToolOutcome

__all__ = [
    "AfterCompaction",
    "AfterResponse",
    "AfterToolExecution",
    "BeforeChat",
    "BeforeCompaction",
    "BeforeToolExecution",
    "Condition",
    "Moment",
    "OnAgentSwitch",
    "OnError",
    "Preamble",
    "Switch",
    "Timing",
    "TransformMessages",
]


class Timing(StrEnum):
    """Each is also the name of the method by which an injector is asked."""

    BEFORE_CHAT = "before_chat"
    AFTER_RESPONSE = "after_response"
    BEFORE_TOOL_EXECUTION = "before_tool_execution"
    AFTER_TOOL_EXECUTION = "after_tool_execution"
    ON_ERROR = "on_error"
    BEFORE_COMPACTION = "before_compaction"
    AFTER_COMPACTION = "after_compaction"
    ON_AGENT_SWITCH = "on_agent_switch"
    TRANSFORM_MESSAGES = "transform_messages"


def _nothing_holds(condition: str) -> bool:
    raise ValueError(f"{condition!r} can only be asked of a session")


@dataclass(frozen=True)
class Moment:
    """Where a session stands. `step` counts the model calls of the turn, the one that comes or runs included.

    `tokens` is about what the conversation takes, `window` what the model can take, 0 for unknown. `environ` has the
    variables that the injector's preamble names. `fired` are the injectors of this session that speak only once and
    have done so. `holds` answers whether a condition such as `context_above:50` does; see `aar.conditions`.
    """

    session_id: str
    cwd: str
    config: AgentConfig
    turn_id: str = ""
    step: int = 0
    tokens: int = 0
    window: int = 0
    tools: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    fired: AbstractSet[str] = frozenset()
    facts_of_turn: Callable[[], Sequence[Event]] = field(default=tuple, repr=False)
    all_facts: Callable[[], Sequence[Event]] = field(default=tuple, repr=False)
    holds: Callable[[str], bool] = field(default=_nothing_holds, repr=False)


class Switch(NamedTuple):
    """The settings before and after another agent, mode or model was chosen."""

    before: AgentConfig
    after: AgentConfig


Condition: TypeAlias = Callable[[Moment], bool | Awaitable[bool]] | str


@dataclass(frozen=True, kw_only=True)
class Preamble:
    """What holds for an injector before it is asked at all.

    `once`: it speaks once in a session, also when that is closed and opened again in between. `when`, a function or a
    condition such as `context_above:50`, says whether it is asked now. `env` names the variables that it may see.
    `timeout` is in seconds.
    """

    name: str = ""
    once: bool = False
    when: Condition | None = None
    env: tuple[str, ...] = ()
    timeout: float = 10.0


@runtime_checkable
class BeforeChat(Protocol):
    async def before_chat(self, at: Moment) -> Injection | BeforeChatInjection | None:
        """Before each step of a turn."""


@runtime_checkable
class AfterResponse(Protocol):
    async def after_response(self, at: Moment, response: ProviderResponse) -> Injection | AfterResponseInjection | None:
        """The model has answered; nothing of it is on record. With a message there is one more step."""


@runtime_checkable
class BeforeToolExecution(Protocol):
    async def before_tool_execution(self, at: Moment, call: ToolCall) -> Mapping[str, Any] | None:
        """Other arguments for the call. Guards, policy and people see what comes out of this."""


@runtime_checkable
class AfterToolExecution(Protocol):
    async def after_tool_execution(
        self, at: Moment, call: ToolCall, outcome: ToolOutcome
    ) -> Injection | AfterToolInjection | None:
        """A call is done, or could not be."""


@runtime_checkable
class OnError(Protocol):
    async def on_error(self, at: Moment, error: Exception) -> Injection | OnErrorInjection | None:
        """A model call has failed for good, and no other model takes over."""


@runtime_checkable
class BeforeCompaction(Protocol):
    async def before_compaction(self, at: Moment) -> Injection | BeforeCompactionInjection | None:
        """The conversation is about to be summarised."""


@runtime_checkable
class AfterCompaction(Protocol):
    async def after_compaction(self, at: Moment, done: Compacted) -> Injection | None:
        """A summary stands for what was said."""


@runtime_checkable
class OnAgentSwitch(Protocol):
    async def on_agent_switch(self, at: Moment, switch: Switch) -> Injection | None:
        """Another agent, mode or model answers from now on."""


@runtime_checkable
class TransformMessages(Protocol):
    async def transform_messages(self, at: Moment, messages: list[NeutralMessage]) -> Sequence[NeutralMessage] | None:
        """Other messages for this one call. Each gets what the one before gave; what is stored stays."""
