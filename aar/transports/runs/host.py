"""What stands behind the API while it is served: a runtime with its sessions, and the runs in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import trio

from aar.agent import ApprovalCallback
from aar.errors import AarError, SessionNotFound
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig
from aar.runtime import Provider, Store, ToolRegistry, open_runtime
from aar.transports.http.refused import Refused
from aar.transports.runs.conversations import Conversations
from aar.transports.runs.runs import Runs

__all__ = ["DESCRIPTION", "Host", "Setup"]

DESCRIPTION = "Aar adaptive action & reasoning agent"


class Setup(NamedTuple):
    """What a host begins with. New sessions work in `cwd`, and have the `mcp_servers`; `home` is the user's folder."""

    config: AgentConfig
    store: Store
    cwd: str
    home: Path
    mcp_servers: tuple[McpServer, ...] = ()


class _Open(NamedTuple):
    setup: Setup
    conversations: Conversations
    runs: Runs


@dataclass(eq=False)
class Host:
    """`set_up` is called when it begins: until then nothing is read. `provider` stands in for that of the settings.

    `extensions`: sessions get those of the user, and others of his programs can attach to them, as in the terminal.
    """

    set_up: Callable[[], Setup]
    registry: ToolRegistry | None = None
    approval_callback: ApprovalCallback | None = None
    provider: Provider | None = None
    extensions: bool = False

    def __post_init__(self) -> None:
        self._open: _Open | None = None
        self._stop = trio.Event()
        self.gone = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there until `stop`. `gone` is set when it is over, also because of an error."""
        self._stop, self.gone = trio.Event(), trio.Event()
        try:
            await self._run(task_status)
        finally:
            self._open = None
            self.gone.set()

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        setup = self.set_up()
        async with open_runtime(
            setup.config,
            provider=self.provider,
            tools=self.registry,
            store=setup.store,
            home=setup.home,
            extensions=self.extensions,
            share=self.extensions,
        ) as runtime:
            conversations = Conversations(runtime.sessions, runtime.start, setup.cwd, setup.mcp_servers)
            runs = Runs(runtime, conversations, tools=self.registry, approval_callback=self.approval_callback)
            runtime.start("idle-sessions", conversations.let_go_of_idle_ones)
            self._open = _Open(setup, conversations, runs)
            task_status.started()
            await self._stop.wait()
            await self.close_runs()

    async def stop(self) -> None:
        """Returns when everything has ended and all sessions are saved."""
        self._stop.set()
        await self.gone.wait()

    async def close_runs(self) -> None:
        """Take no more runs, and wait until those there are have been cancelled. Sessions can still be asked for."""
        if self._open is not None:
            runs, conversations = self._open.runs, self._open.conversations
            await runs.close()
            await conversations.let_go_of_blank_ones()

    @property
    def config(self) -> AgentConfig:
        return self._opened.setup.config

    @property
    def runs(self) -> Runs:
        return self._opened.runs

    @property
    def _opened(self) -> _Open:
        if self._open is None:
            raise Refused(503, "The server is not ready")
        return self._open

    @property
    def conversations(self) -> Conversations:
        return self._opened.conversations

    async def newest(self, limit: int) -> list[dict[str, Any]]:
        """The stored sessions that were used last, in a few words, whoever uses them."""
        found, _ = await self._opened.setup.store.list(limit=limit)
        return [
            {
                "session_id": entry.session_id,
                "title": entry.title,
                "cwd": entry.cwd,
                "state": str(entry.state),
                "updated_at": entry.updated_at,
            }
            for entry in found
        ]

    async def session_ids(self) -> list[str]:
        """Of all stored sessions, sorted, whoever uses them."""
        return await self._opened.setup.store.ids()

    async def describe(self, session_id: str) -> dict[str, Any] | None:
        """A session in a few words, whoever uses it; `None` when there is none."""
        live = self._opened.conversations.find(session_id)
        try:
            if live is not None:
                status = await live.status()
                return _described(session_id, str(status.state), status.step_count, len(live.records()))
            stored = await self._opened.setup.store.load(session_id)
        except (SessionNotFound, ValueError):  # the latter: nothing that could be an id
            return None
        except AarError as error:
            raise Refused(409, str(error)) from error
        return _described(session_id, str(stored.header.state), stored.header.step_count, len(stored.records))


def _described(session_id: str, state: str, step_count: int, event_count: int) -> dict[str, Any]:
    return {"session_id": session_id, "state": state, "step_count": step_count, "event_count": event_count}
