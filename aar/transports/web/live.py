"""Live sessions over HTTP: what happens in one is read by any number of clients, each of which may say something."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import trio

from aar.client import SessionHandle
from aar.errors import ActorStopped, SessionClosed, SessionInUse, SessionNotFound
from aar.messages.approvals import DecisionName
from aar.messages.encoding import json_of as json_of_fact
from aar.messages.events import Event, Recorded
from aar.transports.http.refused import Refused
from aar.transports.program.sentences import sentence
from aar.transports.runs.conversations import Conversation
from aar.transports.runs.host import Host
from aar.transports.runs.job import Job
from aar.transports.web.requests import parse_request

__all__ = ["BY", "Live"]

BY = "web"  # who decided, in the facts
SILENCE = 15.0  # seconds without an event, and then a comment keeps those on the way from closing the connection
BEGINNING = 1.0  # seconds that a prompt is looked after, so that what keeps it from beginning can be told
BACKLOG_PIECE = 100  # facts of the past that are sent in one go
NEWEST = 100  # sessions that are listed

COMMENT = ": still here\n\n"
END = 'event: end\ndata: {"reason": "the session was closed"}\n\n'

Write = Callable[[str], Awaitable[None]]


@dataclass(eq=False, kw_only=True)
class _Said(Job):
    """A prompt whose turn is read from the session by whoever wants to."""

    has_begun: trio.Event = field(default_factory=trio.Event)

    def begin(self) -> None:
        self.has_begun.set()

    def notice(self, event: Event) -> None:
        """Its readers have it from the journal."""

    def settle(self, stop: str, error: str = "") -> None:
        self.placed.set()
        self.settled.set()
        self.has_begun.set()


class Live:
    """The sessions of a host. A request that cannot be served raises `Refused`."""

    def __init__(self, host: Host, *, may_loosen: bool = False, says_yes: bool = False) -> None:
        self._host = host
        self._may_loosen = may_loosen
        self._says_yes = says_yes

    async def newest(self) -> list[dict[str, Any]]:
        """The sessions that were used last, in a few words."""
        return await self._host.newest(NEWEST)

    async def open(self) -> str:
        """A new session, which is forgotten when nobody says anything in it."""
        async with self._host.conversations.joined(None) as conversation:
            return conversation.handle.session_id

    async def say(self, session_id: str, body: Any) -> dict[str, Any]:
        """Begin a turn, which goes on whoever leaves. Answered as soon as it has begun, or waits for others."""
        if not isinstance(body, Mapping) or "session_id" in body:
            raise Refused(400, 'The body must be a JSON object, such as {"prompt": "Go on."}, without a session_id')
        asked = {**body, "session_id": session_id}
        request = parse_request(asked, self._host.config, may_loosen=self._may_loosen, says_yes=self._says_yes)
        async with self._joined(session_id):
            self._host.runs.check_room()
            said = _Said(request=request)
            self._host.runs.begin(said)
            with trio.move_on_after(BEGINNING):
                await said.has_begun.wait()
        if said.failure is not None:
            raise Refused(400, sentence(said.failure))
        return {"session_id": session_id, "waits": not said.has_begun.is_set()}

    async def cancel(self, session_id: str, body: Any) -> dict[str, Any]:
        """Cancel the turn that runs, or the one that is named."""
        turn_id = body.get("turn_id") if isinstance(body, Mapping) else None
        if turn_id is not None and not isinstance(turn_id, str):
            raise Refused(400, "Invalid turn_id: it must be a text")
        async with self._joined(session_id) as conversation:
            await conversation.handle.cancel(turn_id)
        return {"session_id": session_id}

    async def decide(self, session_id: str, body: Any) -> dict[str, Any]:
        """Answer a question. The first answer counts, wherever it comes from; `accepted` tells whether this was it."""
        call_id, decision = _decision(body)
        async with self._joined(session_id) as conversation:
            return {"accepted": await conversation.handle.decide(call_id, decision, by=BY)}

    async def tell(
        self, session_id: str, after: int, write: Write, *, answers: bool, for_interfaces: bool = False
    ) -> None:
        """Write what happened after this fact, then what happens, until the session is closed.

        Facts have their number as `id`; hints, which the facts that follow contain, have none. `for_interfaces` writes
        what `aar.ui` makes of them. Who `answers` is there to answer questions for as long as this lasts.
        """
        async with AsyncExitStack() as stack:
            conversation = await stack.enter_async_context(self._joined(session_id))
            handle = conversation.handle
            if answers:
                await stack.enter_async_context(handle.attend())
            after = after if after <= handle.seq else 0  # it knows facts that were lost: it begins anew
            status = {**(await handle.status()).dump(), "after": after}
            await write(f"event: status\ndata: {json.dumps(status)}\n\n")
            await _tell_all(handle, after, write, _ui_frames(handle, after) if for_interfaces else _frame)

    @asynccontextmanager
    async def _joined(self, session_id: str) -> AsyncIterator[Conversation]:
        """A session that exists, for the length of a block."""
        try:
            async with self._host.conversations.existing(session_id) as conversation:
                yield conversation
        except SessionNotFound as error:
            raise Refused(404, "not found") from error
        except (SessionInUse, SessionClosed, ActorStopped) as error:
            raise Refused(409, sentence(error)) from error


async def _tell_all(handle: SessionHandle, after: int, write: Write, frame: Callable[[Recorded], str]) -> None:
    past = handle.records(after=after)
    for start in range(0, len(past), BACKLOG_PIECE):
        piece = past[start : start + BACKLOG_PIECE]
        await write("".join(map(frame, piece)))
        after = piece[-1].seq
    with handle.follow(after=after) as records:
        while True:
            record: Recorded | None = None
            try:
                with trio.move_on_after(SILENCE):
                    record = await anext(records)
            except StopAsyncIteration:
                break
            if told := COMMENT if record is None else frame(record):
                await write(told)
    await write(END)


def _frame(record: Recorded) -> str:
    number = f"id: {record.seq}\n" if record.seq else ""
    return f"{number}event: {record.event.type}\ndata: {json_of_fact(record.event)}\n\n"


def _ui_frames(handle: SessionHandle, after: int) -> Callable[[Recorded], str]:
    """The events of interfaces; the last one of each fact has its number."""
    from aar.ui import UiView, json_of  # few clients ask for these

    view = UiView(handle.session_id)
    for record in handle.records():
        if record.seq <= after:
            list(view.see(record))

    def frames(record: Recorded) -> str:
        told = [(f"event: {event.tag}\n", f"data: {json_of(event)}\n\n") for event in view.see(record)]
        if not told:
            return ""
        first = "".join(f"{kind}{data}" for kind, data in told[:-1])
        number = f"id: {record.seq}\n" if record.seq else ""
        return f"{first}{number}{told[-1][0]}{told[-1][1]}"

    return frames


def _decision(body: Any) -> tuple[str, DecisionName]:
    known = get_args(DecisionName)
    if not isinstance(body, Mapping) or not isinstance(body.get("tool_call_id"), str):
        raise Refused(400, 'The body must be a JSON object, such as {"tool_call_id": "...", "decision": "allow"}')
    if body.get("decision") not in known:
        raise Refused(400, f"Invalid decision: use {', '.join(known)}")
    return body["tool_call_id"], cast("DecisionName", body["decision"])
