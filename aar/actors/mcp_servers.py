"""The MCP servers of a runtime: one service for all sessions that name the same server and folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import trio

from aar.kernel import Child, Exhausted, Ref, Restart, Supervisor
from aar.messages.mcp import McpCommand, McpServer
from aar.processes.environment import child_environment

__all__ = ["MAILBOX", "McpServers"]

MAILBOX = 16  # requests that may wait; then whoever asks waits
STOP_GRACE = 6.0  # seconds a server may take to end: end of input, SIGTERM, SIGKILL, and what it forked


@dataclass
class _Shared:
    ref: Ref[McpCommand]
    key: str
    users: int = 0


class McpServers:
    """Services by server and folder. Sessions acquire and release; the last one to release stops it."""

    def __init__(self, supervisor: Supervisor, nursery: trio.Nursery) -> None:
        self._supervisor = supervisor
        self._nursery = nursery
        self._by_key: dict[str, _Shared] = {}
        self._started = 0

    def acquire(self, server: McpServer, *, cwd: str, env_keep: Iterable[str] = ()) -> Ref[McpCommand]:
        """The address of the server, which is connected in the background.

        Its process gets our environment without the keys to models; names in `env_keep` stay, its own `env` is added.
        """
        kept = sorted(env_keep)
        key = json.dumps([server.dump(), cwd, kept], sort_keys=True)
        shared = self._by_key.get(key)
        if shared is None:
            from aar.actors.mcp_server import mcp_server  # few sessions have servers

            self._started += 1
            env = child_environment(keep=kept, extra=server.env)
            child = Child(
                f"mcp:{self._started}:{server.name}",
                mcp_server(server, cwd, env),
                restart=Restart.TRANSIENT,
                exhausted=Exhausted.GIVE_UP,
                capacity=MAILBOX,
            )
            shared = self._by_key[key] = _Shared(self._supervisor.start(child), key)
        shared.users += 1
        return shared.ref

    def release(self, ref: Ref[McpCommand]) -> None:
        """This user is done with it."""
        shared = next((one for one in self._by_key.values() if one.ref is ref), None)
        if shared is None:
            return
        shared.users -= 1
        if not shared.users:
            del self._by_key[shared.key]
            self._nursery.start_soon(self._stop, shared)

    async def close_all(self) -> None:
        """For the end of the runtime: all at the same time."""
        remaining, self._by_key = list(self._by_key.values()), {}
        async with trio.open_nursery() as nursery:
            for shared in remaining:
                nursery.start_soon(self._stop, shared)

    async def _stop(self, shared: _Shared) -> None:
        with trio.CancelScope(shield=True):
            await self._supervisor.stop(shared.ref.name, grace=STOP_GRACE)
