"""From what happens in a session to what its client is told. Plain data in, plain data out.

Fragments are shown as they come; the fact that contains them is then not shown again. A call is held back for a moment,
because the text that the model said before it is recorded behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aar.display import plain
from aar.messages.base import new_event_id
from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    Notice,
    ReasoningBlock,
    Recorded,
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
from aar.messages.kinds import is_for_people, is_put_in, rule_of
from aar.transports.acp.tool_views import (
    Change,
    asked_content,
    diff,
    kind_of,
    locations_of,
    proposed_change,
    raw_input,
    raw_output,
    result_content,
    title_of,
)

__all__ = ["Shown", "Updates", "as_time", "message_chunk", "title_from"]

TITLE = 60  # characters of a session's title
LONGEST_CHUNK = 256 * 1024  # characters
LIVE_OUTPUT = 4000  # characters of a running tool's output that are shown

Update = dict[str, Any]

_FOR_THOUGHTS = ("retry", "trimmed")


@dataclass
class Shown:
    """A tool call as the client sees it."""

    call: ToolCall
    view: Update
    change: Change | None = None
    terminal: str = ""
    said: str = ""

    @property
    def fields(self) -> Update:
        """For a question about the call: all of it."""
        return {"toolCallId": self.call.tool_call_id, "status": "pending", **self.view}


@dataclass
class _Step:
    """How much of the model's present answer was shown as it came."""

    message_id: str = ""
    thought_id: str = ""
    has_text: bool = False
    has_thoughts: bool = False


@dataclass
class Updates:
    """One client's view of one session. `is_behind`: what runs now began before this client looked.

    `live_terminals` shows output of commands as a terminal, for clients that can do so. `notices` likewise.
    """

    cwd: str
    replaying: bool = False
    is_behind: bool = False
    live_terminals: bool = False
    notices: bool = False
    title: str = ""
    calls: dict[str, Shown] = field(default_factory=dict)
    _step: _Step = field(default_factory=_Step)
    _held: list[ToolCall] = field(default_factory=list)
    _changes: dict[str, Change] = field(default_factory=dict)
    _error: ErrorEvent | None = None
    _plan: list[dict[str, str]] = field(default_factory=list)
    _planned: dict[str, int] = field(default_factory=dict)
    _has_told_title: bool = False

    def note_change(self, call_id: str, change: Change) -> None:
        """What a call does to a file: before the call is shown, or again when the tool knows better."""
        if call_id in self.calls:
            self.calls[call_id].change = change
        else:
            self._changes[call_id] = change

    def knows_change(self, call_id: str) -> bool:
        """Whether a call that is still to be shown has noted its change by now."""
        return call_id in self._changes

    def note_terminal(self, call_id: str, terminal_id: str) -> Update | None:
        """A terminal of the client's that this call runs in."""
        shown = self.calls.get(call_id)
        if shown is None:
            return None
        shown.terminal = terminal_id
        return _tool_update(call_id, status="in_progress", content=[_terminal(terminal_id)])

    def of(self, record: Recorded) -> Iterator[Update]:
        """What the client is told of this event."""
        event = record.event
        yield from self._late_error(event)
        if self._held and not isinstance(event, ToolCall | AssistantMessage):
            yield from self._show_calls()
        match event:
            case StreamChunk():
                yield from self._fragment(event)
            case AssistantMessage():
                yield from self._answer(event)
            case ReasoningBlock():
                yield from self._thought(event)
            case StepRestarted():
                self._step = _Step()
                self.is_behind = False
            case ToolCall():
                self._held.append(event)
            case ErrorEvent():
                self._error = event
            case Notice() if event.text and (not self.replaying or is_put_in(event)):
                yield self._notice(event)
            case UserMessage() if "injector" in event.data:
                yield _chunk("agent_thought_chunk", plain(event.content), event.id)
            case UserMessage() if self.replaying:
                yield from _said(event)
            case TurnStarted():
                self._step, self._plan, self._planned, self._has_told_title = _Step(), [], {}, False
            case TurnEnded():
                self._step, self.is_behind = _Step(), False
                if self.replaying and self._plan:
                    yield self._whole_plan()
            case _:
                yield from self._of_tool(event)

    def _of_tool(self, event: Event) -> Iterator[Update]:
        match event:
            case ToolStarted():
                yield from self._started(event)
            case ToolOutput():
                yield from self._output(event)
            case ToolResult():
                yield from self._result(event)

    # --- text ---

    def _fragment(self, chunk: StreamChunk) -> Iterator[Update]:
        if self.is_behind:
            return
        step = self._step
        if chunk.reasoning_text:
            step.has_thoughts = True
            step.thought_id = step.thought_id or new_event_id()
            yield from _chunks("agent_thought_chunk", chunk.reasoning_text, step.thought_id)
        if chunk.text:
            step.has_text = True
            step.message_id = step.message_id or new_event_id()
            yield from _chunks("agent_message_chunk", chunk.text, step.message_id)

    def _answer(self, message: AssistantMessage) -> Iterator[Update]:
        if message.content and not self._step.has_text:
            yield from _chunks("agent_message_chunk", message.content, message.id)
        if message.content.strip() and not self.replaying and not self._has_told_title:
            self._has_told_title = True
            self.title = self.title or title_from(message.content)
            info = {"title": self.title, "updatedAt": as_time(message.timestamp)}
            yield {"sessionUpdate": "session_info_update", **info}
        self._step, self.is_behind = _Step(), False
        yield from self._show_calls()

    def _thought(self, block: ReasoningBlock) -> Iterator[Update]:
        if block.content and not self._step.has_thoughts:
            yield from _chunks("agent_thought_chunk", block.content, block.id)

    def _late_error(self, event: Event) -> Iterator[Update]:
        """An error is told once it is clear that it is none of the user's own making."""
        error, self._error = self._error, None
        if error is None or (isinstance(event, TurnEnded) and event.stop == "cancelled") or self.replaying:
            return
        yield from _chunks("agent_message_chunk", plain(error.message), error.id)

    def _notice(self, notice: Notice) -> Update:
        if self.notices:
            return {"sessionUpdate": "notice", "severity": "warning", "title": plain(notice.text)}
        is_aside = notice.kind in _FOR_THOUGHTS or not rule_of(notice).is_stored
        kind = "agent_thought_chunk" if is_aside else "agent_message_chunk"
        is_failed = notice.kind == "mcp" and notice.data.get("state") == "failed"
        text = f"MCP setup failed for this session: {notice.text}" if is_failed else notice.text
        return _chunk(kind, plain(text), notice.id)

    # --- tools ---

    def _show_calls(self) -> Iterator[Update]:
        held, self._held = self._held, []
        for call in held:
            yield self._call(call)

    def asked(self, call: ToolCall) -> Update:
        """A question about a call that the client has not seen, such as one inside of another."""
        change = proposed_change(call.tool_name, call.arguments, self.cwd)
        return Shown(call, self._view(call, change), change).fields

    def _view(self, call: ToolCall, change: Change | None) -> Update:
        effects = [str(effect) for effect in call.data.get("side_effects", [])]
        view: Update = {
            "title": title_of(call.tool_name, call.arguments, self.cwd),
            "kind": kind_of(call.tool_name, effects),
            "rawInput": raw_input(call.arguments),
        }
        if places := locations_of(call.arguments, self.cwd):
            view["locations"] = places
        if content := asked_content(call.tool_name, call.arguments, change, self.cwd):
            view["content"] = content
        return view

    def _call(self, call: ToolCall) -> Update:
        change = self._changes.pop(call.tool_call_id, None) or proposed_change(call.tool_name, call.arguments, self.cwd)
        view = self._view(call, change)
        self.calls[call.tool_call_id] = shown = Shown(call, view, change)
        start = {"sessionUpdate": "tool_call", "toolCallId": call.tool_call_id, "status": "pending", **view}
        if self._is_live_terminal(shown):
            start["content"] = [_terminal(call.tool_call_id)]
            start["_meta"] = {"terminal_info": {"terminal_id": call.tool_call_id, "cwd": self.cwd}}
        return start

    def _is_live_terminal(self, shown: Shown | None) -> bool:
        return self.live_terminals and not self.replaying and shown is not None and shown.call.tool_name == "bash"

    def _started(self, started: ToolStarted) -> Iterator[Update]:
        shown = self.calls.get(started.tool_call_id)
        changed = started.data.get("arguments")
        more = {"rawInput": raw_input(changed)} if isinstance(changed, dict) else {}
        if not self.replaying:
            yield _tool_update(started.tool_call_id, status="in_progress", **more)
        if shown is not None:
            self._planned[started.tool_call_id] = len(self._plan)
            self._plan.append({"content": shown.view["title"], "priority": "medium", "status": "in_progress"})
            yield from self._plan_so_far()

    def _output(self, output: ToolOutput) -> Iterator[Update]:
        shown = self.calls.get(output.tool_call_id)
        if shown is None or not output.text or shown.terminal:
            return
        if self._is_live_terminal(shown):
            shown.said += output.text
            yield _tool_update(output.tool_call_id, _meta=_terminal_output(output.tool_call_id, output.text))
            return
        shown.said = (shown.said + output.text)[-LIVE_OUTPUT:]
        content = result_content(shown.call.tool_name, {}, shown.said, is_error=False, cwd=self.cwd)
        yield _tool_update(output.tool_call_id, content=content)

    def _result(self, result: ToolResult) -> Iterator[Update]:
        call_id, shown = result.tool_call_id, self.calls.pop(result.tool_call_id, None)
        status = "failed" if result.is_error else "completed"
        more: Update = {"content": self._result_content(shown, result), "rawOutput": raw_output(result.output)}
        if shown is not None and self._is_live_terminal(shown):
            rest = result.output.removeprefix(shown.said)
            if rest and not result.is_error and result.output.startswith(shown.said):
                yield _tool_update(call_id, _meta=_terminal_output(call_id, rest))
            code = {"terminal_id": call_id, "exit_code": int(result.is_error), "signal": None}
            more["_meta"] = {"terminal_exit": code}
        yield _tool_update(call_id, status=status, **more)
        index = self._planned.get(call_id)
        if index is not None and not result.is_error:
            self._plan[index] = {**self._plan[index], "status": "completed"}
            yield from self._plan_so_far()

    def _result_content(self, shown: Shown | None, result: ToolResult) -> list[Update]:
        arguments = shown.call.arguments if shown is not None else {}
        text = result_content(result.tool_name, arguments, result.output, is_error=result.is_error, cwd=self.cwd)
        if shown is not None and (shown.terminal or self._is_live_terminal(shown)):
            return [_terminal(shown.terminal or result.tool_call_id), *(text if result.is_error else [])]
        if shown is not None and shown.change is not None:
            return [diff(shown.change), *(text if result.is_error else [])]
        return text

    def _plan_so_far(self) -> Iterator[Update]:
        if not self.replaying:
            yield self._whole_plan()

    def _whole_plan(self) -> Update:
        return {"sessionUpdate": "plan", "entries": [dict(entry) for entry in self._plan]}


# --- pieces -----------------------------------------------------------------------------------


def _said(message: UserMessage) -> Iterator[Update]:
    """What a person said, in a replay; what Aar said to the model itself is left out."""
    if is_for_people(message) and message.content:
        text = str(message.data.get("said") or message.content)  # before extensions made something else of it
        yield from _chunks("user_message_chunk", text, message.id)


def message_chunk(text: str) -> Update:
    """Something that Aar itself has to say."""
    return _chunk("agent_message_chunk", text, new_event_id())


def _chunks(kind: str, text: str, message_id: str) -> Iterator[Update]:
    for at in range(0, len(text), LONGEST_CHUNK):
        yield _chunk(kind, text[at : at + LONGEST_CHUNK], message_id)


def _chunk(kind: str, text: str, message_id: str) -> Update:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": message_id}


def _tool_update(call_id: str, **fields: Any) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields}


def _terminal(terminal_id: str) -> Update:
    return {"type": "terminal", "terminalId": terminal_id}


def _terminal_output(terminal_id: str, text: str) -> Update:
    return {"terminal_output": {"terminal_id": terminal_id, "data": text}}


def title_from(text: str) -> str:
    """A title of one line, cut as in a listing of sessions."""
    return " ".join(text[:TITLE].split())


def as_time(seconds: float) -> str:
    """RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
