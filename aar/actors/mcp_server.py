"""Service: one MCP server. One connection, dialled again when it is lost, and what it offers.

One task owns the connection and lists its tools; every request runs in a task of its own, so the mailbox loop never
waits for a server.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, assert_never
from urllib.parse import parse_qsl, urlsplit

import trio

from aar.errors import AarError, McpError, McpUnavailable, MissingMcp
from aar.kernel import Envelope, Mailbox
from aar.logs import redact
from aar.mcp.connection import Connection, McpNotAsked
from aar.mcp.package import load_package
from aar.messages.mcp import (
    CallServerTool,
    GetServerPrompt,
    ListPrompts,
    ListResources,
    McpCommand,
    McpListing,
    McpServer,
    ReadResource,
    WatchServer,
)

__all__ = ["CONNECT_TIMEOUT", "mcp_server"]

CONNECT_TIMEOUT = 15.0  # seconds until it must have told its tools
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between two attempts; doubles from the first to the longest
STEADY = 10.0  # seconds after which a connection counts as one that worked
PATIENCE = 5.0  # seconds that a request waits for a connection that is being made
SECRET_LENGTH = 8  # characters
LAST_WORDS = 500  # characters of standard error that are told with a reason

R = TypeVar("R")

logger = logging.getLogger(__name__)


def mcp_server(
    server: McpServer, cwd: str, env: Mapping[str, str], *, connect_timeout: float = CONNECT_TIMEOUT
) -> Callable[[Mailbox[McpCommand]], Awaitable[None]]:
    """The body of the service. `cwd` is the server's folder, `env` the whole environment of its process."""
    known = _Known()  # outlives a crash of the body: whoever watches waits for a newer version

    async def body(mailbox: Mailbox[McpCommand]) -> None:
        async with trio.open_nursery() as nursery:
            line = _Line(server, cwd, env, known, connect_timeout)
            nursery.start_soon(line.keep_connected)
            async for envelope in mailbox:
                nursery.start_soon(line.serve, envelope)

    return body


class _Known:
    """The newest listing, and an event that is set when it is replaced."""

    def __init__(self) -> None:
        self.listing = McpListing()
        self.changed = trio.Event()

    def note(self, **changes: Any) -> None:
        if all(getattr(self.listing, name) == value for name, value in changes.items()):
            return
        self.listing = self.listing.model_copy(update={**changes, "version": self.listing.version + 1})
        self.changed.set()
        self.changed = trio.Event()


class _Line:
    def __init__(
        self, server: McpServer, cwd: str, env: Mapping[str, str], known: _Known, connect_timeout: float
    ) -> None:
        self._server = server
        self._cwd = cwd
        self._env = env
        self._known = known
        self._connect_timeout = connect_timeout
        self._connection: Connection | None = None
        self._next_try = trio.current_time()
        self._failures = 0
        self._news = trio.Event()  # a connection is there, or could not be made
        self._is_legacy = False
        self._was_connected = False

    # --- the connection -----------------------------------------------------------------------

    async def keep_connected(self) -> None:
        """Connect, and again, until the service is stopped. Without the package there is nothing to try."""
        try:
            await load_package()
        except MissingMcp as missing:
            self._next_try = float("inf")
            self._known.note(state="failed", reason=str(missing))
            self._tell_news()
            return
        wait = FIRST_WAIT
        while True:
            began = trio.current_time()
            reason = redact(await self._connect(), _secrets(self._server))
            logger.info("MCP server %s: %s", self._server.name, reason)
            is_steady = self._was_connected and trio.current_time() - began > max(STEADY, wait)
            wait = FIRST_WAIT if is_steady else wait
            self._next_try = trio.current_time() + wait
            self._failures += not self._was_connected
            self._known.note(state="failed", reason=reason)
            self._tell_news()
            await trio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _connect(self) -> str:
        """One connection from its beginning to its end, and why it ended."""
        limit = trio.CancelScope(deadline=trio.current_time() + self._connect_timeout)
        connection = Connection(self._server, cwd=self._cwd, env=self._env)
        self._was_connected, why = False, ""
        try:
            with limit:
                async with connection.open(is_legacy=self._is_legacy):
                    await self._use(connection, limit)
        except McpUnavailable as error:
            why = str(error)
        if limit.cancelled_caught:
            why = f"it did not answer within {self._connect_timeout:g} s"
        if not self._was_connected:
            self._is_legacy = not self._is_legacy  # perhaps it did not survive the question for the newest protocol
        said = connection.last_words[-LAST_WORDS:]
        return f"{why or connection.why}. Its last words: {said}" if said else why or connection.why

    async def _use(self, connection: Connection, limit: trio.CancelScope) -> None:
        tools = await connection.tools()
        limit.deadline = float("inf")
        self._connection, self._was_connected = connection, True
        self._known.note(state="connected", reason="", tools=tools, left_out=connection.left_out)
        self._tell_news()
        try:
            while await connection.changed():
                tools = await connection.tools()
                self._known.note(tools=tools, left_out=connection.left_out)
        finally:
            self._connection = None  # from here on whoever asks waits for the next one
            self._tell_news()

    def _tell_news(self) -> None:
        self._news.set()
        self._news = trio.Event()

    # --- requests -----------------------------------------------------------------------------

    async def serve(self, envelope: Envelope[McpCommand]) -> None:
        """Answer one request. Its task ends when its asker leaves."""
        assert envelope.answer is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_set, envelope.answer.asker_left, nursery.cancel_scope)
            try:
                envelope.reply(await self._answer(envelope.message))
            except AarError as error:
                error.args = (redact(str(error), _secrets(self._server)),)  # a server may repeat what it does not like
                envelope.fail(error)
            except Exception as error:  # a wall: an answer that nobody could foresee costs one request
                logger.warning("a request to MCP server %s failed", self._server.name, exc_info=error)
                envelope.fail(McpError(f"MCP server {self._server.name!r}: {type(error).__name__}: {error}"))
            nursery.cancel_scope.cancel()

    async def _answer(self, request: McpCommand) -> Any:
        match request:
            case WatchServer(after=after):
                while self._known.listing.version <= after:
                    await self._known.changed.wait()
                return self._known.listing
            case CallServerTool(tool=tool, arguments=arguments, limit=limit, report=report):
                result = await self._ask(lambda one: one.call(tool, arguments, limit=limit, report=report))
                if not result.is_error:
                    return result
                return result.model_copy(update={"text": redact(result.text, _secrets(self._server))})
            case ListResources():
                return await self._ask(lambda one: one.resources())
            case ReadResource(uri=uri, limit=limit):
                return await self._ask(lambda one: one.read_resource(uri, limit=limit))
            case ListPrompts():
                return await self._ask(lambda one: one.prompts())
            case GetServerPrompt(name=name, arguments=arguments, limit=limit):
                return await self._ask(lambda one: one.prompt(name, arguments, limit=limit))
            case _:
                assert_never(request)

    async def _ask(self, ask: Callable[[Connection], Awaitable[R]]) -> R:
        """The answer, on a new connection when the one there was could not even ask. Raises `McpError`."""
        connection = await self._connected()
        try:
            return await ask(connection)
        except McpNotAsked:
            with trio.move_on_after(PATIENCE):
                while self._connection is connection:
                    await self._news.wait()
        return await ask(await self._connected())

    async def _connected(self) -> Connection:
        """The connection. Waits a moment for the next attempt to make one, and raises `McpUnavailable`."""
        give_up, failures = trio.current_time() + PATIENCE, self._failures
        while self._connection is None:
            if self._failures > failures or max(self._next_try, trio.current_time()) >= give_up:
                raise McpUnavailable(self._absence())
            with trio.move_on_at(give_up):
                await self._news.wait()
        return self._connection

    def _absence(self) -> str:
        reason = self._known.listing.reason or "it has not answered yet"
        return f"MCP server {self._server.name!r} is not there: {reason}"


def _secrets(server: McpServer) -> list[str]:
    """Values that may be keys. Shorter ones are none, and cutting them out would spoil what is told."""
    words = [word for value in server.headers.values() for word in value.split()]  # such as what follows `Bearer`
    in_address = [value for _, value in parse_qsl(urlsplit(server.url).query)] if "?" in server.url else []
    said = (*server.env.values(), *server.headers.values(), *words, *in_address)
    return [value for value in said if len(value) >= SECRET_LENGTH]


async def _cancel_when_set(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
