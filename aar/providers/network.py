"""What the HTTP client speaks through: sockets that cost as little as can be.

A request's head waits for its body and leaves in one packet with it. Without a time limit there is no scope for one:
a request to a model has none of its own, since its caller looks after it.
"""

from __future__ import annotations

import ssl
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any

import httpcore2
import trio

__all__ = ["Network"]

_END_OF_HEAD = b"\r\n\r\n"


class Network(httpcore2.AsyncNetworkBackend):
    """Opens connections for a pool of httpcore2. Raises its errors."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        with _errors(httpcore2.ConnectTimeout, httpcore2.ConnectError), trio.fail_after(_seconds(timeout)):
            stream = await trio.open_tcp_stream(host, port, local_address=local_address)
        for option in socket_options or ():
            stream.setsockopt(*option)
        return _Connection(stream)

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


class _Connection(httpcore2.AsyncNetworkStream):
    def __init__(self, stream: trio.SocketStream | trio.SSLStream[Any]) -> None:
        self._stream = stream
        self._head = b""  # waits for what comes behind it

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            with suppress(httpcore2.WriteError):  # a server that has left may have said why
                await self._send(head, timeout)
        with _errors(httpcore2.ReadTimeout, httpcore2.ReadError):
            if timeout is None:
                return bytes(await self._stream.receive_some(max_bytes))
            with trio.fail_after(timeout):
                return bytes(await self._stream.receive_some(max_bytes))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not self._head and buffer.endswith(_END_OF_HEAD):
            self._head = buffer
        elif buffer:
            data, self._head = self._head + buffer, b""
            await self._send(data, timeout)

    async def _send(self, data: bytes, timeout: float | None) -> None:
        with _errors(httpcore2.WriteTimeout, httpcore2.WriteError):
            if timeout is None:
                await self._stream.send_all(data)
            else:
                with trio.fail_after(timeout):
                    await self._stream.send_all(data)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        stream = trio.SSLStream(
            self._stream, ssl_context, server_hostname=server_hostname, https_compatible=True, server_side=False
        )
        try:
            with _errors(httpcore2.ConnectTimeout, httpcore2.ConnectError), trio.fail_after(_seconds(timeout)):
                await stream.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return _Connection(stream)

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "ssl_object":
                return self._stream if isinstance(self._stream, trio.SSLStream) else None  # it has the same methods
            case "socket":
                return self._socket
            case "is_readable":
                return self._socket.is_readable()
            case "client_addr":
                return self._socket.getsockname()
            case "server_addr":
                return self._socket.getpeername()
        return None

    @property
    def _socket(self) -> trio.socket.SocketType:
        stream: Any = self._stream
        while isinstance(stream, trio.SSLStream):
            stream = stream.transport_stream
        assert isinstance(stream, trio.SocketStream)
        return stream.socket


def _seconds(timeout: float | None) -> float:
    return float("inf") if timeout is None else timeout


@contextmanager
def _errors(too_slow: type[Exception], broken: type[Exception]) -> Generator[None, None, None]:
    """Trio's errors as those of httpcore2."""
    try:
        yield
    except trio.TooSlowError as error:
        raise too_slow(error) from error
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
        raise broken(str(error) or str(error.__cause__ or "")) from error  # of TLS, the cause has the words
