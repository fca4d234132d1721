"""`Session`: everything that is known about a conversation, as a fold over its facts.

`Session` is plain data and the caller's own. A running session's actor keeps one, too; after a crash it folds the
journal again, and there is no other recovery code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from aar.journal.store import Header, Stored
from aar.journal.transcript import REWOUND, Transcript
from aar.messages.base import new_event_id, new_session_id
from aar.messages.content import ContentBlock
from aar.messages.events import (
    HINTS,
    AgentState,
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Compacted,
    ConfigChanged,
    ErrorEvent,
    Event,
    PromptQueued,
    PromptsCleared,
    ProviderMeta,
    ReasoningBlock,
    SessionEvent,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from aar.messages.provider import History, NeutralMessage
from aar.messages.settings import merge_settings

__all__ = ["RENAMED", "Session", "Standing", "cut_results", "fork", "is_rewind", "state_after"]

_STATES: dict[str, AgentState] = {
    "end_turn": AgentState.COMPLETED,
    "max_tokens": AgentState.COMPLETED,
    "max_steps": AgentState.MAX_STEPS,
    "timed_out": AgentState.TIMED_OUT,
    "budget_exceeded": AgentState.BUDGET_EXCEEDED,
    "cancelled": AgentState.CANCELLED,
    "refused": AgentState.ERROR,
    "error": AgentState.ERROR,
    "interrupted": AgentState.ERROR,
}
E = TypeVar("E", bound=Event)

RENAMED = "renamed"
"""The action of a `session` fact that gives the session the name `data.name`, or takes it away."""

_OPENINGS = ("started", "resumed", "forked")


def state_after(stop: str) -> AgentState:
    """The state of a session whose last turn stopped for this reason."""
    return _STATES[stop]


@dataclass
class Standing:
    """Decisions that hold for the rest of the session: approval keys, and entries such as `bash:git *`.

    `tools` says which tool each key is about.
    """

    allowed: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    entries: list[str] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)

    def apply(self, fact: ApprovalResolved) -> None:
        if fact.decision == "revoked":
            self._revoke(fact.key or fact.tool_name)
        elif fact.scope != "session":
            return
        elif not fact.tool_call_id:
            self.entries.append(fact.key)
        elif fact.decision in ("allow", "deny"):
            self.allowed.discard(fact.key)
            self.denied.discard(fact.key)
            (self.allowed if fact.decision == "allow" else self.denied).add(fact.key)
            self.tools[fact.key] = fact.tool_name

    def as_facts(self) -> list[Event]:
        """Facts that give another session the same decisions."""

        def fact(key: str, decision: Literal["allow", "deny"], call: str = "forked") -> ApprovalResolved:
            tool = self.tools.get(key, "")
            return ApprovalResolved(tool_call_id=call, tool_name=tool, decision=decision, scope="session", key=key)

        return [
            *(fact(entry, "allow", call="") for entry in self.entries),
            *(fact(key, "allow") for key in sorted(self.allowed)),
            *(fact(key, "deny") for key in sorted(self.denied)),
        ]

    def _revoke(self, name: str) -> None:
        """Everything about this tool, or this one key or entry."""

        def kept(key: str) -> bool:
            return name not in (key, self.tools.get(key), key.partition(":")[0])

        self.allowed = {key for key in self.allowed if kept(key)}
        self.denied = {key for key in self.denied if kept(key)}
        self.entries = [entry for entry in self.entries if kept(entry)]


class Session:
    """A conversation: its facts in order and what follows from them.

    `run_id` names the latest turn. `step_count`, the token totals and `total_cost` (US dollars) count over the whole
    life of the session. `metadata` holds `cwd`, `forked_from`, `guardrails` and whatever an application keeps there.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        run_id: str | None = None,
        trace_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id or new_session_id()
        self.run_id = run_id or new_event_id()
        self.trace_id = trace_id or new_event_id()
        self.state = AgentState.IDLE
        self.events: list[Event] = []
        self.step_count = 0
        self.metadata: dict[str, Any] = metadata if metadata is not None else {}
        self.total_input_tokens = 0
        self.total_output_tokens = 0
        self.total_cost = 0.0
        self.seq = 0
        self.turn_id = ""  # of the running turn, else empty
        self.patch: dict[str, Any] = {}  # settings changed since the newest `session` fact
        self.standing = Standing()
        self.queued: dict[str, PromptQueued] = {}  # prompts that wait, by the id of the turn they will start
        self.open_calls: dict[str, ToolCall] = {}  # tool calls without a result
        self.open_questions: dict[str, ApprovalRequested] = {}  # approvals without an answer, by call id
        self.transcript = Transcript()

    @property
    def total_tokens(self) -> int:
        return self.total_input_tokens + self.total_output_tokens

    # --- writing ---

    def append(self, events: Event | Iterable[Event]) -> None:
        """Add facts made by the caller. Hints are ignored: they are never part of a history."""
        for event in [events] if isinstance(events, Event) else events:
            if not isinstance(event, HINTS):
                self.apply(event, seq=self.seq + 1)

    def add_user_message(self, prompt: str | list[ContentBlock] | list[dict[str, Any]], **fields: Any) -> UserMessage:
        return self._added(UserMessage.of(prompt, **fields))

    def add_assistant_message(self, content: str, **fields: Any) -> AssistantMessage:
        return self._added(AssistantMessage(content=content, **fields))

    def add_tool_call(self, **fields: Any) -> ToolCall:
        return self._added(ToolCall(**fields))

    def add_tool_result(self, **fields: Any) -> ToolResult:
        return self._added(ToolResult(**fields))

    def increment_step(self) -> int:
        self.step_count += 1
        return self.step_count

    def _added(self, event: E) -> E:
        self.append(event)
        return event

    # --- reading ---

    def to_messages(self) -> list[NeutralMessage]:
        """The conversation as messages that every provider format can express: each tool call has its result."""
        return self.transcript.messages()

    def history(self) -> History:
        """The same as a `History`, which keeps what providers encoded."""
        return self.transcript.history()

    def last_text(self) -> str:
        """The newest non-empty answer, or an empty string."""
        for event in reversed(self.events):
            if isinstance(event, AssistantMessage) and event.content:
                return event.content
        return ""

    def header(self) -> Header:
        """What a store keeps beside the facts."""
        return Header(
            session_id=self.session_id,
            run_id=self.run_id,
            trace_id=self.trace_id,
            state=self.state,
            step_count=self.step_count,
            metadata=deepcopy(self.metadata),
            total_input_tokens=self.total_input_tokens,
            total_output_tokens=self.total_output_tokens,
            total_cost=self.total_cost,
        )

    @classmethod
    def of(cls, stored: Stored) -> Session:
        """Fold what a store holds. Totals continue from the header where old facts have been pruned."""
        header = stored.header
        session = cls(header.session_id, run_id=header.run_id, trace_id=header.trace_id, metadata=dict(header.metadata))
        for record in stored.records:
            session.apply(record.event, seq=record.seq, turn_id=record.turn_id)
        if not any(isinstance(record.event, TurnStarted) for record in stored.records):
            session.state = header.state
        session.continue_totals(header)
        return session

    def continue_totals(self, header: Header) -> None:
        """Totals never go back: where old facts were pruned, the header still counts them."""
        self.step_count = max(self.step_count, header.step_count)
        self.total_input_tokens = max(self.total_input_tokens, header.total_input_tokens)
        self.total_output_tokens = max(self.total_output_tokens, header.total_output_tokens)
        self.total_cost = max(self.total_cost, header.total_cost)

    # --- the fold ---

    def apply(self, event: Event, *, seq: int, turn_id: str = "") -> None:
        """Take in one fact. The whole meaning of the event vocabulary for a session stands here."""
        self.seq = seq
        self.events.append(event)
        self.transcript.apply(event, seq=seq)
        match event:
            case UserMessage():
                self.queued.pop(str(event.data.get("queued_as", turn_id)), None)
            case ToolCall():
                self.open_calls[event.tool_call_id] = event
            case AssistantMessage() if self.open_calls and self.turn_id:
                self.state = AgentState.WAITING_FOR_TOOL
            case ToolResult():
                self._answered(event)
            case ProviderMeta():
                self._count(event)
            case ApprovalRequested():
                if self.turn_id:
                    self.state = AgentState.WAITING_FOR_INPUT
                self.open_questions[event.tool_call_id] = event
            case ApprovalResolved():
                self._resolved(event)
            case ErrorEvent() if event.data.get("near_budget"):
                self.metadata.setdefault("guardrails", {})["near_budget_warned"] = True
            case _:
                self._apply_frame(event, turn_id)

    def _apply_frame(self, event: Event, turn_id: str) -> None:
        match event:
            case TurnStarted():
                self.turn_id = self.run_id = turn_id or new_event_id()
                self.state = AgentState.RUNNING
                self.queued.pop(turn_id, None)
            case TurnEnded():
                self.turn_id = ""
                self.state = state_after(event.stop)
            case SessionEvent():
                self._opened(event)
            case ConfigChanged():
                self.patch = merge_settings(self.patch, event.patch)
                self.metadata.update({key: event.patch[key] for key in ("agent", "mode") if key in event.patch})
            case PromptQueued():
                self.queued[str(event.data.get("turn_id", turn_id))] = event
            case PromptsCleared():
                self._clear(event)
            case Compacted():
                self.metadata["compacted_up_to"] = event.up_to_seq

    def _answered(self, event: ToolResult) -> None:
        self.open_calls.pop(event.tool_call_id, None)
        if self.turn_id and not self.open_calls:
            self.state = AgentState.RUNNING

    def _count(self, event: ProviderMeta) -> None:
        self.step_count += 1
        self.total_input_tokens += event.usage.get("input_tokens", 0)
        self.total_output_tokens += event.usage.get("output_tokens", 0)
        self.total_cost += float(event.data.get("cost", 0.0))

    def _resolved(self, event: ApprovalResolved) -> None:
        self.standing.apply(event)
        self.open_questions.pop(event.tool_call_id, None)
        if self.turn_id and self.open_calls:
            self.state = AgentState.WAITING_FOR_TOOL

    def _opened(self, event: SessionEvent) -> None:
        if event.action in _OPENINGS:
            self.patch = {}
            self.standing = Standing()
        elif event.action == RENAMED:
            self._rename(str(event.data.get("name", "")))
        for name in ("cwd", "forked_from"):
            if name in event.data:
                self.metadata[name] = event.data[name]

    def _rename(self, name: str) -> None:
        """A name stands for the title; without one the next turn finds a title anew."""
        for field_name in ("name", "title"):
            self.metadata.pop(field_name, None)
            if name:
                self.metadata[field_name] = name

    def _clear(self, event: PromptsCleared) -> None:
        for turn_id in event.data.get("turn_ids", list(self.queued)):
            self.queued.pop(turn_id, None)


def cut_results(session: Session, reason: str, outputs: Mapping[str, str] | None = None) -> list[ToolResult]:
    """A result for every call that has none, so that a turn cut here leaves a valid conversation.

    `outputs` is what running tools had said so far, by call id.
    """
    said = outputs or {}
    return [
        ToolResult(
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            output="\n".join(text for text in (said.get(call.tool_call_id, "").rstrip("\n"), reason) if text),
            is_error=True,
            data={"cut": True},
        )
        for call in session.open_calls.values()
    ]


def fork(parent: Session, at_message: int | None = None) -> list[Event]:
    """The facts of a copy of `parent`, or of its first `at_message` messages.

    The first one is a `session` fact that names the parent. Settings and standing decisions come along. A cut never
    leaves a call without its result.
    """
    facts: list[Event] = [SessionEvent(action="forked", data={"forked_from": parent.session_id})]
    if at_message is None:
        return facts + _all_in_force(parent)
    facts += _first_messages(parent, at_message)
    if parent.patch:
        facts.append(ConfigChanged(patch=parent.patch))
    return facts + parent.standing.as_facts()


def _all_in_force(parent: Session) -> list[Event]:
    """Everything but what belongs to the parent alone, and decisions that its newest opening has ended."""
    opened = max((index for index, event in enumerate(parent.events) if _is_opening(event)), default=-1)
    return [
        event
        for index, event in enumerate(parent.events)
        if not isinstance(event, PromptQueued)
        and (not isinstance(event, SessionEvent) or is_rewind(event))
        and (index > opened or not isinstance(event, ConfigChanged | ApprovalResolved))
    ]


def _is_opening(event: Event) -> bool:
    return isinstance(event, SessionEvent) and event.action in _OPENINGS


def is_rewind(event: Event) -> bool:
    """Whether the conversation goes on from an earlier point."""
    return isinstance(event, SessionEvent) and event.action == REWOUND


_SAID = (UserMessage, AssistantMessage, ToolCall, ToolResult, ReasoningBlock, Compacted)


def _first_messages(parent: Session, count: int) -> list[Event]:
    kept: list[Event] = []
    transcript = Transcript()
    is_rewound = any(map(is_rewind, parent.events))
    for seq, event in enumerate(parent.events, start=1):
        if isinstance(event, _SAID) or is_rewind(event):
            transcript.apply(event, seq=seq)
            if len(transcript) > count and not is_rewound:
                break
            kept.append(event)
    if is_rewound:  # what was taken back is part of the copy, which ends where it was asked to
        kept.append(SessionEvent(action=REWOUND, data={"messages": count}))
    copy = Session()
    copy.append(kept)
    return [*kept, *cut_results(copy, "The conversation was forked here, before this tool call was finished.")]
