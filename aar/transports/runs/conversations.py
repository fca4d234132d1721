"""The sessions that runs work in: found or opened, used by one run after another, let go when nobody comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import trio

from aar.client import SessionHandle, Sessions
from aar.errors import AarError, InvalidMessage, SessionClosed, SessionNotFound
from aar.messages.events import UserMessage
from aar.messages.mcp import McpServer

__all__ = ["Conversation", "Conversations"]

IDLE_FOR = 60.0  # seconds an unused session stays open, so that the next run need not read it again
MOST_IDLE = 100  # sessions that stay open so, the ones used last


@dataclass(eq=False)
class Conversation:
    """An open session. Whoever holds `turn` may run in it; who waits for it comes in the order of arrival.

    `is_ours`: it was begun here, for a run.
    """

    handle: SessionHandle
    is_ours: bool = False
    users: int = 0
    idle_since: float = field(default_factory=trio.current_time)
    turn: trio.Lock = field(default_factory=trio.Lock)
    _used: tuple[str | None, dict[str, Any] | None] | None = (None, None)  # what `use` was told; `None`: cut short

    @property
    def is_used(self) -> bool:
        """By runs of this process, or by somebody in another one."""
        return bool(self.users or self.handle.guests)

    @property
    def is_blank(self) -> bool:
        """Whether it was begun for runs that were cancelled before they said anything."""
        return self.is_ours and not any(isinstance(record.event, UserMessage) for record in self.handle.records())

    @contextmanager
    def used(self) -> Iterator[None]:
        """It is not let go inside this block."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self.idle_since = trio.current_time()

    async def use(self, provider: str | None, safety: dict[str, Any] | None = None) -> None:
        """The next turn is answered by this profile, under these rules instead of those of the settings.

        Without them everything is as the settings say. Raises `InvalidSetting`.
        """
        wanted = (provider, safety)
        if wanted == self._used:
            return
        self._used = None  # whoever is cancelled here does not know how far it came
        await self.handle.configure({"provider": provider, "safety": None})
        if safety is not None:
            await self.handle.configure({"safety": safety})
        self._used = wanted


@dataclass(eq=False)
class _Opening:
    """A session that is being opened for somebody who may leave meanwhile."""

    is_ours: bool
    done: trio.Event = field(default_factory=trio.Event)
    found: Conversation | AarError = field(default_factory=lambda: SessionClosed("Aar is ending."))


class Conversations:
    """New sessions work in `cwd`; all that are opened here have the `mcp_servers`.

    `start` does work of this name beside everything else, until the sessions end.
    """

    def __init__(
        self,
        sessions: Sessions,
        start: Callable[[str, Callable[[], Awaitable[None]]], None],
        cwd: str,
        mcp_servers: Sequence[McpServer] = (),
    ) -> None:
        self._sessions = sessions
        self._start = start
        self._cwd = cwd
        self._mcp_servers = mcp_servers
        self._open: dict[str, Conversation] = {}
        self._closing: dict[str, trio.Event] = {}

    @asynccontextmanager
    async def joined(self, session_id: str | None) -> AsyncIterator[Conversation]:
        """The session of this id, or a new one when there is none. It stays open for as long as the block lasts.

        Raises `SessionInUse` when another process holds it, `CorruptJournal`.
        """
        conversation = await self._found(session_id) if session_id else None
        if conversation is None:
            open_it = partial(self._sessions.open, self._cwd, mcp_servers=self._mcp_servers)
            conversation = await self._brought(open_it, is_ours=True)
        with conversation.used():
            yield conversation

    @asynccontextmanager
    async def existing(self, session_id: str) -> AsyncIterator[Conversation]:
        """The same, but raises `SessionNotFound` when there is none of this id."""
        conversation = await self._found(session_id)
        if conversation is None:
            raise SessionNotFound(f"Session {session_id} not found.")
        with conversation.used():
            yield conversation

    def find(self, session_id: str) -> SessionHandle | None:
        conversation = self._open.get(session_id)
        return conversation.handle if conversation is not None else None

    async def _found(self, session_id: str) -> Conversation | None:
        while True:
            if (closing := self._closing.get(session_id)) is not None:
                await closing.wait()
            elif (conversation := self._open.get(session_id)) is None:
                return await self._loaded(session_id)
            elif await self._is_alive(conversation):
                return conversation

    async def _is_alive(self, conversation: Conversation) -> bool:
        """Whether it still takes messages, and nobody has begun to close it."""
        session_id = conversation.handle.session_id
        try:
            await conversation.handle.status()
        except AarError:
            if self._open.get(session_id) is conversation:
                del self._open[session_id]
        return self._open.get(session_id) is conversation

    async def _loaded(self, session_id: str) -> Conversation | None:
        load = partial(self._sessions.load, session_id, cwd=self._cwd, mcp_servers=self._mcp_servers)
        try:
            return await self._brought(load)
        except (SessionNotFound, InvalidMessage):  # the latter: nothing that could be an id
            return None

    async def _brought(self, open_it: Callable[[], Awaitable[SessionHandle]], *, is_ours: bool = False) -> Conversation:
        """Whoever waits here may leave at any time: what has been opened is held all the same, and idle."""
        opening = _Opening(is_ours)
        self._start(f"opening:{uuid4().hex}", partial(self._bring, opening, open_it))
        await opening.done.wait()
        if isinstance(opening.found, AarError):
            raise opening.found
        return opening.found

    async def _bring(self, opening: _Opening, open_it: Callable[[], Awaitable[SessionHandle]]) -> None:
        try:
            handle = await open_it()
            opening.found = self._open.setdefault(handle.session_id, Conversation(handle, opening.is_ours))
        except AarError as error:
            opening.found = error
        finally:
            opening.done.set()

    async def let_go_of_idle_ones(self) -> None:
        """For ever. Others can use a session again once it has been let go."""
        while True:
            await trio.sleep(IDLE_FOR / 4)
            late = trio.current_time() - IDLE_FOR
            idle = sorted((one.idle_since, key) for key, one in self._open.items() if not one.is_used)
            for place, (since, session_id) in enumerate(reversed(idle)):
                if since <= late or place >= MOST_IDLE:
                    await self._close(session_id)

    async def let_go_of_blank_ones(self) -> None:
        """Those that nobody uses."""
        for session_id in [key for key, one in self._open.items() if one.is_blank]:
            await self._close(session_id)

    async def _close(self, session_id: str) -> None:
        conversation = self._open.get(session_id)
        if conversation is None or conversation.is_used:
            return
        del self._open[session_id]
        self._closing[session_id] = trio.Event()
        try:
            with suppress(AarError):
                if conversation.is_blank:
                    await self._sessions.delete(session_id)
                else:
                    await self._sessions.close(session_id)
        finally:
            self._closing.pop(session_id).set()
