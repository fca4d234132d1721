"""From flags to a live session: the settings, the model, the runtime, the session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import trio

from aar.client import SessionHandle, Sessions, opening_problems
from aar.config import Loaded, secret_values
from aar.errors import AarError, ConfigError, SessionNotFound
from aar.logs import configure_logging
from aar.messages.events import AssistantMessage, ErrorEvent, ProviderMeta, TurnEnded, UserMessage
from aar.messages.mcp import McpServer
from aar.messages.session import SessionInfo
from aar.messages.settings import AgentConfig
from aar.runtime import Runtime, check_provider, checked_id, open_runtime, session_store
from aar.transports.program.exits import complain
from aar.transports.program.finding import with_model
from aar.transports.program.flags import Flags
from aar.transports.program.home import home_folder
from aar.transports.program.ids import Pages, whole_id
from aar.transports.program.screen import Screen
from aar.transports.program.servers import named_servers, tell_of_servers, wait_for_servers
from aar.transports.program.settings import here

if TYPE_CHECKING:
    from aar.roles import Roles

__all__ = ["Conversation", "open_conversation", "two_sessions"]

FORGETTING_TIMEOUT = 2.0  # seconds for deleting a session that is not kept
UNSENT = {"MissingKey", "MissingPackage"}  # errors after which no model has heard anything


class Conversation:
    """A live session with the settings in force, until it is left for a new one.

    `remark` says how it came to be, for people. `is_new`: it was begun here.
    """

    def __init__(
        self,
        sessions: Sessions,
        handle: SessionHandle,
        config: AgentConfig,
        servers: tuple[McpServer, ...] = (),
        roles: Callable[[], Roles] | None = None,
    ) -> None:
        self._sessions = sessions
        self._servers = servers
        self._make_roles = roles
        self._roles: Roles | None = None
        self.handle = handle
        self.config = config
        self.remark = ""
        self.is_new = False

    @property
    def owns(self) -> bool:
        """Whether the session is this process's own."""
        return True

    @property
    def goodbye(self) -> str:
        """A last word about it, for people."""
        return "" if self.is_blank else f"Session saved: {self.handle.session_id}"

    @property
    def is_blank(self) -> bool:
        """Whether it was begun here and nobody has said anything: it is not kept."""
        return self.is_new and not any(isinstance(record.event, UserMessage) for record in self.handle.records())

    @property
    def is_unheard(self) -> bool:
        """Whether it was begun here and nothing was sent to a model, for want of a key or a package."""
        events = [record.event for record in self.handle.records()]
        failures = [event.data.get("kind") for event in events if isinstance(event, ErrorEvent)]
        asked = any(isinstance(event, ProviderMeta | AssistantMessage) for event in events)
        return self.is_new and not asked and bool(failures) and set(failures) <= UNSENT

    async def switch_model(self, name: str) -> str:
        """Use another model from the next step on; gives its label. Raises `ConfigError`."""
        from aar.config.switching import model_patch

        self.config = await self.handle.configure(model_patch(self.config, name))
        return self.config.resolve_provider().label

    @property
    def has_roles(self) -> bool:
        """Whether `roles` can be asked for."""
        return self._make_roles is not None

    @property
    def roles(self) -> Roles:
        """The agents and modes that this session may switch to. Raises `ConfigError` where there can be none."""
        if self._roles is None:
            if self._make_roles is None:
                raise ConfigError("There are no agents and modes here.")
            self._roles = self._make_roles()
        return self._roles

    async def begin_as(self, agent: str, mode: str | None) -> None:
        """Put an agent and a mode in force as the session begins. Raises `ConfigError`."""
        self.config = (await self.roles.begin(self.handle, agent, mode)).config

    async def switch_role(self, role: Literal["agent", "mode"], name: str) -> tuple[str, ...]:
        """Another agent or mode from the next step on; `none` for none. Gives remarks. Raises `ConfigError`."""
        change = await self.roles.switch(self.handle, role, name)
        self.config = change.config
        return change.remarks

    async def reread(self) -> tuple[str, ...]:
        """To be called before a turn: agents and modes that were edited hold from here on. Gives what to tell people.

        A file that is wrong changes nothing.
        """
        if self._roles is None:
            return ()
        try:
            change = await self._roles.refresh(self.handle)
        except ConfigError as error:
            return (f"{error}\nThe agent and the mode stay as they were.",)
        if change is None:
            return ()
        self.config = change.config
        return change.remarks

    async def allow_what_is_kept(self) -> None:
        """What the user has allowed for good, here or everywhere, is not asked about. Raises `ConfigError`."""
        home = home_folder()
        if not (home / "trust" / "approvals.json").exists():
            return
        from aar.config.approvals import SavedApprovals  # most users have none

        cwd = self.handle.cwd
        for rule in await trio.to_thread.run_sync(SavedApprovals(home).rules_for, cwd, abandon_on_cancel=True):
            await self.handle.auto_approve(rule)

    async def start_over(self) -> str:
        """Go on in a new session with the same settings. Gives the id of the one that was left.

        Nothing happens, and it gives nothing, in a session in which nothing was said. What runs in the one that is left
        is cancelled; standing approvals stay behind with it.
        """
        if self.is_blank:
            return ""
        left = self.handle
        agent, mode = self._roles.in_force(left) if self._roles is not None else ("", "")
        config = self.roles.plain if agent or mode else self.config
        self.handle = await self._sessions.open(left.cwd, config=config, mcp_servers=self._servers)
        self.is_new = True
        if agent or mode:
            await self.begin_as(agent, mode)
        await self.allow_what_is_kept()
        await self._sessions.close(left.session_id)
        return left.session_id

    async def forget_if_blank(self) -> None:
        """Nothing stays of a session in which nothing was said."""
        if self.is_blank:
            await self.forget()

    async def forget(self) -> None:
        """Nothing stays of this session."""
        with trio.move_on_after(FORGETTING_TIMEOUT, shield=True), suppress(AarError):
            await self._sessions.delete(self.handle.session_id)


def two_sessions(flags: Flags) -> bool:
    """Whether the flags ask for two sessions at once; then the user has been told."""
    if flags.session is not None and flags.resume:
        complain("--session and --continue name two sessions: give one of them.")
        return True
    return False


@asynccontextmanager
async def open_conversation(loaded: Loaded, flags: Flags, screen: Screen) -> AsyncIterator[Conversation]:
    """The session that the flags ask for, in a runtime of its own, until the block is left.

    Raises `SessionNotFound`, `SessionInUse` and whatever keeps a model from being used.
    """
    cwd, home = here(), home_folder()
    servers = named_servers(flags.mcp, home)
    config = await with_model(loaded.watched(), screen)
    configure_logging(config.log_level, config.log_file, secrets=secret_values(config))  # a key may have been found
    check_provider(config)
    if not config.resolve_provider().api_key.isascii():
        raise ConfigError("provider.api_key: has letters that no key has. Copy the key again.")
    store = session_store(config, home=home, cwd=cwd)
    plain = config if loaded.plain is None else _roles(loaded, config, flags, cwd).plain
    async with open_runtime(plain, store=store, home=home, extensions=True, share=True) as runtime:
        roles = partial(_roles, loaded, config, flags)
        async with _told(runtime, screen):
            conversation = await _session(runtime.sessions, flags, cwd, plain, servers, roles)
            await _begin(conversation, loaded)
            await conversation.allow_what_is_kept()
            await wait_for_servers(conversation.handle, servers)
        for problem in opening_problems(conversation.handle):
            complain(problem)
        await tell_of_servers(conversation.handle, servers)
        try:
            yield conversation
        finally:
            await conversation.forget_if_blank()


def _told(runtime: Runtime, screen: Screen) -> AbstractAsyncContextManager[None]:
    if not screen.is_live:
        return nullcontext()
    from aar.transports.program.starting import told_while_starting

    return told_while_starting(runtime.start, screen)


def _roles(loaded: Loaded, config: AgentConfig, flags: Flags, cwd: str) -> Roles:
    from aar.transports.program.casting import roles_of  # most users have no agents

    return roles_of(loaded, config, flags, cwd)


async def _begin(conversation: Conversation, loaded: Loaded) -> None:
    """The agent and mode that flags name, else those that a resumed session had, else those of the settings."""
    told = {} if conversation.is_new else conversation.handle.metadata
    agent, mode = (_name(key, loaded, told) for key in ("agent", "mode"))
    if not agent and not mode and not told.get("agent") and not told.get("mode"):
        return
    try:
        await conversation.begin_as(agent, mode)
    except ConfigError as error:
        if conversation.is_new or "flag" in (loaded.origins["agent"], loaded.origins["mode"]):
            raise
        complain(f"{error}\nThe session goes on without the agent and the mode that it had.")
        await conversation.handle.configure({"agent": "", "mode": ""})


def _name(key: Literal["agent", "mode"], loaded: Loaded, told: Mapping[str, Any]) -> str:
    wanted = loaded.config.agent if key == "agent" else loaded.config.mode
    is_chosen = loaded.origins[key] == "flag" or (key == "mode" and wanted and loaded.origins["agent"] == "flag")
    return wanted if is_chosen or key not in told else str(told[key] or "")


async def _session(
    sessions: Sessions,
    flags: Flags,
    cwd: str,
    config: AgentConfig,
    servers: tuple[McpServer, ...],
    roles: Callable[[str], Roles],
) -> Conversation:
    session_id, remark = flags.session, ""
    if flags.resume:
        newest = (await sessions.list(cwd=cwd, limit=1)).sessions
        session_id = newest[0].session_id if newest else None
        remark = "" if newest else "There is no session of this folder yet: this is a new one."
    if session_id is None:
        handle = await sessions.open(cwd, mcp_servers=servers)
        conversation = Conversation(sessions, handle, config, servers, partial(roles, cwd))
        conversation.remark, conversation.is_new = remark, True
        return conversation
    try:
        checked_id(session_id)
        handle = await sessions.load(session_id, cwd=cwd, config=config, mcp_servers=servers)
    except (SessionNotFound, ValueError):
        session_id = await whole_id(session_id, _pages(sessions))
        handle = await sessions.load(session_id, cwd=cwd, config=config, mcp_servers=servers)
    conversation = Conversation(sessions, handle, config, servers, partial(roles, handle.cwd))
    conversation.remark = f"Resumed session {session_id}{_cut_off(handle)}"
    return conversation


def _cut_off(handle: SessionHandle) -> str:
    ends = [record.event for record in handle.records() if isinstance(record.event, TurnEnded)]
    return "\nIts last turn was interrupted." if ends and ends[-1].stop == "interrupted" else ""


def _pages(sessions: Sessions) -> Pages:
    async def page(cursor: str) -> tuple[list[SessionInfo], str]:
        found = await sessions.list(cursor=cursor)
        return found.sessions, found.cursor

    return page
