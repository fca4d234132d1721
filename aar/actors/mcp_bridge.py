"""Tools of MCP servers in a registry of the application's own, for as long as a block runs.

The same services as in a runtime, under a supervisor of the block's own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from aar.actors.mcp_servers import McpServers
from aar.actors.mcp_tools import SessionServers
from aar.kernel import errors_alone, open_supervisor
from aar.mcp.package import require_package
from aar.messages.events import Notice
from aar.messages.mcp import McpServer, McpStatus
from aar.messages.settings import ToolConfig
from aar.processes.guard import current_guard
from aar.tools.registry import ToolRegistry

__all__ = ["open_mcp_bridge"]

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_mcp_bridge(
    registry: ToolRegistry,
    servers: Sequence[McpServer],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env_keep: Iterable[str] = (),
) -> AsyncIterator[tuple[McpStatus, ...]]:
    """The tools of these servers in `registry` until the block is left. Gives what became of each server.

    The block begins when each has answered or failed; one that failed is logged, tried again, and its tools come when
    it is there. The registry follows servers whose tools change; a session has the tools that were there when it was
    opened. Programs work in `cwd`, the process's own folder by default, without the keys to models except those named
    in `env_keep`. Raises `McpCollision`, a `ValueError`, when a tool would have the name of another one, also of a
    built-in one, and `MissingMcp` when the package is not installed.
    """
    require_package()
    folder = _folder(cwd)
    async with AsyncExitStack() as stack:
        stack.enter_context(errors_alone())
        await stack.enter_async_context(current_guard())
        nursery = await stack.enter_async_context(trio.open_nursery())
        shared = McpServers(await stack.enter_async_context(open_supervisor()), nursery)
        seats = [(server, shared.acquire(server, cwd=folder, env_keep=env_keep)) for server in servers]
        kept = SessionServers(seats, registry, _Log(), refused=ToolConfig().enabled_builtins)
        try:
            async with trio.open_nursery() as following:
                following.start_soon(kept.keep)
                yield await kept.statuses(wait=True)
                following.cancel_scope.cancel()
        finally:
            kept.take_back()
            with trio.CancelScope(shield=True):
                await shared.close_all()


def _folder(cwd: str | os.PathLike[str] | None) -> str:
    return os.path.realpath(cwd if cwd is not None else os.getcwd())


class _Log:
    """Notices of a block that has no journal."""

    async def append(self, *notices: Notice) -> None:
        for notice in notices:
            logger.warning("%s", notice.text)
        await trio.lowlevel.checkpoint()
