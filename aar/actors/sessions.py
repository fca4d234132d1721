"""Service: the sessions of a runtime. Opens, loads, forks, lists, closes and deletes them.

Each open session is held by a task of its own, which owns the session's file and starts the session's service. The
mailbox loop only hands requests to tasks, so a large file that loads slowly keeps nobody waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, assert_never

import trio

from aar.actors.additions import Additions, Commands, Extend, Observer, add_tools
from aar.actors.closing import repair
from aar.actors.mcp_servers import McpServers
from aar.actors.mcp_tools import SessionServers
from aar.actors.providers import Providers
from aar.actors.session import session
from aar.actors.workbench import Workbench
from aar.config import without_keys
from aar.errors import AarError, InvalidMessage, SessionError, SessionInUse
from aar.hooks import Hooks
from aar.journal.journal import Journal, Journals
from aar.journal.state import Session, fork
from aar.journal.store import Store, StoredSession
from aar.kernel import Child, Envelope, Exhausted, Mailbox, Ref, Registry, Restart, Supervisor, open_supervisor
from aar.messages.approvals import ApprovalsCommand
from aar.messages.base import new_session_id
from aar.messages.events import Event, Notice, SessionEvent
from aar.messages.mcp import McpCommand, McpServer
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
from aar.messages.settings import AgentConfig
from aar.providers.base import Provider
from aar.tools.registry import ToolRegistry, ToolSpec

__all__ = ["Shared", "sessions"]

CLOSE_GRACE = 15.0  # seconds a session may take to close its turn before its file is let go
OBSERVER_GRACE = 2.0  # seconds for the last words of extensions, twice: before they are cancelled, and after

logger = logging.getLogger(__name__)


class Shared(NamedTuple):
    """What the sessions of one runtime have in common. `provider` is one that the application brought itself."""

    config: AgentConfig
    store: Store
    journals: Journals
    registry: Registry
    providers: Providers
    mcp_servers: McpServers
    tools: Callable[[AgentConfig], ToolRegistry]
    approvals: Ref[ApprovalsCommand]
    hooks: Hooks
    threads: trio.CapacityLimiter
    home: Path
    provider: Provider | None = None
    extend: Extend | None = None


def sessions(shared: Shared) -> Callable[[Mailbox[SessionsCommand]], Awaitable[None]]:
    """The body of the service. One per runtime."""

    async def body(mailbox: Mailbox[SessionsCommand]) -> None:
        async with open_supervisor(registry=shared.registry) as supervisor, trio.open_nursery() as nursery:
            house = _House(shared, supervisor, nursery)
            async for envelope in mailbox:
                nursery.start_soon(house.serve, envelope)

    return body


class _Opening(NamedTuple):
    """How a session comes to life: what it starts from, and what is recorded first."""

    session_id: str
    create: bool
    cwd: str
    config: AgentConfig | None
    action: str
    facts: Sequence[Event] = ()
    trace_id: str = ""
    tools: Sequence[ToolSpec] = ()
    mcp_servers: Sequence[McpServer] = ()


@dataclass
class _Held:
    """A session that is ours, from before its file is opened until after it has been let go."""

    config: AgentConfig
    ready: trio.Event = field(default_factory=trio.Event)  # it is open, or could not be opened
    released: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)  # cancelled to close it
    servers: list[Ref[McpCommand]] = field(default_factory=list)  # MCP servers to give back
    observers: list[str] = field(default_factory=list)  # services of extensions that read its journal
    is_leaving: bool = False
    offers: int = 0  # answers that are on their way to somebody
    is_given: bool = False  # somebody who asked for it has it, or it was opened without asking for an answer


class _House:
    def __init__(self, shared: Shared, supervisor: Supervisor, nursery: trio.Nursery) -> None:
        self._shared = shared
        self._supervisor = supervisor
        self._nursery = nursery
        self._held: dict[str, _Held] = {}

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
        opening = _Opening(session_id, True, command.cwd, command.config, "started", trace_id=command.trace_id)
        return await self._bring_up(opening._replace(tools=command.tools, mcp_servers=command.mcp_servers))

    async def _load(self, command: LoadSession) -> SessionInfo:
        opening = _Opening(command.session_id, False, command.cwd, command.config, "resumed")
        return await self._bring_up(opening._replace(tools=command.tools, mcp_servers=command.mcp_servers))

    async def _fork(self, command: ForkSession) -> SessionInfo:
        journal = self._shared.journals.find(command.session_id)
        parent = journal.session if journal else Session.of(await self._shared.store.load(command.session_id))
        cwd = command.cwd or str(parent.metadata.get("cwd", ""))
        held = self._held.get(command.session_id)
        config = held.config if held is not None else None
        facts = fork(parent, command.at_message)
        opening = _Opening(new_session_id(), True, cwd, config, "forked", facts)
        return await self._bring_up(opening._replace(tools=command.tools, mcp_servers=command.mcp_servers))

    async def _bring_up(self, opening: _Opening) -> SessionInfo:
        while (held := self._held.get(opening.session_id)) is not None:
            await held.ready.wait()
            journal = self._shared.journals.find(opening.session_id)
            is_alive = self._shared.registry.find(_name(opening.session_id)) is not None
            if journal is not None and is_alive and not held.is_leaving:
                return _same_folder(_live_info(journal), opening)
            await held.released.wait()
        held = self._held[opening.session_id] = _Held(opening.config or self._shared.config)
        info: SessionInfo | Exception = await self._nursery.start(self._hold, opening, held)
        if isinstance(info, Exception):
            raise info
        return info

    async def _hold(
        self, opening: _Opening, held: _Held, *, task_status: trio.TaskStatus[SessionInfo | Exception]
    ) -> None:
        try:
            async with self._shared.store.open(opening.session_id, create=opening.create) as log:
                fold = Session.of(log.stored)
                if opening.trace_id and not fold.seq:
                    fold.trace_id = opening.trace_id
                stored = fold.metadata.get("cwd", "")
                fold.metadata["cwd"] = opening.cwd if opening.create else stored or opening.cwd
                journal = Journal(log, fold, log.stored.records)
                try:
                    await self._begin(journal, opening, held, log.stored.warnings)
                    task_status.started(_live_info(journal))
                    held.ready.set()
                    await self._until_gone(opening.session_id, held.scope)
                finally:
                    journal.close()
                    await self._see_off(held)
                    self._shared.journals.remove(journal)
                    for server in held.servers:
                        self._shared.mcp_servers.release(server)
        except Exception as error:  # the same wall, for what happens after the asker has its answer
            if not self._is_started(task_status, error):
                logger.error("session %s: %s", opening.session_id, error, exc_info=error)
        finally:
            del self._held[opening.session_id]
            held.ready.set()
            held.released.set()

    @staticmethod
    def _is_started(task_status: trio.TaskStatus[SessionInfo | Exception], error: Exception) -> bool:
        """Whether the error could be handed to whoever asked; an opened session has nobody who waits for it."""
        try:
            task_status.started(error)
        except RuntimeError:
            return False
        return True

    async def _begin(self, journal: Journal, opening: _Opening, held: _Held, warnings: Sequence[str]) -> None:
        shared, config = self._shared, held.config
        cwd = str(journal.session.metadata["cwd"])
        _check_folder(cwd)
        additions = await shared.extend(journal, config) if shared.extend is not None else Additions()
        await repair(journal)
        data: dict[str, Any] = {"session_id": opening.session_id, "cwd": cwd, "config": without_keys(config)}
        facts = list(opening.facts)
        action = "resumed" if opening.action == "started" and journal.seq else opening.action
        if opening.action == "forked" and facts:
            data["forked_from"] = facts.pop(0).data.get("forked_from", "")
        notices = [Notice(kind="journal_recovered", text=text) for text in warnings]
        first = SessionEvent(action=action, data=data)
        toolbox = shared.tools(config)
        for spec in opening.tools:
            toolbox.add(spec)
        problems = [*additions.problems, *add_tools(toolbox, additions.tools, config)]
        notices += [Notice(kind="extension", text=text) for text in problems]
        await journal.append(first, *notices, *facts, header=True)
        await repair(journal)  # a copy of a session that is in the middle of a turn
        shared.journals.add(journal)
        bench = self._bench(journal, opening, held, toolbox, additions)
        body = session(bench, shared.providers, given=shared.provider, given_for=_label(shared.config))
        self._supervisor.start(Child(_name(opening.session_id), body, exhausted=Exhausted.GIVE_UP))
        self._start_observers(additions, held)

    def _bench(
        self, journal: Journal, opening: _Opening, held: _Held, toolbox: ToolRegistry, additions: Additions
    ) -> Workbench:
        shared, config, cwd = self._shared, held.config, str(journal.session.metadata["cwd"])
        servers = [
            (server, shared.mcp_servers.acquire(server, cwd=cwd, env_keep=config.tools.env_keep))
            for server in opening.mcp_servers
        ]
        held.servers += [ref for _, ref in servers]
        return Workbench(
            session_id=opening.session_id,
            cwd=cwd,
            journal=journal,
            base=config,
            toolbox=toolbox,
            approvals=shared.approvals,
            hooks=shared.hooks.and_then(additions.hooks),
            threads=shared.threads,
            home=shared.home,
            servers=SessionServers(servers, toolbox, journal),
            commands=Commands(additions.commands),
            prompt_parts=additions.prompt,
        )

    # --- extensions that read along ---

    def _start_observers(self, additions: Additions, held: _Held) -> None:
        for observer in additions.observers:
            self._supervisor.start(Child(observer.name, _following(observer), restart=Restart.TEMPORARY))
            held.observers.append(observer.name)

    async def _see_off(self, held: _Held) -> None:
        """The journal is closed: observers read what is left of it and go, in a moment or unfinished."""
        with trio.move_on_after(OBSERVER_GRACE, shield=True):
            for name in held.observers:
                await self._supervisor.wait_gone(name)
        with trio.CancelScope(shield=True):
            for name in held.observers:
                await self._supervisor.stop(name, grace=OBSERVER_GRACE)

    async def _until_gone(self, session_id: str, scope: trio.CancelScope) -> None:
        """The file is let go only after the session has written its last fact, also when all are told to end.

        A session that does not end within its grace loses its file all the same.
        """
        try:
            with scope:
                await self._supervisor.wait_gone(_name(session_id))
        finally:
            with trio.CancelScope(shield=True):
                await self._supervisor.stop(_name(session_id), grace=CLOSE_GRACE)

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
        if held is None:
            return
        held.is_leaving = True
        await held.ready.wait()
        held.scope.cancel()
        await held.released.wait()


def _following(observer: Observer) -> Callable[[Mailbox[Any]], Awaitable[None]]:
    async def body(_: Mailbox[Any]) -> None:
        await observer.follow()

    return body


def _name(session_id: str) -> str:
    return f"session:{session_id}"


def _label(config: AgentConfig) -> str:
    """What a provider that the application brought stands for: the model of the runtime's own settings."""
    try:
        return config.resolve_provider().label
    except ValueError:
        return ""


def _check_folder(cwd: str) -> None:
    if not Path(cwd).is_absolute():
        raise InvalidMessage(f"the working folder must be an absolute path, not {cwd!r}")


def _same_folder(info: SessionInfo, opening: _Opening) -> SessionInfo:
    if opening.create and opening.cwd != info.cwd:
        raise SessionInUse(f"session {info.session_id} is open already, and works in {info.cwd}")
    return info


def _caused(error: AarError, cause: Exception) -> AarError:
    error.__cause__ = cause
    return error


def _live_info(journal: Journal) -> SessionInfo:
    fold = journal.session
    updated_at = fold.metadata.get("updated_at")
    return SessionInfo(
        session_id=fold.session_id,
        cwd=str(fold.metadata.get("cwd", "")),
        title=str(fold.metadata.get("title") or fold.session_id[:12]),
        updated_at=float(updated_at)
        if isinstance(updated_at, int | float) and 0 <= updated_at < 253_000_000_000
        else 0.0,
        state=fold.state,
        step_count=fold.step_count,
    )


def _info(entry: StoredSession) -> SessionInfo:
    return SessionInfo(
        session_id=entry.session_id,
        cwd=entry.cwd,
        title=entry.title,
        updated_at=entry.updated_at,
        state=entry.state,
        step_count=entry.step_count,
    )
