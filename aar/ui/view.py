"""From a session's journal to the events of interfaces. Fold after fold it says the same: it decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

from aar.journal.state import Session
from aar.messages.events import (
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Compacted,
    ConfigChanged,
    ErrorEvent,
    Event,
    Notice,
    PromptQueued,
    PromptsCleared,
    ProviderMeta,
    ProviderSwitchEvent,
    ReasoningBlock,
    Recorded,
    SessionEvent,
    StepRestarted,
    StreamChunk,
    ToolCall,
    ToolOutput,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from aar.messages.kinds import is_for_people, rule_of
from aar.ui.events import (
    AssistantDone,
    CallState,
    DisplayHintsChanged,
    MessageAdded,
    MessageFinalized,
    MessagePartAdded,
    MessagePartUpdated,
    MessageStarted,
    Part,
    SessionRestored,
    SpinnerMessage,
    StatusChanged,
    SyntheticInjected,
    ToolConfirmRequired,
    ToolOutputDelta,
    UiEvent,
    UiMessage,
    UserMessagesProcessed,
    WaitingForInput,
)

__all__ = ["UiView"]


class _Answer:
    """The message of the model that is coming in."""

    def __init__(self, message_id: str) -> None:
        self.id = message_id
        self.parts: list[Part] = []

    def add(self, part: Part) -> UiEvent:
        self.parts.append(part)
        return MessagePartAdded(self.id, len(self.parts) - 1, part)

    def grow(self, part: Part) -> UiEvent:
        """Text that belongs to the last part, if that is of this kind."""
        if not self.parts or self.parts[-1].kind != part.kind:
            return self.add(part)
        last = self.parts[-1]
        self.parts[-1] = Part(last.kind, last.text + part.text)
        return MessagePartUpdated(self.id, len(self.parts) - 1, part.text)


class UiView:
    """Sees records in order, hints among them, and gives what interfaces are told of each."""

    def __init__(self, session_id: str) -> None:
        self._fold = Session(session_id)
        self._answer: _Answer | None = None
        self._begun = 0  # messages of the model, for their ids
        self._calls: dict[str, tuple[str, int]] = {}  # message and part of each call without a result

    def see(self, record: Recorded) -> Iterator[UiEvent]:
        """At most a handful."""
        event = record.event
        if record.seq:
            self._fold.apply(event, seq=record.seq, turn_id=record.turn_id)
        match event:
            case StreamChunk() | StepRestarted() | ReasoningBlock() | ToolCall() | AssistantMessage():
                yield from self._answering(event)
            case ToolStarted() | ToolOutput() | ToolResult():
                yield from self._of_call(event)
            case ApprovalRequested():
                options = tuple(event.options)
                yield ToolConfirmRequired(
                    event.tool_call_id, event.tool_name, dict(event.arguments), event.reason, options
                )
                yield self._status()
            case UserMessage():
                yield from self._said(event)
            case ErrorEvent():
                yield MessageAdded(UiMessage(event.id, "notice", (Part("text", event.message),), is_error=True))
            case Notice(kind="retry"):
                yield SpinnerMessage(event.text)
            case Notice() if not rule_of(event).is_stored:
                yield SyntheticInjected(_why(event), event.text)
            case Notice() if event.text:
                yield MessageAdded(UiMessage(event.id, "notice", (Part("text", event.text),)))
            case _:
                yield from self._frame(event, record.turn_id)

    def _frame(self, event: Event, turn_id: str) -> Iterator[UiEvent]:
        match event:
            case SessionEvent():
                yield SessionRestored(self._fold.session_id, event.action, str(event.data.get("cwd", "")))
                yield self._status()
                yield WaitingForInput()
            case ConfigChanged():
                yield DisplayHintsChanged(dict(event.patch))
            case ProviderSwitchEvent():
                yield DisplayHintsChanged({"provider": {"name": event.to_provider, "model": event.to_model}})
            case Compacted():
                yield SyntheticInjected("compacted", event.summary)
            case TurnStarted() | ProviderMeta() | ApprovalResolved() | PromptQueued() | PromptsCleared():
                yield self._status()
            case TurnEnded():
                yield from self._taken_back()
                yield AssistantDone(turn_id, event.stop)
                yield self._status()
                if not self._fold.queued:
                    yield WaitingForInput()

    def _status(self) -> StatusChanged:
        fold = self._fold
        return StatusChanged(
            state=str(fold.state),
            turn_id=fold.turn_id,
            step_count=fold.step_count,
            input_tokens=fold.total_input_tokens,
            output_tokens=fold.total_output_tokens,
            queued=len(fold.queued),
            open_requests=tuple(fold.open_questions),
        )

    def _said(self, event: UserMessage) -> Iterator[UiEvent]:
        if not is_for_people(event) or "injector" in event.data:
            yield SyntheticInjected(_why(event), event.content)
            return
        said = str(event.data.get("said", event.content))
        yield MessageAdded(UiMessage(event.id, "user", (Part("text", said),)))
        yield UserMessagesProcessed((event.id,))

    # --- the model's message ---

    def _answering(self, event: Event) -> Iterator[UiEvent]:
        if isinstance(event, StepRestarted):
            yield from self._taken_back()
            return
        if self._answer is None:
            self._begun += 1
            self._answer = _Answer(f"{self._fold.session_id}.{self._begun}")
            yield MessageStarted(self._answer.id)
        answer = self._answer
        match event:
            case StreamChunk():
                if event.reasoning_text:
                    yield answer.grow(Part("thinking", event.reasoning_text))
                if event.text:
                    yield answer.grow(Part("text", event.text))
            case ReasoningBlock():
                if event.content and not any(part.kind == "thinking" for part in answer.parts):
                    yield answer.add(Part("thinking", event.content))
            case ToolCall():
                arguments = dict(event.arguments)
                yield answer.add(Part("tool_call", "", event.tool_call_id, event.tool_name, arguments, "pending"))
                self._calls[event.tool_call_id] = (answer.id, len(answer.parts) - 1)
            case AssistantMessage():
                yield MessageFinalized(self._whole(answer, event))
                self._answer = None

    def _whole(self, answer: _Answer, event: AssistantMessage) -> UiMessage:
        """The parts as they stand; text that was streamed otherwise, or not at all, is that of the fact."""
        parts = list(answer.parts)
        streamed = "".join(part.text for part in parts if part.kind == "text")
        if event.content and streamed.strip() != event.content.strip():
            places = [at for at, part in enumerate(parts) if part.kind == "text"]
            for at in places[1:]:
                parts[at] = Part("text")
            if places:
                parts[places[0]] = Part("text", event.content)
            else:
                parts.append(Part("text", event.content))
        return UiMessage(answer.id, "assistant", tuple(parts), is_partial=bool(event.data.get("partial")))

    def _taken_back(self) -> Iterator[UiEvent]:
        """What was said so far does not count."""
        if self._answer is not None:
            yield MessageFinalized(UiMessage(self._answer.id, "assistant", is_partial=True))
            self._answer = None

    # --- its calls ---

    def _of_call(self, event: ToolStarted | ToolOutput | ToolResult) -> Iterator[UiEvent]:
        place = self._calls.get(event.tool_call_id)
        match event:
            case ToolOutput():
                if event.text:
                    yield ToolOutputDelta(event.tool_call_id, event.text)
            case ToolStarted() if place is not None:
                yield MessagePartUpdated(*place, state="running")
            case ToolResult() if place is not None:
                del self._calls[event.tool_call_id]
                state: CallState = "error" if event.is_error else "complete"
                yield MessagePartUpdated(*place, event.output, state)


def _why(event: UserMessage | Notice) -> str:
    """Who has said it to the model, or for what reason."""
    return str(event.data.get("injector") or event.data.get("reason") or event.data.get("kind") or event.type)
