"""The web API as an ASGI application, for a server of our own and for programs that have one."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import trio

from aar.agent import ApprovalCallback
from aar.errors import ConfigError
from aar.groups import leaves
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig
from aar.runtime import Provider, Store, ToolRegistry
from aar.transports.http.access import Access
from aar.transports.http.bodies import Measured
from aar.transports.http.guarding import Application, Guarded, Receive, Send
from aar.transports.http.refused import Refused
from aar.transports.program.sentences import sentence
from aar.transports.web.chats import Chats
from aar.transports.web.live_requests import LiveRequest
from aar.transports.web.page_files import PAGE_PATHS, PageFile, page_file
from aar.transports.web.transport import WebTransport

__all__ = ["ENDPOINTS", "LIVE_ENDPOINTS", "build_app", "create_asgi_app"]

ENDPOINTS = ("GET /health", "GET /sessions", "GET /sessions/ID", "POST /chat", "POST /chat/stream")
LIVE_ENDPOINTS = (
    "POST /sessions",
    "GET /sessions/ID/events",
    *(f"POST /sessions/ID/{what}" for what in ("prompt", "cancel", "decide")),
)
"""Those that need a key, also where the others need no token: whoever has it answers questions."""

METHODS = "GET, POST, OPTIONS"
OPEN_PATHS = frozenset({"/health"})  # need no token, so that a watchdog can look whether the server is there

OTHER_LOOP = "The web API needs a server that runs on Trio, such as: hypercorn --worker-class trio"

logger = logging.getLogger(__name__)


def create_asgi_app(
    config: AgentConfig | None = None,
    approval_callback: ApprovalCallback | None = None,
    registry: ToolRegistry | None = None,
    *,
    token: str = "",
    allow_origins: Iterable[str] = (),
    allow_hosts: Iterable[str] = (),
    page: bool = False,
    may_loosen: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    home: Path | None = None,
    store: Store | None = None,
    provider: Provider | None = None,
    mcp_servers: Iterable[McpServer] = (),
) -> Application:
    """The web API, for a server that speaks ASGI under Trio and has a lifespan, such as Hypercorn.

    Without `config` the user's file counts. Without an `approval_callback` every question is answered with no. With a
    `token` everybody needs it. `allow_origins` are the origins of web pages that may use the API, `allow_hosts` the
    names that this machine is called by, which matter without a token. With `page`, which needs a token, there is a
    page for people with a browser, and what it uses. With `may_loosen` a request may also allow more than the settings
    do. Sessions work in `cwd`, by default the folder of now, and are kept in `store`, by default
    where the settings say. Nothing is opened before the server starts.
    """
    transport = WebTransport(
        config,
        approval_callback,
        registry,
        may_loosen=may_loosen,
        cwd=cwd,
        home=home,
        store=store,
        provider=provider,
        mcp_servers=mcp_servers,
    )
    if page and not token:
        raise ConfigError("page=True needs a token: whoever has it answers the questions of sessions")
    return build_app(transport, Access.of(token, allow_origins, allow_hosts), key=token if page else "")


def build_app(chats: Chats, access: Access, *, key: str = "") -> Application:
    """The application around these, which begin and end with it.

    With a `key` there is the page, and live sessions for whoever has that key; it is the token where there is one.
    """
    inner = Measured(_Api(chats, key), reason="error")
    open_paths = OPEN_PATHS | (PAGE_PATHS if key else frozenset())
    access = replace(access, has_pages=bool(key))
    sent = ["last-event-id"] if key else []
    return Guarded(inner, access, methods=METHODS, sent=sent, open_paths=open_paths, reason="error")


class _Api:
    def __init__(self, chats: Chats, key: str) -> None:
        self._chats = chats
        self._key = key

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        async with trio.open_nursery() as nursery:
            answer = _Answer(scope, send)
            body = await receive()
            if scope["method"] == "POST" and body.get("more_body", True):
                return  # it was measured on its way here, so that this is not all only when the client has left
            nursery.start_soon(_leave_with_client, receive, nursery.cancel_scope)
            await self._serve(scope, body.get("body", b""), answer)
            nursery.cancel_scope.cancel()

    async def _live(self, receive: Receive, send: Send) -> None:
        has_begun = is_asked_to_end = False
        await receive()
        if not trio.lowlevel.in_trio_run():
            await send({"type": "lifespan.startup.failed", "message": OTHER_LOOP})
            return
        try:
            async with self._chats:
                await send({"type": "lifespan.startup.complete"})
                has_begun = True
                await receive()
                is_asked_to_end = True
        except Exception as error:  # a wall: the server is told, or goes on to say that nothing is ready
            logger.error("the web API has failed", exc_info=error)
            if not has_begun:
                await send({"type": "lifespan.startup.failed", "message": "\n".join(map(sentence, leaves(error)))})
                return
        if not is_asked_to_end:
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Any, body: bytes, answer: _Answer) -> None:
        try:
            await self._route(scope, body, answer)
        except Refused as refused:
            await answer.error(refused.status, str(refused))
        except Exception as error:  # a wall: one request that fails must not end the others
            logger.error("a request failed", exc_info=error)
            await answer.error(500, f"Internal error ({type(error).__name__}); the log says more")

    async def _route(self, scope: Any, body: bytes, answer: _Answer) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        match scope["method"], path.split("/")[1:]:
            case "GET" | "HEAD", ["health"]:
                await answer.data({"status": "ok"})
            case "GET", ["sessions"] if self._key and (asked := LiveRequest.of(scope)).wants_details:
                asked.check_key(self._key)
                await answer.data({"sessions": await self._chats.live.newest()})
            case "GET", ["sessions"]:
                await answer.data({"sessions": await self._chats.list_sessions()})
            case "GET", ["sessions", session_id] if found := await self._chats.get_session(session_id):
                await answer.data(found)
            case "POST", ["chat"]:
                await answer.data(await self._chats.handle_chat(_parsed(body)))
            case "POST", ["chat", "stream"]:
                await answer.stream(self._chats.handle_stream(_parsed(body)))
            case "GET" | "HEAD", _ if self._key and path in PAGE_PATHS:
                await answer.file(page_file(path))
            case _ if self._key:
                await self._route_live(scope, path, body, answer)
            case _:
                await answer.error(404, "not found")

    async def _route_live(self, scope: Any, path: str, body: bytes, answer: _Answer) -> None:
        live, asked = self._chats.live, LiveRequest.of(scope)
        match scope["method"], path.split("/")[1:]:
            case "POST", ["sessions"]:
                asked.check_key(self._key)
                await answer.data({"session_id": await live.open()})
            case "GET", ["sessions", session_id, "events"]:
                asked.check_key(self._key)
                tell = partial(live.tell, session_id, asked.after, for_interfaces=asked.for_interfaces)
                await answer.stream_of(partial(tell, answers=asked.answers))
            case "POST", ["sessions", session_id, "prompt" | "cancel" | "decide" as what]:
                asked.check_key(self._key)
                do = {"prompt": live.say, "cancel": live.cancel, "decide": live.decide}[what]
                await answer.data(await do(session_id, _parsed(body)))
            case _:
                await answer.error(404, "not found")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(str(body, "utf-8"))  # in no other encoding: its values were counted as they are in this one
    except (ValueError, RecursionError) as error:
        raise Refused(400, "The body is no JSON") from error


async def _leave_with_client(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


class _Answer:
    """One answer. Its last part cannot be cancelled: in the middle of that the server says that the client has left."""

    def __init__(self, scope: Any, send: Send) -> None:
        self._send = send
        self._has_body = scope["method"] != "HEAD"
        self._is_http_1 = scope.get("http_version", "1.1").startswith("1")
        self._has_begun = False

    async def data(self, data: dict[str, Any], status: int = 200) -> None:
        pieces = await _encoded(data)
        await self._begin(status, "application/json", [("content-length", str(sum(map(len, pieces))))])
        if self._has_body:
            await self._go_on(b"".join(pieces))
        await self._end()

    async def file(self, file: PageFile) -> None:
        await self._begin(200, file.kind, [("content-length", str(len(file.data))), *file.headers])
        if self._has_body:
            await self._go_on(file.data)
        await self._end()

    async def error(self, status: int, text: str) -> None:
        """Nothing more can be said when the answer has begun already."""
        if self._has_begun:
            await self._end()
        else:
            await self.data({"error": text}, status)

    async def stream(self, frames: AsyncGenerator[str, None]) -> None:
        """Nothing is sent before there is a first frame: until then it may be refused."""
        async with aclosing(frames):
            async for frame in frames:
                await self._frame(frame)
        await self._end()

    async def stream_of(self, tell: Callable[[Callable[[str], Awaitable[None]]], Awaitable[None]]) -> None:
        """The same with what `tell` writes."""
        await tell(self._frame)
        await self._end()

    async def _frame(self, frame: str) -> None:
        if not self._has_begun:
            more = [("cache-control", "no-cache"), ("x-accel-buffering", "no")]
            await self._begin(200, "text/event-stream", [*more, *self._keeping_alive()])
        await self._go_on(frame.encode())

    def _keeping_alive(self) -> list[tuple[str, str]]:
        """Later versions of HTTP forbid it."""
        return [("connection", "keep-alive")] if self._is_http_1 else []

    async def _begin(self, status: int, kind: str, more: Iterable[tuple[str, str]]) -> None:
        self._has_begun = True
        headers = [(name.encode(), value.encode()) for name, value in [("content-type", kind), *more]]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _go_on(self, piece: bytes) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _end(self) -> None:
        with trio.CancelScope(shield=True):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _encoded(data: dict[str, Any]) -> list[bytes]:
    """As JSON, in pieces where it is long: others get their turn in between."""
    pieces = []
    for number, (name, value) in enumerate(data.items()):
        pieces.append(f"{', ' if number else '{'}{json.dumps(name)}: ")
        for piece in _pieces(value):
            pieces.append(piece)
            await trio.lowlevel.checkpoint()
    return [piece.encode() for piece in [*pieces, "}"]]


def _pieces(value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        yield json.dumps(value)
        return
    for number, item in enumerate(value):
        yield f"{', ' if number else '['}{json.dumps(item)}"
    yield "]" if value else "[]"
