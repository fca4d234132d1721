"""From what happens in a session to text for people. One renderer for `run` and `chat`.

Hints are shown as they come; the fact that follows holds all of them, so only what is missing is added then.
"""

from __future__ import annotations

import json
from typing import Any

from aar.display import plain
from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    Notice,
    ProviderMeta,
    ReasoningBlock,
    Recorded,
    StepRestarted,
    StreamChunk,
    ToolCall,
    ToolResult,
    TurnEnded,
)
from aar.transports.cli.look import look_for
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import for_people
from aar.usage import format_tokens

__all__ = ["Renderer", "badges", "cut"]

ARGUMENT_LIMIT = 200  # characters of an argument that are shown
RESULT_LIMIT = 500  # characters of a result that are shown
PATH_LIMIT = 120  # a longer value with a slash is no path
AGAIN = "You can type your message again to retry."

_BADGES = {"read": "read", "write": "write", "execute": "exec", "network": "net", "external": "ext"}


class Renderer:
    """Shows one session's records, in order."""

    def __init__(self, screen: Screen, *, verbose: bool = False, again: str = AGAIN) -> None:
        """`again` says how to retry after an error that may pass."""
        self._screen = screen
        self._again = again
        self._verbose = verbose
        self._out = look_for(screen, is_terminal=screen.out_is_terminal)
        self._err = look_for(screen, is_terminal=screen.err_is_terminal)
        self._text = ""  # shown so far of the answer that is coming in
        self._thoughts = ""
        self._line_is_open = False
        self._held: list[Event] = []  # recorded with the answer, shown after it

    async def show(self, record: Recorded) -> None:
        """Write what there is to see of this fact or hint."""
        event = record.event
        match event:
            case StreamChunk():
                await self._chunk(event)
            case StepRestarted():
                await self._restarted()
            case ProviderMeta() | ToolCall():
                self._held.append(event)
            case ReasoningBlock():
                await self._reasoned(event)
            case AssistantMessage():
                await self._said(event)
                await self._release()
            case _:
                await self._release()
                await self._other(event)

    # --- text that comes in pieces ---

    async def _chunk(self, chunk: StreamChunk) -> None:
        if chunk.reasoning_text:
            await self._think(chunk.reasoning_text)
        if chunk.text:
            await self._speak(chunk.text)
        if chunk.finished:
            await self._end_answer_line()

    async def _think(self, text: str) -> None:
        if not self._thoughts:
            await self._screen.start_line()
            await self._screen.tell(self._err.styled("▸ thinking", "dim") + "\n")
        self._thoughts += text
        await self._screen.tell(self._err.styled(plain(text), "dim"))

    async def _speak(self, text: str) -> None:
        if not self._text:
            await self._screen.start_line()
            if self._screen.err_is_terminal:
                await self._screen.tell("\n")
        self._text += text
        self._line_is_open = not text.endswith("\n")
        await self._screen.say(plain(text))

    async def _end_answer_line(self) -> None:
        """Answers end with a newline, also in a file."""
        if self._line_is_open:
            self._line_is_open = False
            await self._screen.say("\n")
        await self._screen.start_line()

    async def _restarted(self) -> None:
        was_shown = bool(self._text or self._thoughts)
        await self._end_answer_line()
        self._text = self._thoughts = ""
        if was_shown:
            await self._note("The connection broke; the answer begins anew:")

    # --- the facts that hold all of it ---

    async def _reasoned(self, block: ReasoningBlock) -> None:
        missing = _missing(self._thoughts, block.content)
        if missing and not self._text:
            await self._think(missing)
            await self._screen.start_line()

    async def _said(self, message: AssistantMessage) -> None:
        missing = _missing(self._text, message.content)
        if not self._text and message.content:
            await self._screen.start_line()
            await self._screen.say(self._out.markdown(plain(message.content).rstrip("\n")))
        elif missing == message.content:
            await self._end_answer_line()
        if self._text and missing:
            await self._speak(missing)
        await self._end_answer_line()
        self._text = self._thoughts = ""

    async def _release(self) -> None:
        held, self._held = self._held, []
        for event in held:
            if isinstance(event, ProviderMeta):
                await self._spent(event)
            elif isinstance(event, ToolCall):
                await self._called(event)

    async def _spent(self, meta: ProviderMeta) -> None:
        if meta.usage:
            tokens = format_tokens(meta.usage.get("input_tokens", 0), meta.usage.get("output_tokens", 0))
            await self._screen.start_line()
            await self._screen.tell(self._err.right(f"({tokens})"))

    # --- tools and the rest ---

    async def _called(self, call: ToolCall) -> None:
        name = plain(call.tool_name)
        marks = badges(call) if self._verbose else ""
        title = f"{marks} {name}" if marks else f"Tool: {name}"
        lines = [self._err.styled(title, "cyan")]
        lines += [f"  {plain(str(key))}: {self._argument(value)}" for key, value in call.arguments.items()]
        await self._screen.start_line()
        await self._screen.tell("\n".join(lines) + "\n")

    def _argument(self, value: Any) -> str:
        text = plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        shown = cut(text, ARGUMENT_LIMIT, "...")
        is_path = self._verbose and isinstance(value, str) and "/" in value and len(value) < PATH_LIMIT
        return self._err.styled(shown, "blue") if is_path else shown

    async def _other(self, event: Event) -> None:
        match event:
            case ToolResult():
                await self._result(event)
            case ErrorEvent() if event.data.get("near_budget"):
                await self._note(plain(event.message))  # the turn goes on
            case ErrorEvent():
                await self._screen.start_line()
                await self._screen.tell(self._err.panel("Error", _told(event, self._again), "red"))
            case Notice():
                await self._note(plain(for_people(event.text)))
            case TurnEnded():
                await self._end_answer_line()
                self._text = self._thoughts = ""

    async def _result(self, result: ToolResult) -> None:
        title = f"Result: {plain(result.tool_name)}"
        if self._verbose:
            title += f" ({result.duration_ms:.0f} ms)"
        text = cut(plain(result.output).rstrip("\n"), RESULT_LIMIT, "\n... (truncated)")
        await self._screen.start_line()
        await self._screen.tell(self._err.panel(title, text, "red" if result.is_error else "green"))

    async def _note(self, text: str) -> None:
        await self._screen.start_line()
        await self._screen.tell(self._err.styled(text, "dim") + "\n")


def _told(error: ErrorEvent, again: str) -> str:
    """What went wrong; what the server or the system said of it, where that says more; and whether to try again."""
    detail = str(error.data.get("detail") or "")
    message = for_people(error.message)
    said = [detail] if message in detail else [message, detail if detail not in message else ""]
    lines = [*said, again if error.recoverable else ""]
    return "\n".join(plain(line) for line in lines if line)


def badges(call: ToolCall) -> str:
    """`[read][write]` for the effects that the tool declares."""
    effects = call.data.get("side_effects", [])
    return "".join(f"[{_BADGES[str(effect)]}]" for effect in effects if str(effect) in _BADGES)


def cut(text: str, limit: int, mark: str) -> str:
    """The first `limit` characters, and a mark when there were more."""
    return text if len(text) <= limit else text[:limit] + mark


def _missing(shown: str, whole: str) -> str:
    """What is still to be shown of `whole`. White space at the ends of what was streamed may not be part of it."""
    for begun in (shown, shown.lstrip(), shown.strip()):
        if begun and whole.startswith(begun):
            return whole[len(begun) :].rstrip() and whole[len(begun) :]
    return whole
