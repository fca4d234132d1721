"""The transport below HTTP to models, over real sockets: packets, TLS, proxies, time limits and errors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest
import trio
import trustme

from aar.providers.failures import as_provider_error, explain
from aar.providers.transport import Transport

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
Serve = Callable[[trio.abc.Stream], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[int]:
    """The port of a server that speaks so with each connection."""
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def transport(context: ssl.SSLContext | None = None, *, proxy: str = "") -> AsyncIterator[Transport]:
    made = Transport(context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), proxy=proxy, kept=4)
    with trio.fail_after(10):
        yield made
    await made.aclose()


async def ask(over: Transport, url: str, body: bytes | None = b"body", **timeouts: float) -> str:
    request = httpx2.Request("GET" if body is None else "POST", url, content=body, extensions={"timeout": timeouts})
    response = await over.handle_async_request(request)
    try:
        return (await response.aread()).decode()
    finally:
        await response.aclose()


@pytest.mark.parametrize("body", [None, b"body", b"ends like a head\r\n\r\n", b"x" * 300_000])
async def test_a_request_and_its_body_leave_in_one_piece(body: bytes | None) -> None:
    pieces: list[bytes] = []

    async def serve(stream: trio.abc.Stream) -> None:
        missing = 1
        async for piece in stream:
            pieces.append(bytes(piece))
            _, found, rest = b"".join(pieces).partition(b"\r\n\r\n")
            missing = len(body or b"") - len(rest) if found else 1
            if missing == 0:
                await stream.send_all(ANSWER)

    async with served(serve) as port, transport() as over:
        assert await ask(over, f"http://127.0.0.1:{port}/", body) == "hi"
    assert pieces[0].partition(b"\r\n\r\n")[2] or not body  # the first packet has the head and the start of the body
    assert b"".join(pieces).partition(b"\r\n\r\n")[2] == (body or b"")


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's."""
    authority = trustme.CA()
    ours, theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("model.test").configure_cert(ours)
    authority.configure_trust(theirs)
    return ours, theirs


def speaks_tls(context: ssl.SSLContext) -> Serve:
    async def serve(stream: trio.abc.Stream) -> None:
        encrypted = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            async for _ in encrypted:
                await encrypted.send_all(ANSWER)
        except trio.BrokenResourceError:  # the client does not trust us
            pass

    return serve


def passes_on(port: int, asked: list[bytes]) -> Serve:
    """A proxy that connects to `port`, whatever it is asked for."""

    async def serve(stream: trio.abc.Stream) -> None:
        asked.append(bytes(await stream.receive_some()))
        await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there = await trio.open_tcp_stream("127.0.0.1", port)

        async def copy(source: trio.abc.ReceiveStream, target: trio.abc.SendStream) -> None:
            async for piece in source:
                await target.send_all(piece)

        async with there, trio.open_nursery() as nursery:
            nursery.start_soon(copy, there, stream)
            await copy(stream, there)
            nursery.cancel_scope.cancel()

    return serve


async def test_an_encrypted_request_through_a_proxy_with_a_password() -> None:
    ours, theirs = contexts()
    asked: list[bytes] = []
    async with (
        served(speaks_tls(ours)) as port,
        served(passes_on(port, asked)) as proxy,
        transport(theirs, proxy=f"http://me:word@127.0.0.1:{proxy}") as over,
    ):
        for _ in range(2):
            assert await ask(over, "https://model.test/v1") == "hi"
    [connect] = asked  # the second request went over the same connection
    assert connect.startswith(b"CONNECT model.test:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6d29yZA==" in connect


async def test_a_server_with_another_name_is_not_trusted() -> None:
    ours, theirs = contexts()
    async with served(speaks_tls(ours)) as port, transport(theirs) as over:
        with pytest.raises(httpx2.ConnectError, match="certificate") as raised:
            await ask(over, f"https://127.0.0.1:{port}/")
    failure = as_provider_error(raised.value, "generic")
    assert "SSL_CERT_FILE" in explain(failure)
    assert not failure.retryable  # it will not be trusted a second later either


async def test_time_limits_of_a_request_are_kept(autojump_clock: trio.testing.MockClock) -> None:
    async def serve(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await trio.sleep_forever()

    async with served(serve) as port, transport() as over:
        with pytest.raises(httpx2.ReadTimeout):
            await ask(over, f"http://127.0.0.1:{port}/", read=2.0)


async def test_nobody_at_the_door_is_a_connect_error() -> None:
    async with served(trio.aclose_forcefully) as port:
        pass
    async with transport() as over:
        with pytest.raises(httpx2.ConnectError):
            await ask(over, f"http://127.0.0.1:{port}/")


async def test_a_server_that_refuses_before_it_has_read_the_body_is_heard() -> None:
    async def serve(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 413 Too large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")
        await trio.sleep_forever()

    async with served(serve) as port, transport() as over:
        assert await ask(over, f"http://127.0.0.1:{port}/", b"x" * 10_000) == "big"


async def test_an_answer_that_is_no_http_is_not_asked_for_again() -> None:
    """The server has seen the request, and may have worked on it."""
    asked: list[bytes] = []

    async def serve(stream: trio.abc.Stream) -> None:
        with suppress(trio.BrokenResourceError):  # the client has left
            async for piece in stream:
                asked.append(bytes(piece).partition(b"\r\n\r\n")[2])
                await stream.send_all(ANSWER if len(asked) == 1 else b"what?\r\n\r\n")

    async with served(serve) as port, transport() as over:
        assert await ask(over, f"http://127.0.0.1:{port}/", b"one") == "hi"
        with pytest.raises(httpx2.RemoteProtocolError):
            await ask(over, f"http://127.0.0.1:{port}/", b"two")
    assert asked == [b"one", b"two"]


class _CancelAtStep(trio.abc.Instrument):
    """Cancels when the task is about to take this step; 0 is before the first."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope, self._left, self._task = scope, step, trio.lowlevel.current_task()
        if step == 0:
            scope.cancel()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_request_that_is_cancelled_at_any_step_leaves_no_connection_behind(scheme: str) -> None:
    ours, theirs = contexts()
    theirs.check_hostname = False
    steps = 0

    async def plain(stream: trio.abc.Stream) -> None:
        with suppress(trio.BrokenResourceError):  # the client has left
            async for _ in stream:
                await stream.send_all(ANSWER)

    async with served(speaks_tls(ours) if scheme == "https" else plain) as port, transport(theirs) as over:
        is_cancelled = True
        while is_cancelled:
            with trio.CancelScope() as scope:
                trio.lowlevel.add_instrument(instrument := _CancelAtStep(scope, steps))
                try:
                    await ask(over, f"{scheme}://127.0.0.1:{port}/")
                finally:
                    trio.lowlevel.remove_instrument(instrument)
            is_cancelled, steps = scope.cancelled_caught, steps + 1
            assert all(one.is_idle() or one.is_closed() for one in over._pool.connections), steps
            await over._pool.aclose()
    assert steps > 5
