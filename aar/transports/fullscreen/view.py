"""What the bars show of a session: a fold of its records, for the eye."""

from __future__ import annotations

from aar.messages.events import (
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    ConfigChanged,
    Event,
    PromptQueued,
    PromptsCleared,
    ProviderMeta,
    ProviderSwitchEvent,
    Recorded,
    StreamChunk,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from aar.messages.session import Status

__all__ = ["View"]

_STATES = {"end_turn": "completed", "max_tokens": "completed"}
_STATES |= dict.fromkeys(("refused", "error", "interrupted"), "error")


class View:
    """`state` as the session has it; `queued` holds the prompts that wait, by the turn they will start."""

    def __init__(self) -> None:
        self.state = "idle"
        self.is_streaming = False
        self.turn_id = ""
        self.steps = 0  # of the whole session
        self.turn_steps = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.last_usage: dict[str, int] = {}
        self.cost = 0.0
        self.provider = ""
        self.model = ""
        self.queued: dict[str, PromptQueued] = {}
        self._open_calls: set[str] = set()

    def clear(self) -> None:
        """Another session takes the place of this one."""
        vars(self).update(vars(View()))

    @property
    def is_busy(self) -> bool:
        return bool(self.turn_id)

    def start_from(self, status: Status) -> None:
        """Totals count what was pruned from the journal, too."""
        self.steps = max(self.steps, status.step_count)
        self.input_tokens = max(self.input_tokens, status.input_tokens)
        self.output_tokens = max(self.output_tokens, status.output_tokens)
        self.cost = max(self.cost, status.cost)

    def notice(self, record: Recorded) -> None:
        event = record.event
        match event:
            case StreamChunk():
                self.is_streaming = not event.finished
            case TurnStarted():
                self.turn_id, self.state, self.turn_steps = record.turn_id, "running", 0
                self.queued.pop(record.turn_id, None)
            case TurnEnded():
                self.turn_id, self.is_streaming = "", False
                self.state = _STATES.get(event.stop, event.stop)
            case ProviderMeta():
                self._count(event)
            case AssistantMessage():
                self.is_streaming = False
            case _:
                self._other(event, record.turn_id)

    def _other(self, event: Event, turn_id: str) -> None:
        match event:
            case ToolCall():
                self._open_calls.add(event.tool_call_id)
                self.state = "waiting_for_tool"
            case ToolResult():
                self._open_calls.discard(event.tool_call_id)
                if self.turn_id and not self._open_calls:
                    self.state = "running"
            case ApprovalRequested():
                self.state = "waiting_for_input"
            case ApprovalResolved() if self.turn_id and self._open_calls:
                self.state = "waiting_for_tool"
            case UserMessage():
                self.queued.pop(str(event.data.get("queued_as", turn_id)), None)
            case PromptQueued():
                self.queued[str(event.data.get("turn_id", turn_id))] = event
            case PromptsCleared():
                for name in event.data.get("turn_ids", list(self.queued)):
                    self.queued.pop(name, None)
            case ProviderSwitchEvent():
                self.provider, self.model = event.to_provider, event.to_model
            case ConfigChanged() if "provider" in event.patch:
                self.provider = self.model = ""  # the settings say it now

    def _count(self, meta: ProviderMeta) -> None:
        self.steps += 1
        self.turn_steps += 1
        self.last_usage = meta.usage
        self.input_tokens += meta.usage.get("input_tokens", 0)
        self.output_tokens += meta.usage.get("output_tokens", 0)
        self.cost += float(meta.data.get("cost", 0.0))
        self.provider, self.model = meta.provider or self.provider, meta.model or self.model
