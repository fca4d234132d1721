"""One open session: its file, its service, and all that reads along, from before it is opened until it is let go."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from aar.actors.additions import Additions, Commands, Extend, Observer, add_tools
from aar.actors.closing import repair
from aar.actors.errand import Delegate
from aar.actors.mcp_servers import McpServers
from aar.actors.mcp_tools import SessionServers
from aar.actors.providers import Providers
from aar.actors.session import session
from aar.actors.workbench import Workbench
from aar.config import without_keys
from aar.errors import InvalidMessage
from aar.hooks import Hooks
from aar.journal.journal import Journal, Journals
from aar.journal.state import Session
from aar.journal.store import Store
from aar.kernel import Child, Exhausted, Mailbox, Ref, Registry, Restart, Supervisor
from aar.messages.approvals import ApprovalsCommand
from aar.messages.events import Event, Notice, SessionEvent
from aar.messages.mcp import McpCommand, McpServer
from aar.messages.session import SessionCommand, SessionInfo
from aar.messages.settings import AgentConfig
from aar.providers.base import Provider
from aar.tools.registry import ToolRegistry, ToolSpec

if TYPE_CHECKING:
    from aar.actors.injecting import Injecting
    from aar.actors.stepping import StepRules

__all__ = ["HeldSession", "Opening", "Share", "Shared", "live_info", "service_name"]

CLOSE_GRACE = 15.0  # seconds a session may take to close its turn before its file is let go
OBSERVER_GRACE = 2.0  # seconds for the last words of extensions, twice: before they are cancelled, and after

logger = logging.getLogger(__name__)

Share = Callable[[SessionInfo, Journal, Ref[SessionCommand]], Observer]
"""Gives what lets other processes use a session for as long as it is open."""


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
    share: Share | None = None
    delegate: Delegate | None = None


class Opening(NamedTuple):
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
    steps: StepRules | None = None
    is_kept: bool = True


class HeldSession:
    """A session that is ours. `ready` is set when it is open, or could not be opened, `released` after it was let go.

    Whoever runs `hold` sets both, also when that fails.
    """

    def __init__(self, shared: Shared, supervisor: Supervisor, opening: Opening) -> None:
        self.session_id = opening.session_id
        self.config = opening.config or shared.config
        self.ready = trio.Event()
        self.released = trio.Event()
        self.is_leaving = False
        self.offers = 0  # answers that are on their way to somebody
        self.is_given = False  # somebody who asked for it has it, or it was opened without asking for an answer
        self._shared = shared
        self._supervisor = supervisor
        self._opening = opening
        self._name = service_name(opening.session_id)
        self._scope = trio.CancelScope()  # cancelled to close it
        self._servers: list[Ref[McpCommand]] = []  # MCP servers to give back
        self._observers: list[str] = []  # services of extensions that read its journal

    async def close(self) -> None:
        """Returns when its last fact is written and its file let go."""
        self.is_leaving = True
        await self.ready.wait()
        self._scope.cancel()
        await self.released.wait()

    async def hold(self, *, task_status: trio.TaskStatus[SessionInfo | Exception]) -> None:
        """Open the file, start the service, and let go of both when the session has ended or is closed.

        Started is the session, or why it could not be opened.
        """
        opening, shared = self._opening, self._shared
        try:
            async with self._store().open(opening.session_id, create=opening.create) as log:
                fold = Session.of(log.stored)
                if opening.trace_id and not fold.seq:
                    fold.trace_id = opening.trace_id
                stored = fold.metadata.get("cwd", "")
                fold.metadata["cwd"] = opening.cwd if opening.create else stored or opening.cwd
                journal = Journal(log, fold, log.stored.records)
                try:
                    await self._begin(journal, log.stored.warnings)
                    task_status.started(live_info(journal))
                    self.ready.set()
                    await self._until_gone()
                finally:
                    journal.close()
                    await self._see_off_observers()
                    shared.journals.remove(journal)
                    for server in self._servers:
                        shared.mcp_servers.release(server)
        except Exception as error:  # a wall, also for what happens after the asker has its answer
            if not _is_started(task_status, error):
                logger.error("session %s: %s", opening.session_id, error, exc_info=error)

    def _store(self) -> Store:
        if self._opening.is_kept:
            return self._shared.store
        from aar.journal.memory import MemoryStore  # few sessions are for the moment

        return MemoryStore()

    async def _begin(self, journal: Journal, warnings: Sequence[str]) -> None:
        opening, shared, config = self._opening, self._shared, self.config
        cwd = str(journal.session.metadata["cwd"])
        _check_folder(cwd)
        if config.shell_hooks or config.injectors or config.reviewer:
            _check_named(config)  # a mistake in there leaves no session behind
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
        notices += await _of_skills(toolbox, shared.home, cwd, config)
        if opening.steps is not None:
            toolbox = opening.steps.toolbox(toolbox, shared.threads)
        for spec in opening.tools:
            toolbox.add(spec)
        problems = [*additions.problems, *add_tools(toolbox, additions.tools, config)]
        notices += [Notice(kind="extension", text=text) for text in problems]
        await journal.append(first, *notices, *facts, header=True)
        await repair(journal)  # a copy of a session that is in the middle of a turn
        shared.journals.add(journal)
        bench = self._bench(journal, toolbox, additions)
        body = session(bench, shared.providers, given=shared.provider, given_for=_label(shared.config))
        ref = self._supervisor.start(Child(self._name, body, exhausted=Exhausted.GIVE_UP))
        self._start_observers(additions.observers)
        if config.transcript_file and opening.is_kept:
            from aar.actors.mirroring import mirror_of  # few settings ask for it

            self._start_observers([mirror_of(journal, config.transcript_file, journal.seq)])
        if shared.share is not None and opening.is_kept:
            self._start_observers([shared.share(live_info(journal), journal, ref)])

    def _bench(self, journal: Journal, toolbox: ToolRegistry, additions: Additions) -> Workbench:
        shared, config, cwd = self._shared, self.config, str(journal.session.metadata["cwd"])
        servers = [
            (server, shared.mcp_servers.acquire(server, cwd=cwd, env_keep=config.tools.env_keep))
            for server in self._opening.mcp_servers
        ]
        self._servers += [ref for _, ref in servers]
        bench = Workbench(
            session_id=self._opening.session_id,
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
            delegate=shared.delegate if self._opening.is_kept else None,
        )
        if config.shell_hooks:
            bench = replace(bench, hooks=bench.hooks.and_then(_hooks_of_shell(bench)))
        if config.reviewer:
            bench = replace(bench, hooks=bench.hooks.and_then(_hooks_of_reviewer(bench, shared.providers)))
        if bench.hooks.injectors is not None or config.injectors:
            bench = replace(bench, injecting=_injecting(bench))
        return bench if self._opening.steps is None else self._opening.steps.bench(bench)

    async def _until_gone(self) -> None:
        """The file is let go only after the session has written its last fact, also when all are told to end.

        A session that does not end within its grace loses its file all the same.
        """
        try:
            with self._scope:
                await self._supervisor.wait_gone(self._name)
        finally:
            with trio.CancelScope(shield=True):
                await self._supervisor.stop(self._name, grace=CLOSE_GRACE)

    # --- extensions that read along ---

    def _start_observers(self, observers: Sequence[Observer]) -> None:
        for observer in observers:
            self._supervisor.start(Child(observer.name, _following(observer), restart=Restart.TEMPORARY))
            self._observers.append(observer.name)

    async def _see_off_observers(self) -> None:
        """The journal is closed: observers read what is left of it and go, in a moment or unfinished."""
        with trio.move_on_after(OBSERVER_GRACE, shield=True):
            for name in self._observers:
                await self._supervisor.wait_gone(name)
        with trio.CancelScope(shield=True):
            for name in self._observers:
                await self._supervisor.stop(name, grace=OBSERVER_GRACE)


def _is_started(task_status: trio.TaskStatus[SessionInfo | Exception], error: Exception) -> bool:
    """Whether the error could be handed to whoever asked; an opened session has nobody who waits for it."""
    try:
        task_status.started(error)
    except RuntimeError:
        return False
    return True


def _check_named(config: AgentConfig) -> None:
    """What the settings say of hooks and injectors. Raises `InvalidSetting`."""
    from aar.config.reviewer import parse_reviewer  # most users have none
    from aar.config.shell_hooks import parse_shell_hooks
    from aar.injectors.choosing import chosen_injectors

    parse_reviewer(config.reviewer, config.providers)
    parse_shell_hooks(config.shell_hooks)
    chosen_injectors(config.injectors)


async def _of_skills(toolbox: ToolRegistry, home: Path, cwd: str, config: AgentConfig) -> list[Notice]:
    if "skill" not in toolbox:
        return []
    from aar.actors.skills import find_skills  # few settings ask for it

    return [Notice(kind="skill", text=text) for text in await find_skills(toolbox, home, cwd, config.safety)]


def _hooks_of_shell(bench: Workbench) -> Hooks:
    from aar.actors.shell_hooks import hooks_of_shell

    return hooks_of_shell(bench.base.shell_hooks, lambda: bench.config, session_id=bench.session_id, cwd=bench.cwd)


def _hooks_of_reviewer(bench: Workbench, providers: Providers) -> Hooks:
    from aar.actors.reviewing import hooks_of_reviewer
    from aar.config.reviewer import parse_reviewer

    reviewer = parse_reviewer(bench.base.reviewer, bench.base.providers)
    return hooks_of_reviewer(reviewer, bench, providers) if reviewer is not None else Hooks()


def _injecting(bench: Workbench) -> Injecting | None:
    from aar.actors.injecting import injecting_for  # most sessions have none
    from aar.injectors import Injectors
    from aar.injectors.choosing import chosen_injectors

    chosen = bench.base.injectors
    own = Injectors(chosen_injectors(chosen))
    others = bench.hooks.injectors
    return injecting_for(
        bench.journal,
        own if others is None else others.and_then(own),
        last_words=chosen.get("max_steps", False) is not False,
    )


def _following(observer: Observer) -> Callable[[Mailbox[Any]], Awaitable[None]]:
    async def body(_: Mailbox[Any]) -> None:
        await observer.follow()

    return body


def service_name(session_id: str) -> str:
    """By which the registry knows a session's service."""
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


def live_info(journal: Journal) -> SessionInfo:
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
        name=str(fold.metadata.get("name", "")),
    )
