"""Files and terminals of the client, as far as it offers them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from posixpath import normpath
from typing import Any, Protocol

import trio

from aar.editor import (
    Note,
    TerminalExit,
    TerminalOutput,
    ToolContext,
    ToolSpec,
    editor_file_tools,
    noted_file_tools,
    terminal_tool,
)
from aar.errors import AarError, ProtocolError
from aar.messages.settings import AgentConfig
from aar.transports.acp.handshake import ClientCapabilities
from aar.transports.acp.rpc import Connection
from aar.transports.acp.tool_views import Change

__all__ = ["Watchers", "client_tools"]

RELEASE_TIMEOUT = 10.0  # seconds that a client has to take back a terminal that came too late


class Watchers(Protocol):
    """Whoever tells the client what its own files and terminals are used for."""

    def note_change(self, session_id: str, call_id: str, change: Change) -> None: ...
    async def show_terminal(self, session_id: str, call_id: str, terminal_id: str) -> None: ...

    async def up_to_date(self, session_id: str) -> None:
        """Wait until the client has been told of the call that is about to ask it for something."""


def client_tools(
    connection: Connection,
    client: ClientCapabilities,
    config: AgentConfig,
    watchers: Watchers,
    nursery: trio.Nursery,
) -> list[ToolSpec]:
    """The tools that work through this client, or tell it what they change, and its terminals.

    Files are those of built-in tools that are enabled. A terminal is outside of every sandbox: where one is asked for,
    there are no terminals. `nursery` outlives every call: a terminal that came too late is given back there.
    """

    def note(ctx: ToolContext, path: str, old: str | None, new: str) -> None:
        watchers.note_change(ctx.session_id, ctx.tool_call_id, Change(path, old, new))

    files = [] if client.can_write_files else noted_file_tools(note)
    through = _Files(connection, watchers, note)
    files += editor_file_tools(through, reads=client.can_read_files, writes=client.can_write_files)
    tools = [tool for tool in files if tool.name in config.tools.enabled_builtins]
    if client.has_terminals and config.safety.sandbox.mode == "local":
        tools.append(terminal_tool(_Terminals(connection, watchers, nursery)))
    return tools


class _Files:
    def __init__(self, connection: Connection, watchers: Watchers, note: Note) -> None:
        self._connection = connection
        self._watchers = watchers
        self._note = note

    async def read(self, ctx: ToolContext, path: str) -> str:
        await self._watchers.up_to_date(ctx.session_id)
        answer = await self._connection.request("fs/read_text_file", {"sessionId": ctx.session_id, "path": path})
        content = answer.get("content") if isinstance(answer, dict) else None
        if not isinstance(content, str):
            raise ProtocolError("the editor's answer has no content")
        return content

    async def write(self, ctx: ToolContext, path: str, text: str, old: str | None) -> None:
        params = {"sessionId": ctx.session_id, "path": path, "content": text}
        await self._watchers.up_to_date(ctx.session_id)
        await self._connection.request("fs/write_text_file", params)
        self._note(ctx, path, old, text)


class _Terminals:
    def __init__(self, connection: Connection, watchers: Watchers, nursery: trio.Nursery) -> None:
        self._connection = connection
        self._watchers = watchers
        self._nursery = nursery

    async def create(
        self, ctx: ToolContext, command: str, args: Sequence[str], cwd: str, env: dict[str, str], limit: int
    ) -> str:
        params = {
            "sessionId": ctx.session_id,
            "command": command,
            "args": list(args),
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "cwd": normpath(cwd),
            "outputByteLimit": limit,
        }
        await self._watchers.up_to_date(ctx.session_id)

        def late(answer: Any) -> None:
            self._nursery.start_soon(self._take_back, ctx, answer)

        terminal_id = _terminal_of(await self._connection.request("terminal/create", params, late=late))
        try:
            await self._watchers.show_terminal(ctx.session_id, ctx.tool_call_id, terminal_id)
        except trio.Cancelled:
            late({"terminalId": terminal_id})
            raise
        return terminal_id

    async def _take_back(self, ctx: ToolContext, answer: Any) -> None:
        """The call has left, and its terminal came all the same."""
        with suppress(AarError), trio.move_on_after(RELEASE_TIMEOUT):
            await self.release(ctx, _terminal_of(answer))

    async def wait(self, ctx: ToolContext, terminal_id: str) -> TerminalExit:
        return _exit_of(await self._ask("wait_for_exit", ctx, terminal_id)) or TerminalExit()

    async def output(self, ctx: ToolContext, terminal_id: str) -> TerminalOutput:
        answer = await self._ask("output", ctx, terminal_id)
        if not isinstance(answer, dict):
            raise ProtocolError("the editor said nothing of what the command wrote")
        text = answer.get("output")
        is_truncated = answer.get("truncated") is True
        return TerminalOutput(text if isinstance(text, str) else "", is_truncated, _exit_of(answer.get("exitStatus")))

    async def kill(self, ctx: ToolContext, terminal_id: str) -> None:
        await self._connection.insist("terminal/kill", _named(ctx, terminal_id))

    async def release(self, ctx: ToolContext, terminal_id: str) -> None:
        await self._connection.insist("terminal/release", _named(ctx, terminal_id))

    async def _ask(self, what: str, ctx: ToolContext, terminal_id: str) -> Any:
        return await self._connection.request(f"terminal/{what}", _named(ctx, terminal_id))


def _named(ctx: ToolContext, terminal_id: str) -> dict[str, str]:
    return {"sessionId": ctx.session_id, "terminalId": terminal_id}


def _exit_of(answer: Any) -> TerminalExit | None:
    if not isinstance(answer, dict):
        return None
    code, signal = answer.get("exitCode"), answer.get("signal")
    is_code = isinstance(code, int) and not isinstance(code, bool)
    return TerminalExit(code if is_code else None, signal if isinstance(signal, str) else None)


def _terminal_of(answer: Any) -> str:
    terminal_id = answer.get("terminalId") if isinstance(answer, dict) else None
    if not isinstance(terminal_id, str):
        raise ProtocolError("the editor made no terminal")
    return terminal_id
