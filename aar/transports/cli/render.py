"""From what happens in a session to text for people. One renderer for `run` and `chat`.

Hints are shown as they come; the fact that follows holds all of them, so only what is missing is added then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from aar.display import one_line, plain
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
    UserMessage,
)
from aar.transports.cli.look import look_for
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import badges, cut, for_people, told_error
from aar.usage import format_tokens

__all__ = ["AGAIN", "LineDrawing", "Renderer", "argument_text", "is_path"]

ARGUMENT_LIMIT = 200  # characters of an argument that are shown
RESULT_LIMIT = 500  # characters of a result that are shown
PATH_LIMIT = 120  # a longer value with a slash is no path
AGAIN = "You can type your message again to retry."

if TYPE_CHECKING:

    class Drawing(Protocol):
        """How what happens looks. Gives texts to write, each with its newline at the end; an empty one is not written.

        With `shows_answers` or `shows_thoughts` off, text that comes in pieces is not written either.
        """

        shows_answers: bool
        shows_thoughts: bool

        def thinking(self) -> str: ...
        def thought(self, text: str) -> str: ...
        def thoughts(self, text: str) -> str: ...
        def answer(self, text: str) -> str: ...
        def called(self, call: ToolCall) -> str: ...
        def result(self, result: ToolResult) -> str: ...
        def spent(self, meta: ProviderMeta) -> str: ...
        def error(self, error: ErrorEvent) -> str: ...
        def note(self, text: str) -> str: ...


class Renderer:
    """Shows one session's records, in order: when something is to be seen. How it looks is the drawing's affair."""

    def __init__(self, screen: Screen, drawing: Drawing) -> None:
        self._screen = screen
        self._drawing = drawing
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
                await self._restarted(event.data.get("why", "The connection broke; the answer begins anew:"))
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

    async def _tell(self, text: str) -> None:
        if text:
            await self._screen.start_line()
            await self._screen.tell(text)

    # --- text that comes in pieces ---

    async def _chunk(self, chunk: StreamChunk) -> None:
        if chunk.reasoning_text:
            await self._think(chunk.reasoning_text)
        if chunk.text:
            await self._speak(chunk.text)
        if chunk.finished:
            await self._end_answer_line()

    async def _think(self, text: str) -> None:
        is_first = not self._thoughts
        self._thoughts += text
        if not self._drawing.shows_thoughts:
            return
        if is_first:
            await self._tell(self._drawing.thinking())
        await self._screen.tell(self._drawing.thought(plain(text)))

    async def _speak(self, text: str) -> None:
        is_first = not self._text
        self._text += text
        if not self._drawing.shows_answers:
            return
        if is_first:
            await self._screen.start_line()
            if self._screen.err_is_terminal:
                await self._screen.tell("\n")
        self._line_is_open = not text.endswith("\n")
        await self._screen.say(plain(text))

    async def _end_answer_line(self) -> None:
        """Answers end with a newline, also in a file."""
        if self._line_is_open:
            self._line_is_open = False
            await self._screen.say("\n")
        await self._screen.start_line()

    async def _restarted(self, why: str) -> None:
        was_shown = bool(self._text or self._thoughts)
        await self._end_answer_line()
        self._text = self._thoughts = ""
        if was_shown:
            await self._tell(self._drawing.note(why))

    # --- the facts that hold all of it ---

    async def _reasoned(self, block: ReasoningBlock) -> None:
        missing = _missing(self._thoughts, block.content)
        if not missing or self._text:
            return
        if self._thoughts:
            await self._think(missing)
            await self._screen.start_line()
        else:
            self._thoughts = block.content
            await self._tell(self._drawing.thoughts(plain(block.content)))

    async def _said(self, message: AssistantMessage) -> None:
        missing = _missing(self._text, message.content)
        if not self._text and message.content:
            if shown := self._drawing.answer(plain(message.content).rstrip("\n")):
                await self._screen.start_line()
                await self._screen.say(shown)
        elif missing == message.content:
            await self._end_answer_line()
        if self._text and missing:
            await self._speak(missing)
        await self._end_answer_line()
        self._text = self._thoughts = ""

    async def _release(self) -> None:
        held, self._held = self._held, []
        for event in held:
            if isinstance(event, ProviderMeta) and event.usage:
                await self._tell(self._drawing.spent(event))
            elif isinstance(event, ToolCall):
                await self._tell(self._drawing.called(event))

    async def _other(self, event: Event) -> None:
        match event:
            case ToolResult():
                await self._tell(self._drawing.result(event))
            case ErrorEvent() if event.data.get("near_budget"):
                await self._tell(self._drawing.note(plain(event.message)))  # the turn goes on
            case ErrorEvent():
                await self._tell(self._drawing.error(event))
            case UserMessage() if "injector" in event.data:
                await self._tell(self._drawing.note(plain(event.content)))
            case Notice() if event.text:
                await self._tell(self._drawing.note(plain(for_people(event.text))))
            case TurnEnded():
                await self._end_answer_line()
                self._text = self._thoughts = ""


class LineDrawing:
    """Lines, with panels around what tools gave and around errors: for `run` and `chat`."""

    shows_answers = shows_thoughts = True

    def __init__(self, screen: Screen, *, verbose: bool = False, again: str = AGAIN) -> None:
        """`again` says how to retry after an error that may pass."""
        self._again = again
        self._verbose = verbose
        self._out = look_for(screen, is_terminal=screen.out_is_terminal)
        self._err = look_for(screen, is_terminal=screen.err_is_terminal)

    def thinking(self) -> str:
        return self._err.styled("▸ thinking", "dim") + "\n"

    def thought(self, text: str) -> str:
        return self._err.styled(text, "dim")

    def thoughts(self, text: str) -> str:
        return f"{self.thinking()}{self.thought(text.rstrip(chr(10)))}\n"

    def answer(self, text: str) -> str:
        return self._out.markdown(text)

    def called(self, call: ToolCall) -> str:
        name = one_line(call.tool_name)
        marks = badges(call) if self._verbose else ""
        title = f"{marks} {name}" if marks else f"Tool: {name}"
        lines = [self._err.styled(title, "cyan")]
        lines += [f"  {one_line(str(key))}: {self._argument(value)}" for key, value in call.arguments.items()]
        return "\n".join(lines) + "\n"

    def _argument(self, value: Any) -> str:
        shown = cut(argument_text(value), ARGUMENT_LIMIT, "...")
        return self._err.styled(shown, "blue") if self._verbose and is_path(value) else shown

    def result(self, result: ToolResult) -> str:
        title = f"Result: {one_line(result.tool_name)}"
        if self._verbose:
            title += f" ({result.duration_ms:.0f} ms)"
        text = cut(plain(result.output).rstrip("\n"), RESULT_LIMIT, "\n... (truncated)")
        return self._err.panel(title, text, "red" if result.is_error else "green")

    def spent(self, meta: ProviderMeta) -> str:
        tokens = format_tokens(meta.usage.get("input_tokens", 0), meta.usage.get("output_tokens", 0))
        return self._err.right(f"({tokens})")

    def error(self, error: ErrorEvent) -> str:
        return self._err.panel("Error", told_error(error, self._again), "red")

    def note(self, text: str) -> str:
        return self._err.styled(text, "dim") + "\n"


def argument_text(value: Any) -> str:
    """A value as one reads it, harmless."""
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def is_path(value: Any) -> bool:
    """Whether it looks like one."""
    return isinstance(value, str) and "/" in value and len(value) < PATH_LIMIT


def _missing(shown: str, whole: str) -> str:
    """What is still to be shown of `whole`. White space at the ends of what was streamed may not be part of it."""
    for begun in (shown, shown.lstrip(), shown.strip()):
        if begun and whole.startswith(begun):
            return whole[len(begun) :].rstrip() and whole[len(begun) :]
    return whole
