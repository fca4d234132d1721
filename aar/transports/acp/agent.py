"""The methods of the protocol, over the sessions of a runtime."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple, NoReturn

import trio

from aar.client import SessionHandle, opening_problems
from aar.errors import AarError, ActorStopped, ConfigError, InvalidMessage, SessionClosed, SessionNotFound
from aar.messages.events import ApprovalResolved, Compacted, TurnEnded
from aar.messages.mcp import McpServer
from aar.messages.session import SessionInfo
from aar.runtime import editor_mcp_servers
from aar.transports.acp.calls import Call, Reply
from aar.transports.acp.client_tools import client_tools
from aar.transports.acp.commands import CLEARED, commands_update, run_command
from aar.transports.acp.content import prompt_text
from aar.transports.acp.frames import INTERNAL, INVALID_REQUEST, NOT_FOUND, RpcError
from aar.transports.acp.handshake import ClientCapabilities
from aar.transports.acp.house import House
from aar.transports.acp.live import LiveSession, Shop
from aar.transports.acp.modes import NO_AGENT, is_ours, mode_patch, option_patch
from aar.transports.acp.opening import opened_for
from aar.transports.acp.params import entries_of, folder_of, optional_text, refused, text_of
from aar.transports.acp.rpc import Connection
from aar.transports.acp.tool_views import Change
from aar.transports.acp.updates import as_time, message_chunk, title_from

__all__ = ["Agent"]

PAGE = 100  # sessions in one answer to `session/list`
THREADS = 8  # looks at the disk at a time; one that does not answer keeps its place until it does

_STOPS = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "budget_exceeded": "max_tokens",
    "max_steps": "max_turn_requests",
    "refused": "refusal",
    "cancelled": "cancelled",
}


class _Wish(NamedTuple):
    """What a client asks for when it opens a session."""

    cwd: str
    servers: tuple[McpServer, ...]
    remarks: tuple[str, ...]


class Agent:
    """One client's agent. `serve` may be called by any number of tasks."""

    def __init__(self, house: House, connection: Connection, client: ClientCapabilities, nursery: trio.Nursery) -> None:
        self._sessions = house.sessions
        self._remark = house.remark
        self._servers = house.servers
        self._shop = Shop(connection, client, house.config, nursery, trio.CapacityLimiter(THREADS), house.says_yes)
        self._casting = house.casting
        self._tools = client_tools(connection, client, house.config, self, nursery)
        self._live: dict[str, LiveSession] = {}
        self._methods: dict[str, Callable[[Call], Awaitable[Reply]]] = {
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }

    async def serve(self, call: Call) -> Reply:
        """Raises `RpcError`, `AarError`."""
        return await self._methods[call.method](call)

    async def leave(self) -> None:
        """The client has left: cancel every prompt, and wait for their ends."""
        async with trio.open_nursery() as nursery:
            for live in list(self._live.values()):
                nursery.start_soon(live.end_prompt)

    # --- opening ---

    async def _new(self, call: Call) -> Reply:
        wish = await self._wish(call.params)

        async def open_it() -> SessionHandle:
            handle = await self._sessions.open(
                wish.cwd, config=self._shop.config, tools=self._tools, mcp_servers=wish.servers
            )
            return await self._cast(handle)

        async with opened_for(call, self._shop.nursery, open_it, self._remove) as handle:
            return await self._opened(self._adopt(handle, wish), wish, with_id=True)

    async def _load(self, call: Call) -> Reply:
        wish = await self._wish(call.params)
        async with self._loaded(call, wish, "Session not found: {}") as (live, wish):
            await live.replay(after=_cleared_at(live.handle))
            return await self._opened(live, wish)

    async def _resume(self, call: Call) -> Reply:
        wish = await self._wish(call.params)
        async with self._loaded(call, wish, "Cannot resume: session '{}' not found") as (live, wish):
            return await self._opened(live, wish)

    async def _fork(self, call: Call) -> Reply:
        wish, source = await self._wish(call.params), text_of(call.params, "sessionId")
        index = _fork_index(call.params)

        async def open_it() -> SessionHandle:
            try:
                handle = await self._sessions.fork(
                    source, at_message=index, cwd=wish.cwd, tools=self._tools, mcp_servers=wish.servers
                )
            except (SessionNotFound, InvalidMessage) as error:
                raise RpcError(NOT_FOUND, f"Cannot fork: session '{source}' not found") from error
            if source not in self._live:
                await _forget_choices(handle)
                return await self._cast(handle)
            return handle

        async with opened_for(call, self._shop.nursery, open_it, self._remove) as handle:
            return await self._opened(self._adopt(handle, wish), wish, with_id=True)

    @asynccontextmanager
    async def _loaded(self, call: Call, wish: _Wish, missing: str) -> AsyncIterator[tuple[LiveSession, _Wish]]:
        """The session, and what of the wish is left: one that is open keeps its servers, and its client is told."""
        session_id = text_of(call.params, "sessionId")

        async def open_it() -> SessionHandle:
            try:
                handle = await self._sessions.load(
                    session_id, cwd=wish.cwd, config=self._shop.config, tools=self._tools, mcp_servers=wish.servers
                )
                return handle if was_open else await self._cast(handle)
            except (SessionNotFound, InvalidMessage) as error:
                raise RpcError(NOT_FOUND, missing.format(session_id)) from error

        known = self._live.get(session_id)
        was_open = known is not None and not known.is_gone
        give_back = self._go_on if was_open else self._leave_again
        async with opened_for(call, self._shop.nursery, open_it, give_back) as handle:
            if known is not None and not known.is_gone:
                yield known, wish._replace(remarks=(*wish.remarks, *_not_added(wish.servers, known.servers)))
            else:
                yield self._adopt(handle, wish), wish

    async def _remove(self, handle: SessionHandle) -> None:
        """Nobody has learned of this session."""
        await self._forget_if_known(handle)
        await self._sessions.delete(handle.session_id)

    async def _go_on(self, handle: SessionHandle) -> None:
        """It was open before somebody wanted to load it, and stays so."""
        live = self._live.get(handle.session_id)
        if live is not None:
            live.go_on()

    async def _leave_again(self, handle: SessionHandle) -> None:
        await self._forget_if_known(handle)
        await self._sessions.close(handle.session_id)

    async def _forget_if_known(self, handle: SessionHandle) -> None:
        live = self._live.get(handle.session_id)
        if live is not None:
            await self._forget(live)

    async def _wish(self, params: dict[str, Any]) -> _Wish:
        """The client's own servers, and those of the user that it does not have."""
        named, remarks = editor_mcp_servers(entries_of(params))
        taken = {server.name for server in named}
        servers = (*named, *(one for one in self._servers if one.name not in taken))
        return _Wish(await folder_of(params, self._shop.threads), servers, remarks)

    def _adopt(self, handle: SessionHandle, wish: _Wish) -> LiveSession:
        live = self._live[handle.session_id] = LiveSession(handle, self._shop)
        live.servers = wish.servers
        return live

    async def _cast(self, handle: SessionHandle) -> SessionHandle:
        """The session, working as the agent and in the mode that it should."""
        await self._casting.begin(handle)
        return handle

    async def _opened(self, live: LiveSession, wish: _Wish, *, with_id: bool = False) -> Reply:
        """The answer; what happens in the session is told only behind it, since the client learns its id there."""
        live.offer = await self._casting.offer(live.handle)
        result = {"sessionId": live.handle.session_id, **live.state} if with_id else live.state
        remarks = [*wish.remarks, *([self._remark] if self._remark else []), *opening_problems(live.handle)]
        remarks += self._casting.remarks_on(live.handle)
        updates = [commands_update(await live.handle.commands()), *map(message_chunk, remarks)]
        return Reply(result, tuple(map(live.notification, updates)), live.begin)

    # --- keeping ---

    async def _list(self, call: Call) -> Reply:
        cwd, cursor = optional_text(call.params, "cwd"), optional_text(call.params, "cursor")
        try:
            found = await self._sessions.list(cwd=cwd, cursor=cursor or "", limit=PAGE)
        except InvalidMessage as error:
            raise refused(str(error)) from error
        entries = [_entry(info) for info in found.sessions if os.path.isabs(info.cwd)]
        return Reply({"sessions": entries, **({"nextCursor": found.cursor} if found.cursor else {})})

    async def _close(self, call: Call) -> Reply:
        live = self._open_session(call.params)
        await _point_of_no_return(call)
        await self._let_go(live)
        await self._sessions.close(live.handle.session_id)
        return Reply({})

    async def _delete(self, call: Call) -> Reply:
        session_id = text_of(call.params, "sessionId")
        await _point_of_no_return(call)
        live = self._live.get(session_id)
        if live is not None:
            await self._let_go(live)
        try:
            await self._sessions.delete(session_id)
        except InvalidMessage as error:
            raise refused(str(error)) from error
        return Reply({})

    async def _let_go(self, live: LiveSession) -> None:
        await live.end_prompt()
        await self._forget(live)

    def _open_session(self, params: dict[str, Any]) -> LiveSession:
        session_id = text_of(params, "sessionId")
        live = self._live.get(session_id)
        if live is None:
            raise RpcError(NOT_FOUND, f"Session not found: {session_id} is not open here; load or resume it first.")
        return live

    # --- turns ---

    async def _prompt(self, call: Call) -> Reply:
        live = self._open_session(call.params)
        text = prompt_text(call.params.get("prompt"))
        if live.is_busy:
            text = f"Prompt already in flight for session {live.handle.session_id}; cancel it, or wait for its end."
            raise RpcError(INVALID_REQUEST, text)
        live.set_busy(True)
        try:
            for remark in await self._casting.reread(live.handle):
                await live.tell(message_chunk(remark))
            if text.startswith("/") and (outcome := await run_command(live, text, call)):
                return Reply({"stopReason": outcome})
            end, trouble = await live.prompt(text, call)
            return Reply({"stopReason": _stop_reason(end, trouble)})
        except (ActorStopped, SessionClosed) as error:
            await self._forget(live)
            raise RpcError(INTERNAL, f"The session has ended ({error}). Load it again to go on.") from error
        except RpcError:
            raise
        except AarError as error:  # of a session that cannot record its turn: nothing else has told it
            await live.tell(message_chunk(str(error)))
            raise
        finally:
            live.set_busy(False)

    async def _forget(self, live: LiveSession) -> None:
        await live.end()
        self._casting.forget(live.handle.session_id)
        if self._live.get(live.handle.session_id) is live:
            del self._live[live.handle.session_id]

    # --- modes and options ---

    async def _set_mode(self, call: Call) -> Reply:
        live = self._open_session(call.params)
        await self._choose_mode(live, call.params.get("modeId"))
        return Reply({})

    async def _choose_mode(self, live: LiveSession, mode: Any) -> None:
        """One of the user's, or one of ours, which takes the place of the user's."""
        if any(mode == name for name, _ in live.offer.modes) and not is_ours(mode):
            await self._choose(live, "mode", mode)
            return
        patch = mode_patch(mode)
        if live.config.mode:
            await self._choose(live, "mode", NO_AGENT)
        await live.configure(patch)

    async def _choose(self, live: LiveSession, role: Literal["agent", "mode"], name: str) -> None:
        await live.ready()
        try:
            remarks = await self._casting.choose(live.handle, role, name)
        except ConfigError as error:
            raise refused(str(error)) from error
        await live.up_to_date()
        for remark in remarks:
            await live.tell(message_chunk(remark))

    async def _set_option(self, call: Call) -> Reply:
        live = self._open_session(call.params)
        option, value = text_of(call.params, "configId"), call.params.get("value")
        if option == "mode" or (option == "agent" and live.offer.agents):
            await (self._choose_mode(live, value) if option == "mode" else self._choose(live, "agent", str(value)))
            return Reply({"configOptions": live.options()})
        try:
            await live.configure(option_patch(live.base, live.config, option, value))
        except ConfigError as error:
            raise refused(str(error)) from error
        return Reply({"configOptions": live.options()})

    # --- for the tools of the client ---

    def note_change(self, session_id: str, call_id: str, change: Change) -> None:
        live = self._live.get(session_id)
        if live is not None:
            live.note_change(call_id, change)

    async def show_terminal(self, session_id: str, call_id: str, terminal_id: str) -> None:
        live = self._live.get(session_id)
        if live is not None:
            await live.show_terminal(call_id, terminal_id)

    async def up_to_date(self, session_id: str) -> None:
        live = self._live.get(session_id)
        if live is not None:
            await live.up_to_date()


def _not_added(wanted: tuple[McpServer, ...], there: tuple[McpServer, ...]) -> Iterator[str]:
    names = [repr(one.name) for one in wanted if one not in there]
    if names:
        yield f"This session is open already and keeps its MCP servers: close it first to use {', '.join(names)}."


async def _point_of_no_return(call: Call) -> None:
    """A cancel that comes from here on is too late: a session half closed would be nobody's."""
    call.cancel = _nothing
    await trio.lowlevel.checkpoint_if_cancelled()


def _nothing() -> None:
    pass


def _fork_index(params: dict[str, Any]) -> int | None:
    """How many messages to take along, from `_meta.messageIndex`; all of them without it."""
    meta = params.get("_meta")
    index = meta.get("messageIndex") if isinstance(meta, dict) else None
    if index is None:
        return None
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise refused("_meta.messageIndex must be a whole number, 0 or more")
    return index


def _entry(info: SessionInfo) -> dict[str, Any]:
    entry = {"sessionId": info.session_id, "cwd": info.cwd, "title": title_from(info.title)}
    return {**entry, "updatedAt": as_time(info.updated_at)} if info.updated_at else entry


def _cleared_at(handle: SessionHandle) -> int:
    """Up to where the conversation was cleared by its user, who does not want to see it again."""
    cleared = [one.seq for one in handle.records() if isinstance(one.event, Compacted) and one.event.data.get(CLEARED)]
    return cleared[-1] if cleared else 0


def _stop_reason(end: TurnEnded, trouble: str) -> str:
    """Raises `RpcError` for an end that is a failure; its text has been told as a message, too."""
    reason = _STOPS.get(end.stop)
    return reason if reason is not None else _fail(trouble or f"The turn ended: {end.stop}")


def _fail(text: str) -> NoReturn:
    raise RpcError(INTERNAL, text)


async def _forget_choices(handle: SessionHandle) -> None:
    """What was chosen while another process had the session open does not hold here."""
    await handle.configure({"provider": None, "safety": None})
    standing = {
        one.event.tool_name
        for one in handle.records()
        if isinstance(one.event, ApprovalResolved) and one.event.scope == "session"
    }
    for tool_name in sorted(standing):
        await handle.revoke(tool_name)
