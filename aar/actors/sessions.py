"""Service: the sessions of a runtime. Opens, loads, forks, lists, closes and deletes them.

Each open session is held by a task of its own, which owns the session's file and starts the session's service. The
mailbox loop only hands requests to tasks, so a large file that loads slowly keeps nobody waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, assert_never

import trio

from aar.actors.holding import HeldSession, Opening, Shared, live_info, service_name
from aar.errors import AarError, InvalidMessage, SessionError, SessionInUse
from aar.journal.state import Session, fork
from aar.journal.store import StoredSession
from aar.kernel import Envelope, Mailbox, Supervisor, open_supervisor
from aar.messages.base import new_session_id
from aar.messages.session import (
    CloseSession,
    DeleteSession,
    ForkSession,
    ListSessions,
    LoadSession,
    OpenSession,
    SessionInfo,
    SessionListing,
    SessionsCommand,
)

__all__ = ["sessions"]

logger = logging.getLogger(__name__)


def sessions(shared: Shared) -> Callable[[Mailbox[SessionsCommand]], Awaitable[None]]:
    """The body of the service. One per runtime."""

    async def body(mailbox: Mailbox[SessionsCommand]) -> None:
        async with open_supervisor(registry=shared.registry) as supervisor, trio.open_nursery() as nursery:
            house = _House(shared, supervisor, nursery)
            async for envelope in mailbox:
                nursery.start_soon(house.serve, envelope)

    return body


class _House:
    def __init__(self, shared: Shared, supervisor: Supervisor, nursery: trio.Nursery) -> None:
        self._shared = shared
        self._supervisor = supervisor
        self._nursery = nursery
        self._held: dict[str, HeldSession] = {}

    async def serve(self, envelope: Envelope[SessionsCommand]) -> None:
        try:
            answer = await self._answer(envelope.message)
            if isinstance(answer, SessionInfo):
                await self._hand_over(answer, envelope)
            else:
                envelope.reply(answer)
        except AarError as error:
            envelope.fail(error)
        except ValueError as error:
            envelope.fail(_caused(InvalidMessage(str(error)), error))
        except Exception as error:  # a wall: one session that cannot be opened must not end the others
            logger.error("%s failed", envelope.message.type, exc_info=error)
            envelope.fail(_caused(SessionError(f"internal error ({type(error).__name__}): {error}"), error))

    async def _answer(self, command: SessionsCommand) -> Any:
        match command:
            case OpenSession():
                return await self._open(command)
            case LoadSession():
                return await self._load(command)
            case ForkSession():
                return await self._fork(command)
            case ListSessions(cwd=cwd, cursor=cursor, limit=limit):
                found, following = await self._shared.store.list(cwd=cwd, limit=limit, cursor=cursor)
                return SessionListing(sessions=[_info(entry) for entry in found], cursor=following)
            case CloseSession(session_id=session_id):
                return await self._close(session_id)
            case DeleteSession(session_id=session_id):
                await self._close(session_id)
                return await self._shared.store.delete(session_id)
            case _:
                assert_never(command)

    # --- coming to life ---

    async def _open(self, command: OpenSession) -> SessionInfo:
        session_id = command.session_id or new_session_id()
        opening = Opening(session_id, True, command.cwd, command.config, "started", trace_id=command.trace_id)
        rules = {"tools": command.tools, "mcp_servers": command.mcp_servers, "steps": command.steps}
        opening = opening._replace(is_kept=command.is_kept)
        return await self._bring_up(opening._replace(**rules))

    async def _load(self, command: LoadSession) -> SessionInfo:
        opening = Opening(command.session_id, False, command.cwd, command.config, "resumed")
        return await self._bring_up(opening._replace(tools=command.tools, mcp_servers=command.mcp_servers))

    async def _fork(self, command: ForkSession) -> SessionInfo:
        journal = self._shared.journals.find(command.session_id)
        parent = journal.session if journal else Session.of(await self._shared.store.load(command.session_id))
        cwd = command.cwd or str(parent.metadata.get("cwd", ""))
        held = self._held.get(command.session_id)
        config = held.config if held is not None else None
        facts = fork(parent, command.at_message)
        opening = Opening(new_session_id(), True, cwd, config, "forked", facts)
        return await self._bring_up(opening._replace(tools=command.tools, mcp_servers=command.mcp_servers))

    async def _bring_up(self, opening: Opening) -> SessionInfo:
        while (held := self._held.get(opening.session_id)) is not None:
            await held.ready.wait()
            journal = self._shared.journals.find(opening.session_id)
            is_alive = self._shared.registry.find(service_name(opening.session_id)) is not None
            if journal is not None and is_alive and not held.is_leaving:
                return _same_folder(live_info(journal), opening)
            await held.released.wait()
        if self._shared.registry.find(service_name(opening.session_id)) is not None:
            raise SessionInUse(f"session {opening.session_id} was closed and is still ending; try again in a moment")
        held = self._held[opening.session_id] = HeldSession(self._shared, self._supervisor, opening)
        info: SessionInfo | Exception = await self._nursery.start(self._hold, held)
        if isinstance(info, Exception):
            raise info
        return info

    async def _hold(self, held: HeldSession, *, task_status: trio.TaskStatus[SessionInfo | Exception]) -> None:
        try:
            await held.hold(task_status=task_status)
        finally:
            del self._held[held.session_id]
            held.ready.set()
            held.released.set()

    # --- going ---

    async def _hand_over(self, info: SessionInfo, envelope: Envelope[SessionsCommand]) -> None:
        """A session whose asker has left, and that nobody else was given, is let go: nobody would ever close it."""
        envelope.reply(info)
        held = self._held.get(info.session_id)
        if held is None:
            return
        if envelope.answer is not None:
            held.offers += 1
            await envelope.answer.asker_left.wait()  # with the session, or cancelled at the last moment
            held.offers -= 1
        held.is_given = held.is_given or envelope.answer is None or envelope.answer.is_taken
        if not held.is_given and not held.offers:
            await self._close(info.session_id)

    async def _close(self, session_id: str) -> None:
        held = self._held.get(session_id)
        if held is not None:
            await held.close()


def _same_folder(info: SessionInfo, opening: Opening) -> SessionInfo:
    if opening.steps is not None:
        raise SessionInUse(f"session {info.session_id} is open already: close it before an engine drives it")
    if opening.create and opening.cwd != info.cwd:
        raise SessionInUse(f"session {info.session_id} is open already, and works in {info.cwd}")
    return info


def _caused(error: AarError, cause: Exception) -> AarError:
    error.__cause__ = cause
    return error


def _info(entry: StoredSession) -> SessionInfo:
    return SessionInfo(
        session_id=entry.session_id,
        cwd=entry.cwd,
        title=entry.title,
        updated_at=entry.updated_at,
        state=entry.state,
        step_count=entry.step_count,
        name=entry.name,
    )
