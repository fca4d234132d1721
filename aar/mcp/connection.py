"""One connection to a server: its tools, calls, resources and prompts, in our words and with our errors.

The package `mcp` is loaded when the first server is connected: it takes half a second.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from aar._version import __version__
from aar.errors import McpError, McpUnavailable
from aar.groups import leaves
from aar.mcp.bounds import MESSAGE_LIMIT
from aar.mcp.content import joined, result_text, text_of_block
from aar.mcp.http import HttpLink
from aar.mcp.left_out import LeftOut
from aar.mcp.listing import ENTRIES, PAGES, cleaned, prompt_of, resource_of, tools_of
from aar.mcp.mending import mended
from aar.mcp.stdio import StdioLink
from aar.mcp.trip import Trip, current_trip
from aar.messages.mcp import McpPrompt, McpResource, McpResult, McpServer, McpTool

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["Connection", "McpNotAsked"]

RELIST_EVERY = 0.5  # seconds between two listings of a server that tells of changes all the time
ASKING_TIMEOUT = 30.0  # seconds for everything but tools, which have a limit of their own

REFUSED = "Server returned an error response"  # what the package makes of any status that is an error
TOO_LONG = "SSE stream failed: "  # what it begins with when one event has more bytes or values than it may
SAID = 2_000  # characters of a server's error that are told

R = TypeVar("R")


class McpNotAsked(McpUnavailable):
    """The connection was lost before the server could have done anything: asking again does nothing twice."""


logger = logging.getLogger(__name__)


class Connection:
    """One connection, usable inside `open`. Its methods may be called from any task.

    `cwd` is the folder of the process and what the server is told as its root; `env` the whole environment of the
    process. Methods raise `McpUnavailable` when the connection is lost, and `McpError` for what the server refuses
    and for answers of more than `message_limit` bytes.
    """

    def __init__(
        self, server: McpServer, *, cwd: str, env: Mapping[str, str], message_limit: int = MESSAGE_LIMIT
    ) -> None:
        self.server = server
        self._cwd = cwd
        self._link: StdioLink | HttpLink
        if server.transport == "stdio":
            self._link = StdioLink(server, cwd=cwd, env=env, line_limit=message_limit)
        else:
            self._link = HttpLink(server, limit=message_limit, doubt=lambda: self._changed.set())
        self._client: Client | None = None
        self._changed = trio.Event()
        self._left_out = LeftOut()

    @asynccontextmanager
    async def open(self, *, is_legacy: bool = False) -> AsyncIterator[None]:
        """Connected for the length of the block, which has to be entered and left in the same task.

        `is_legacy` leaves out the question for the newest protocol, which a few servers do not survive.
        Raises `McpUnavailable` for whatever goes wrong with the server, also when it is lost during the block.
        """
        client = self._new_client("legacy" if is_legacy else "auto")
        try:
            async with client, trio.open_nursery() as nursery:
                self._client = client
                nursery.start_soon(self._listen)
                yield
                nursery.cancel_scope.cancel()
        except Exception as error:  # a wall: the package and its server raise what they like, alone and in groups
            raise McpUnavailable(self._reason(error)) from error
        finally:
            self._client = None

    def _new_client(self, mode: str) -> Client:
        from mcp import Client
        from mcp_types import Implementation

        return Client(
            mended(self.server.name, self._link.transport(), self._left_out.note),
            mode=mode,
            client_info=Implementation(name="aar", version=__version__),
            message_handler=self._hear,
            list_roots_callback=_roots(self._cwd),
            cache=None,
        )

    @property
    def why(self) -> str:
        """Why the server ended the connection, where it did."""
        return self._link.why

    @property
    def last_words(self) -> str:
        """The end of what its process wrote to standard error."""
        return self._link.last_words

    async def changed(self) -> bool:
        """Wait until the tools may be others, or the connection has ended; whether it goes on."""
        async with trio.open_nursery() as nursery:

            async def watch_end() -> None:
                await self._link.ended.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch_end)
            await self._changed.wait()
            await trio.sleep(RELIST_EVERY)
            nursery.cancel_scope.cancel()
        self._changed = trio.Event()
        return not self._link.ended.is_set()

    # --- what can be asked --------------------------------------------------------------------

    async def tools(self) -> tuple[McpTool, ...]:
        """All pages, those that can be used; `left_out` tells of the others."""
        self._left_out.begin()
        if self._session.server_capabilities.tools is None:
            return ()
        found = await self._pages(lambda cursor: self._session.list_tools(cursor=cursor), "tools")
        return tools_of(self.server, found, self._left_out.note)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The tools that cannot be used, each with the reason, as they were listed last."""
        return self._left_out.said

    async def call(
        self, tool: str, arguments: dict[str, Any], *, limit: int, report: Callable[[str], None] | None = None
    ) -> McpResult:
        """Run a tool. Cancelling this cancels it on the server."""

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            if report is not None:
                report(_progress_line(progress, total, message))

        client = self._session
        result = await self._ask(lambda: client.call_tool(tool, arguments, progress_callback=tell))
        return McpResult(
            text=result_text(result.content, result.structured_content, limit), is_error=bool(result.is_error)
        )

    async def resources(self) -> tuple[McpResource, ...]:
        if self._session.server_capabilities.resources is None:
            return ()
        found = await self._pages(lambda cursor: self._session.list_resources(cursor=cursor), "resources")
        return tuple(map(resource_of, found))

    async def read_resource(self, uri: str, *, limit: int) -> str:
        result = await self._ask(lambda: self._session.read_resource(uri), ASKING_TIMEOUT)
        return joined((_contents(one) for one in result.contents), limit)[:limit]

    async def prompts(self) -> tuple[McpPrompt, ...]:
        if self._session.server_capabilities.prompts is None:
            return ()
        found = await self._pages(lambda cursor: self._session.list_prompts(cursor=cursor), "prompts")
        return tuple(map(prompt_of, found))

    async def prompt(self, name: str, arguments: dict[str, str], *, limit: int) -> str:
        result = await self._ask(lambda: self._session.get_prompt(name, arguments), ASKING_TIMEOUT)
        return joined((text_of_block(one.content) for one in result.messages), limit)[:limit]

    # --- how it is asked ----------------------------------------------------------------------

    @property
    def _session(self) -> Client:
        if self._client is None or self._link.ended.is_set():
            raise self._lost(came_to_nothing=True)
        return self._client

    async def _pages(self, ask: Callable[[str | None], Awaitable[Any]], name: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._ask(lambda cursor=cursor: ask(cursor), ASKING_TIMEOUT)  # type: ignore[misc]
            found += getattr(page, name)
            cursor = page.next_cursor
            if not cursor:
                return found
            if len(found) > ENTRIES:
                break
        logger.warning("MCP server %s lists more %s than anybody can use: the rest is not read", self.server.name, name)
        return found

    async def _ask(self, request: Callable[[], Awaitable[R]], timeout: float = float("inf")) -> R:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        trip = Trip()
        outer = current_trip.set(trip)
        try:
            with trio.fail_after(timeout):
                return await request()
        except MCPError as error:
            said = error.error.message
            if self._link.ended.is_set() or (error.error.code == CONNECTION_CLOSED and not said.startswith(TOO_LONG)):
                raise self._lost(came_to_nothing=trip.came_to_nothing) from error
            if said == REFUSED:
                said = self._link.why or said
            raise McpError(f"MCP server {self.server.name!r}: {cleaned(said, SAID)}") from error
        except trio.TooSlowError as error:
            raise McpError(f"MCP server {self.server.name!r} did not answer within {timeout:g} s") from error
        except (RuntimeError, ValueError) as error:  # an answer that is not what the tool or the protocol promises
            if self._client is None or self._link.ended.is_set():
                raise self._lost(came_to_nothing=trip.came_to_nothing) from error
            raise McpError(f"MCP server {self.server.name!r}: {cleaned(str(error), SAID)}") from error
        finally:
            current_trip.reset(outer)

    def _lost(self, *, came_to_nothing: bool) -> McpUnavailable:
        why = self._link.why or "the connection was closed"
        kind = McpNotAsked if came_to_nothing else McpUnavailable
        return kind(f"MCP server {self.server.name!r} was lost: {why}. It is tried again by itself")

    def _reason(self, error: Exception) -> str:
        """One sentence without a full stop. What the transport saw says more than what came of it."""
        found = leaves(error)
        leaf = next((one for one in found if not isinstance(one, McpError)), found[0])
        match leaf:
            case _ if self._link.why:
                return self._link.why
            case McpUnavailable():
                return "the connection was closed"
            case McpError():
                return str(leaf).removeprefix(f"MCP server {self.server.name!r}: ")
            case FileNotFoundError() if leaf.filename == os.path.expanduser(self.server.command):
                return f"the command {self.server.command!r} was not found"
            case OSError() if leaf.strerror:
                return f"{leaf.strerror} ({leaf.filename})" if leaf.filename else leaf.strerror
            case _:
                return str(leaf) or type(leaf).__name__

    # --- what it tells by itself --------------------------------------------------------------

    async def _hear(self, message: Any) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed.set()
        await trio.lowlevel.checkpoint()

    async def _listen(self) -> None:
        """Newer servers tell of changes to those that have asked for it."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        client = self._session
        tools = client.server_capabilities.tools
        while tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._changed.set()
            except SubscriptionLost:
                self._changed.set()  # by asking for the tools it is found out whether the server is there
            except (ListenNotSupportedError, MCPError):
                return
            await trio.sleep(RELIST_EVERY)


def _roots(cwd: str) -> Any:
    async def roots(_: Any) -> Any:
        from mcp_types import ListRootsResult, Root

        await trio.lowlevel.checkpoint()
        return ListRootsResult(roots=[Root.model_validate({"uri": Path(cwd).as_uri(), "name": Path(cwd).name})])

    return roots


def _progress_line(progress: float, total: float | None, message: str | None) -> str:
    done = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
    return f"{message} ({done})\n" if message else f"{done}\n"


def _contents(resource: Any) -> str:
    if hasattr(resource, "text"):
        return str(resource.text)
    return f"[blob resource: {resource.uri}]"
