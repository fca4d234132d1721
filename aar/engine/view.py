"""The engine's events as a view of a journal: records in, events out."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from aar.engine.events import Content, EngineEvent, EngineMessage, EventKind
from aar.messages.content import TextBlock
from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    ProviderMeta,
    ReasoningBlock,
    Recorded,
    StepRestarted,
    StopReason,
    StreamChunk,
    ToolCall,
    ToolOutput,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from aar.messages.provider import Usage

__all__ = ["View", "EngineEvents"]

_WHOLE = (StopReason.END_TURN, StopReason.TOOL_USE, StopReason.MAX_TOKENS, None)


class EngineEvents:
    """The events of what is read, at the reader's own pace; `known` is what came before it.

    with session.follow(after=session.seq) as records:
        async for event in EngineEvents(records, known=session.records()): ...

    Nobody waits for this reader. One that is slow gets several updates merged into one, and every other event.
    """

    def __init__(self, records: AsyncIterator[Recorded], *, known: Iterable[Recorded] = ()) -> None:
        self._records = records
        self._view = View(known)
        self._ready: deque[EngineEvent] = deque()

    def __aiter__(self) -> EngineEvents:
        return self

    async def __anext__(self) -> EngineEvent:
        while not self._ready:
            self._ready.extend(self._view.take(await self._records.__anext__()))
        return self._ready.popleft()


class View:
    """What the engine shows of one session. `messages` only grows."""

    def __init__(self, known: Iterable[Recorded] = ()) -> None:
        self.messages: list[EngineMessage] = []
        self.running: dict[str, ToolCall] = {}  # tools that have started and have no result, by call id
        self.is_streaming = False
        self.error = ""
        self._seq = 0
        self.is_running = False
        self._is_open = False  # a turn of the engine: a step
        self._answer: EngineMessage | None = None  # that of the open turn, when it is whole
        self._cut: EngineMessage | None = None  # an answer that waits for why it was cut
        self._has_begun = False  # the message that the model is about to say
        self._parts: list[_Part] = []  # of the message that the model is saying, in order
        self._blocks: list[ReasoningBlock] = []
        self._calls: dict[str, ToolCall] = {}
        self._usage = Usage()
        for record in known:
            self.take(record)

    @property
    def streaming(self) -> EngineMessage | None:
        """The answer so far, while the model is at it."""
        return self._so_far() if self._has_begun else None

    # --- what the engine knows before its journal does ---

    def close_turn(self) -> list[EngineEvent]:
        """The step is over: nothing of it can come any more."""
        return list(self._close_turn())

    def open_turn(self) -> list[EngineEvent]:
        """The next step begins."""
        return list(self._open_turn())

    def give_up(self, error: str) -> list[EngineEvent]:
        """The run is over, and its journal cannot say so."""
        return [*self._failed(ErrorEvent(message=error)), *self._end()] if self.is_running else []

    # --- facts and hints ---

    def take(self, record: Recorded) -> list[EngineEvent]:
        """What this fact or hint means, often nothing."""
        self._seq = record.seq or self._seq
        return list(self._told(record))

    def _told(self, record: Recorded) -> Iterator[EngineEvent]:
        match record.event:
            case TurnStarted():
                self.error, self._usage, self.is_running = "", Usage(), True
                yield self._event("agent_start")
            case TurnEnded():
                yield from self._end()
            case UserMessage() as said:
                yield from self._close_turn()
                parts: tuple[Content, ...] = tuple(said.parts) or (TextBlock(text=said.content),)
                yield from self._whole(EngineMessage("user", parts))
            case ErrorEvent() as error if not error.data.get("near_budget"):
                yield from self._failed(error)
            case StreamChunk() | StepRestarted() | ProviderMeta() | ReasoningBlock() | AssistantMessage():
                yield from self._model(record.event)
            case ToolCall() as call:
                self._calls[call.tool_call_id] = call
            case ToolStarted() | ToolOutput() | ToolResult():
                yield from self._tool(record.event)

    def _event(self, kind: EventKind, **fields: object) -> EngineEvent:
        return EngineEvent(kind, self._seq, **fields)  # type: ignore[arg-type]

    def _whole(self, message: EngineMessage) -> Iterator[EngineEvent]:
        """A message that comes in one piece."""
        yield self._event("message_start", message=message)
        yield from self._finish(message)

    def _finish(self, message: EngineMessage) -> Iterator[EngineEvent]:
        self.messages.append(message)
        yield self._event("message_end", message=message)

    # --- turns ---

    def _open_turn(self) -> Iterator[EngineEvent]:
        if self._answer is not None:  # nobody has said that its step is over
            yield from self._close_turn()
        if self.is_running and not self._is_open:
            self._is_open = True
            yield self._event("turn_start")

    def _close_turn(self) -> Iterator[EngineEvent]:
        yield from self._end_message("")
        answer, self._answer = self._answer, None
        if self._is_open:
            self._is_open = False
            yield self._event("turn_end", message=answer)
        self._calls = {}
        self.running = {}

    def _end(self) -> Iterator[EngineEvent]:
        yield from self._close_turn()
        self.is_running = False
        yield self._event("agent_end", messages=tuple(self.messages))

    def _failed(self, error: ErrorEvent) -> Iterator[EngineEvent]:
        self.error = error.message
        yield from self._end_message(error.message)
        yield self._event("agent_error", error=error.message)

    # --- the model ---

    def _model(self, event: object) -> Iterator[EngineEvent]:
        match event:
            case StreamChunk():
                self.is_streaming = not event.finished
                if event.text or event.reasoning_text:
                    yield from self._open_turn()
                    yield from self._update(event)
            case StepRestarted():
                self._parts = []
            case ProviderMeta():
                yield from self._open_turn()
                self._usage = Usage.of(event.usage)
            case ReasoningBlock():
                self._blocks.append(event)
            case AssistantMessage():
                yield from self._open_turn()
                yield from self._answered(event)

    def _update(self, chunk: StreamChunk) -> Iterator[EngineEvent]:
        if not self._has_begun:
            self._has_begun = True
            yield self._event("message_start", message=EngineMessage("assistant"))
        if chunk.reasoning_text:
            self._say(chunk.reasoning_text, is_thought=True)
            yield self._event("message_update", message=self._so_far(), delta=chunk.reasoning_text, is_thinking=True)
        if chunk.text:
            self._say(chunk.text, is_thought=False)
            yield self._event("message_update", message=self._so_far(), delta=chunk.text)

    def _say(self, text: str, *, is_thought: bool) -> None:
        if self._parts and self._parts[-1].is_thought == is_thought:
            text = self._parts.pop().text + text
        self._parts.append(_Part(text, is_thought))

    def _so_far(self) -> EngineMessage:
        return EngineMessage("assistant", tuple(part.content() for part in self._parts))

    def _answered(self, event: AssistantMessage) -> Iterator[EngineEvent]:
        self.is_streaming = False
        contents: tuple[Content, ...] = (*_in_order(self._blocks, event.content), *self._calls.values())
        message = EngineMessage("assistant", contents, event.stop_reason, self._usage)
        if not self._has_begun:
            self._has_begun = True
            yield self._event("message_start", message=EngineMessage("assistant"))
        if event.stop_reason in _WHOLE and not event.data.get("partial"):
            yield from self._end_answer(message)
        else:
            self._cut = message  # its error is the next fact

    def _end_message(self, error: str) -> Iterator[EngineEvent]:
        """A message that was begun ends, whatever became of it."""
        if self._has_begun:
            cut = self._cut or replace(self._so_far(), stop_reason=StopReason.ERROR, usage=self._usage)
            yield from self._end_answer(replace(cut, error=error))

    def _end_answer(self, message: EngineMessage) -> Iterator[EngineEvent]:
        self._answer, self._cut, self._has_begun, self.is_streaming = message, None, False, False
        self._parts = []
        self._blocks, self._usage = [], Usage()
        yield from self._finish(message)

    # --- tools ---

    def _tool(self, event: ToolStarted | ToolOutput | ToolResult) -> Iterator[EngineEvent]:
        call = self._calls.get(event.tool_call_id) or ToolCall(tool_call_id=event.tool_call_id)
        match event:
            case ToolStarted():
                if "arguments" in event.data:  # a hook changed what the model had asked for
                    call = call.model_copy(update={"arguments": event.data["arguments"]})
                self.running[call.tool_call_id] = call
                yield self._event("tool_execution_start", tool_call=call)
            case ToolOutput() if event.text:
                call = self.running.get(call.tool_call_id, call)
                yield self._event("tool_execution_update", tool_call=call, delta=event.text)
            case ToolResult():
                started = self.running.pop(event.tool_call_id, None)
                if started is not None:
                    yield self._event("tool_execution_end", tool_call=started, result=event)
                yield from self._whole(_result(event))


class _Part(NamedTuple):
    text: str
    is_thought: bool

    def content(self) -> Content:
        if self.is_thought:
            return ReasoningBlock(id="", timestamp=0.0, content=self.text)
        return TextBlock(text=self.text)


def _text(text: str) -> tuple[TextBlock, ...]:
    return (TextBlock(text=text),) if text else ()


def _in_order(blocks: Iterable[ReasoningBlock], text: str) -> Iterator[Content]:
    """Thoughts where they came, as far as it is on record, and the text around them."""
    at = 0
    for block in blocks:
        before = block.data.get("text_before")
        until = min(max(before if isinstance(before, int) else 0, at), len(text))
        yield from _text(text[at:until])
        yield block
        at = until
    yield from _text(text[at:])


def _result(event: ToolResult) -> EngineMessage:
    return EngineMessage(
        "tool_result", (TextBlock(text=event.output),), tool_call_id=event.tool_call_id, is_error=event.is_error
    )
