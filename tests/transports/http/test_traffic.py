"""How a server ends, and which connections it closes before that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from aar.kernel.alone import errors_alone
from aar.transports.http import traffic
from aar.transports.http.listening import listening_sockets
from aar.transports.http.serving import ANSWERING, serving

HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # its beginning, and empty settings


class Application:
    """`GET /news` never ends, `GET /late` waits until it is allowed to, `POST` answers as a stream with an end."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.may_end = trio.Event()
        self.ends: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                await send({"type": (await receive())["type"] + ".complete"})
            return
        kind = b"text/plain" if scope["path"] == "/late" else b"text/event-stream; charset=utf-8"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", kind)]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        self.begun.set()
        try:
            await (trio.Event() if scope["path"] == "/news" else self.may_end).wait()
        finally:
            self.ends.append(scope["path"])
        await send({"type": "http.response.body", "body": b"data: 2\n\n"})

    async def before_end(self) -> None:
        self.may_end.set()


@asynccontextmanager
async def served(app: Application) -> AsyncIterator[int]:
    with errors_alone():
        async with serving(app, await listening_sockets("127.0.0.1", 0), app.before_end) as [address]:
            with trio.fail_after(10):
                yield int(address.rpartition(":")[2])


@asynccontextmanager
async def asking(port: int, line: str, *headers: str) -> AsyncIterator[trio.SocketStream]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        lines = [f"{line} HTTP/1.1", "Host: localhost", *headers, "", ""]
        await stream.send_all("\r\n".join(lines).encode())
        yield stream


async def rest_of(stream: trio.SocketStream) -> bytes:
    return b"".join([piece async for piece in stream])


@pytest.mark.parametrize("request_", [["GET /news"], ["POST /news", "Mcp-Method: subscriptions/listen"]])
async def test_a_stream_of_news_is_ended_at_once_with_the_server_and_properly(request_: list[str]) -> None:
    app = Application()
    async with AsyncExitStack() as stack:
        async with served(app) as port:
            stream = await stack.enter_async_context(asking(port, *request_))
            await app.begun.wait()
            began = trio.current_time()
        assert trio.current_time() - began < ANSWERING / 2
        assert (await rest_of(stream)).endswith(b"data: 1\n\n\r\n0\r\n\r\n")
        assert app.ends == ["/news"]


@pytest.mark.parametrize("line", ["POST /run", "GET /late"])
async def test_all_other_answers_are_given_whole(line: str) -> None:
    app = Application()
    async with AsyncExitStack() as stack:
        async with served(app) as port:
            stream = await stack.enter_async_context(asking(port, line))
            await app.begun.wait()
        assert (await rest_of(stream)).endswith(b"data: 2\n\n\r\n0\r\n\r\n")


async def test_a_connection_that_nobody_uses_is_closed_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "IDLE", 0.05)
    app = Application()
    async with served(app) as port, asking(port, "GET /late", "Connection: close") as used:
        await app.begun.wait()
        async with await trio.open_tcp_stream("127.0.0.1", port) as unused:
            await unused.send_all(HTTP_2)
            await rest_of(unused)
        app.may_end.set()
        assert (await rest_of(used)).endswith(b"data: 2\n\n\r\n0\r\n\r\n")
