"""What `run` writes: text for people, or a JSON document or a stream of JSON lines for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from aar.client import SessionHandle
from aar.display import plain, plain_json
from aar.messages.encoding import json_of
from aar.messages.events import (
    ApprovalResolved,
    ErrorEvent,
    Event,
    ProviderMeta,
    Recorded,
    SessionEvent,
    ToolResult,
)
from aar.transports.cli.render import LineDrawing, Renderer
from aar.transports.program.outcomes import response_of, tool_result_of
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import for_people

__all__ = ["JsonReport", "Report", "StreamReport", "TextReport", "event_line", "result_document"]


def event_line(record: Recorded) -> str:
    """One event as a line of JSON: its own fields, then `seq` (of facts) and `turn_id`."""
    place = {"seq": record.seq, "turn_id": record.turn_id} if record.seq else {"turn_id": record.turn_id}
    event = plain_json(json_of(record.event))
    return f"{event[:-1]},{json.dumps(place, separators=(',', ':'))[1:]}\n"


NOBODY = "Some calls were denied because nobody could be asked: run this in a terminal, or with --yes.\n"
AGAIN = "You can run it again to retry, with --continue in the same session."
GO_ON = 'To go on: aar run --session {session_id} "go on"\n'
_CUT_SHORT = {"max_steps", "timed_out"}


class Report(Protocol):
    """What one `aar run` tells: `begin`, then `show` for each fact and hint of the turn, then `end`."""

    async def begin(self) -> None: ...
    async def show(self, record: Recorded) -> None: ...
    async def end(self, stop: str, failure: str | None, *, is_kept: bool) -> None: ...


class TextReport:
    """The answer on standard output, for people the rest on standard error."""

    def __init__(self, screen: Screen, handle: SessionHandle, *, verbose: bool) -> None:
        self._screen = screen
        self._handle = handle
        self._renderer = Renderer(screen, LineDrawing(screen, verbose=verbose, again=AGAIN))
        self._nobody_was_asked = False

    async def begin(self) -> None:
        pass

    async def show(self, record: Recorded) -> None:
        event = record.event
        self._nobody_was_asked |= isinstance(event, ApprovalResolved) and event.by == "nobody"
        await self._renderer.show(record)

    async def end(self, stop: str, failure: str | None, *, is_kept: bool) -> None:
        await self._screen.start_line()
        if self._nobody_was_asked:
            await self._screen.tell(NOBODY)
        if failure is not None:
            await self._screen.tell(f"aar: {plain(failure)}\n")
        if stop in _CUT_SHORT:
            await self._screen.tell(GO_ON.format(session_id=self._handle.session_id))
        if is_kept:
            await self._screen.tell(f"Session: {self._handle.session_id}\n")


class JsonReport:
    """One document when all is over."""

    def __init__(self, screen: Screen, handle: SessionHandle) -> None:
        self._screen = screen
        self._handle = handle
        self._after = handle.seq

    async def begin(self) -> None:
        pass

    async def show(self, record: Recorded) -> None:
        pass

    async def end(self, stop: str, failure: str | None, *, is_kept: bool) -> None:
        document = result_document(self._handle, self._after, stop, failure)
        await self._screen.start_line()
        await self._screen.say(plain_json(json.dumps(document, ensure_ascii=False)) + "\n")


class StreamReport:
    """The events of the turn as they happen, a line each, after the one that says how the session came to life."""

    def __init__(self, screen: Screen, handle: SessionHandle) -> None:
        self._screen = screen
        self._handle = handle

    async def begin(self) -> None:
        opened = [record for record in self._handle.records() if isinstance(record.event, SessionEvent)]
        await self._screen.say(event_line(opened[-1]))

    async def show(self, record: Recorded) -> None:
        if record.turn_id:
            await self._screen.start_line()
            await self._screen.say(event_line(record))

    async def end(self, stop: str, failure: str | None, *, is_kept: bool) -> None:
        if failure is not None:
            await self._screen.tell(f"aar: {plain(failure)}\n")


def result_document(handle: SessionHandle, after: int, stop: str, failure: str | None = None) -> dict[str, Any]:
    """The outcome of the turn whose facts come after `after`, also of one that failed."""
    session = handle.snapshot()
    turn = [record.event for record in handle.records(after=after)]
    return {
        "session_id": handle.session_id,
        "response": response_of(turn),
        "tool_results": [tool_result_of(event) for event in turn if isinstance(event, ToolResult)],
        "state": str(session.state),
        "step_count": session.step_count,
        "stop": stop,
        "usage": _usage(turn),
        "cost": sum((float(event.data.get("cost", 0.0)) for event in turn if isinstance(event, ProviderMeta)), 0.0),
        "error": _error(turn, stop, failure),
    }


def _usage(turn: Sequence[Event]) -> dict[str, int]:
    total = Counter({"input_tokens": 0, "output_tokens": 0})
    for event in turn:
        if isinstance(event, ProviderMeta):
            total.update(event.usage)
    return dict(total)


def _error(turn: Sequence[Event], stop: str, failure: str | None) -> dict[str, Any] | None:
    """The last error of a turn that did not end by itself."""
    if failure is not None:
        return {"message": failure, "recoverable": False}
    if stop in ("end_turn", "max_tokens"):
        return None
    errors = [event for event in turn if isinstance(event, ErrorEvent)]
    return {"message": for_people(errors[-1].message), "recoverable": errors[-1].recoverable} if errors else None
