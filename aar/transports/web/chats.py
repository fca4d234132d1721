"""What the web API does, without HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import trio

from aar.messages.encoding import json_of
from aar.messages.events import Event
from aar.transports.runs.host import Host
from aar.transports.web.chat import Chat
from aar.transports.web.live import Live
from aar.transports.web.requests import parse_request

__all__ = ["Chats"]

SILENCE = 15.0  # seconds without an event, and then a comment keeps those on the way from closing the connection
ENDING = 20.0  # seconds that a request whose client has left waits for the end of its turn

COMMENT = ": still here\n\n"


class Chats:
    """Chats in the sessions of a host, which is there inside `async with chats:`.

    A request that cannot be served raises `Refused`, which has a `status` as in HTTP and says what to do. `may_loosen`:
    requests may allow more than the settings do. `says_yes`: the host answers every question with yes.
    """

    def __init__(self, host: Host, *, may_loosen: bool = False, says_yes: bool = False) -> None:
        self._host = host
        self._may_loosen = may_loosen
        self._says_yes = says_yes
        self.live = Live(host, may_loosen=may_loosen, says_yes=says_yes)
        self._stack: AsyncExitStack | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            nursery = await stack.enter_async_context(trio.open_nursery())
            await nursery.start(self._host.run)
            stack.push_async_callback(self._host.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.__aexit__(kind, error, traceback)

    # --- chatting -------------------------------------------------------------------------------

    async def handle_chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer when the turn is over. Whoever is cancelled here has cancelled the turn, which has ended."""
        chat = self._begun(body)
        try:
            await chat.settled.wait()
        finally:
            await _end(chat)
        chat.check()
        return await chat.as_data()

    async def handle_stream(self, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """Server-sent events as they happen, several in one text when there are several. To be closed when it is left
        early (`contextlib.aclosing`), which cancels the turn."""
        chat = self._begun(body, is_read_along=True)
        try:
            await chat.placed.wait()
            chat.check()
            while True:
                events: list[Event] | None = None
                with trio.move_on_after(SILENCE):
                    events = await chat.take()
                if events is None:
                    yield COMMENT
                elif events:
                    yield "".join(map(_frame, events))
                else:
                    break
        finally:
            await _end(chat)

    def _begun(self, body: Mapping[str, Any], *, is_read_along: bool = False) -> Chat:
        config, runs = self._host.config, self._host.runs
        request = parse_request(body, config, may_loosen=self._may_loosen, says_yes=self._says_yes)
        runs.check_room()
        chat = Chat(request=request, is_read_along=is_read_along)
        runs.begin(chat)
        return chat

    # --- sessions -------------------------------------------------------------------------------

    async def list_sessions(self) -> list[str]:
        """The ids of all stored sessions, sorted."""
        return await self._host.session_ids()

    async def get_session(self, session_id: str) -> dict[str, Any] | None:
        """`session_id`, `state`, `step_count` and `event_count`; `None` when there is no such session."""
        return await self._host.describe(session_id)


def _frame(event: Event) -> str:
    return f"event: {event.type}\ndata: {json_of(event)}\n\n"


async def _end(chat: Chat) -> None:
    """Cancel what is not over, and wait for its end."""
    chat.cancel()
    with trio.move_on_after(ENDING, shield=True):
        await chat.settled.wait()
