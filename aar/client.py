"""Using sessions: typed calls over mailboxes and journals. Transports know nothing below this.

Commands go to a session's mailbox; what happens is read from its journal, by any number of readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aar.errors import SessionClosed
from aar.handle import PromptContent, SessionHandle, opening_problems
from aar.journal.journal import Journals
from aar.kernel import Ref, Registry
from aar.messages.approvals import ApprovalsCommand
from aar.messages.mcp import McpServer
from aar.messages.session import (
    CloseSession,
    DeleteSession,
    ForkSession,
    ListSessions,
    LoadSession,
    OpenSession,
    SessionCommand,
    SessionInfo,
    SessionListing,
    SessionsCommand,
)
from aar.messages.settings import AgentConfig

if TYPE_CHECKING:
    from aar.actors.stepping import StepRules
    from aar.tools.registry import ToolSpec

__all__ = ["PromptContent", "SessionHandle", "Sessions", "opening_problems"]


def _tools(given: Any) -> tuple[ToolSpec, ...]:
    """Raises `TypeError` for a function that is no tool yet, or the name of one."""
    from aar.tools.registry import ToolSpec  # here: whoever has tools has loaded it

    if not isinstance(given, Iterable) or isinstance(given, str):
        raise TypeError(f"tools must be a list of tools (of a registry: list_tools()), not {given!r}")
    tools = tuple(given)
    for one in tools:
        if not isinstance(one, ToolSpec):
            raise TypeError(f"{one!r} is no tool: make one of a function with @tool")
    return tools


class Sessions:
    """The sessions of a runtime."""

    def __init__(
        self,
        sessions: Ref[SessionsCommand],
        approvals: Ref[ApprovalsCommand],
        registry: Registry,
        journals: Journals,
    ) -> None:
        self._sessions = sessions
        self._approvals = approvals
        self._registry = registry
        self._journals = journals

    async def open(
        self,
        cwd: str,
        *,
        config: AgentConfig | None = None,
        session_id: str | None = None,
        trace_id: str = "",
        tools: Sequence[ToolSpec] = (),
        mcp_servers: Sequence[McpServer] = (),
        steps: StepRules | None = None,
        is_kept: bool = True,
    ) -> SessionHandle:
        """A new session that works in `cwd` (an absolute path) for its whole life.

        `tools` are for this session alone. `mcp_servers` connect in the background; what becomes of them is told as
        facts. `steps` is what an engine brings; see `open_engine`. One that is not kept leaves nothing behind: it is in
        memory alone, whatever the store.
        """
        command = OpenSession(
            cwd=cwd,
            config=config,
            session_id=session_id,
            trace_id=trace_id,
            tools=_tools(tools),
            mcp_servers=tuple(mcp_servers),
            steps=steps,
            is_kept=is_kept,
        )
        return self._handle(await self._sessions.ask(command))

    async def load(
        self,
        session_id: str,
        *,
        cwd: str = "",
        config: AgentConfig | None = None,
        tools: Sequence[ToolSpec] = (),
        mcp_servers: Sequence[McpServer] = (),
    ) -> SessionHandle:
        """A stored session, alive again; an open one as it is.

        Raises `SessionNotFound`, `SessionInUse` when another process holds it, `CorruptJournal`.
        """
        command = LoadSession(
            session_id=session_id, cwd=cwd, config=config, tools=_tools(tools), mcp_servers=tuple(mcp_servers)
        )
        return self._handle(await self._sessions.ask(command))

    async def fork(
        self,
        session_id: str,
        *,
        at_message: int | None = None,
        cwd: str | None = None,
        tools: Sequence[ToolSpec] = (),
        mcp_servers: Sequence[McpServer] = (),
    ) -> SessionHandle:
        """A new session with the conversation of another, or with its first `at_message` messages."""
        command = ForkSession(
            session_id=session_id, at_message=at_message, cwd=cwd, tools=tuple(tools), mcp_servers=tuple(mcp_servers)
        )
        return self._handle(await self._sessions.ask(command))

    async def list(self, *, cwd: str | None = None, cursor: str = "", limit: int = 100) -> SessionListing:
        """Stored sessions, newest first."""
        return await self._sessions.ask(ListSessions(cwd=cwd, cursor=cursor, limit=limit))

    async def close(self, session_id: str) -> None:
        """Cancel what runs and let the session go. What it wrote stays; an unknown id is fine."""
        await self._sessions.ask(CloseSession(session_id=session_id))

    async def delete(self, session_id: str) -> bool:
        """Close and remove. Answers whether there was such a session."""
        return await self._sessions.ask(DeleteSession(session_id=session_id))

    def _handle(self, info: SessionInfo) -> SessionHandle:
        ref: Ref[SessionCommand] | None = self._registry.find(f"session:{info.session_id}")
        journal = self._journals.find(info.session_id)
        if ref is None or journal is None:
            raise SessionClosed(f"session {info.session_id} was closed as soon as it was opened")
        return SessionHandle(info, ref, self._approvals, journal)
