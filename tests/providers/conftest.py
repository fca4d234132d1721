"""A server on loopback that plays bytes, and deltas without what is new at every run."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.messages.events import ToolCall
from aar.messages.provider import ProviderResponse, StreamDelta

RECORDED = Path(__file__).parent.parent / "data" / "llamacpp"


@dataclass(frozen=True)
class SentRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """The server's side of one request. Bodies are chunked, or end with the connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.is_chunked = True
        self.is_open = True

    async def begin(
        self, status: int = 200, kind: str = "text/event-stream", *, chunked: bool = True, **headers: str
    ) -> None:
        self.is_chunked = chunked
        lines = [f"HTTP/1.1 {status} Status", f"content-type: {kind}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        lines += ["transfer-encoding: chunked" if chunked else "connection: close"]
        await self.stream.send_all("\r\n".join([*lines, "", ""]).encode())

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data)

    async def end(self) -> None:
        if self.is_chunked:
            await self.stream.send_all(b"0\r\n\r\n")
        else:
            await self.close()

    async def close(self) -> None:
        self.is_open = False
        await self.stream.aclose()

    async def client_leaves(self) -> None:
        """Wait until the client has closed its side."""
        try:
            while await self.stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass


Play = Callable[[Connection], Awaitable[None]]


class ModelServer:
    """Plays one script per request, in order; the last one is repeated."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[SentRequest] = []
        self.connections = 0
        self._plays: deque[Play] = deque()

    def plays(self, play: Play) -> None:
        self._plays.append(play)

    def sends(
        self, body: bytes | Iterable[bytes], status: int = 200, kind: str = "text/event-stream", **headers: str
    ) -> None:
        pieces = [body] if isinstance(body, bytes) else list(body)

        async def play(connection: Connection) -> None:
            await connection.begin(status, kind, **headers)
            for piece in pieces:
                await connection.send(piece)
            await connection.end()

        self.plays(play)

    def sends_json(self, body: Any, status: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.sends(data, status, "application/json", **headers)

    def sends_chunks(self, *chunks: Any, done: bool = True) -> None:
        """Chunks as server-sent events, each in a piece of its own."""
        events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
        self.sends([*events, b"data: [DONE]\n\n"] if done else events)

    def sends_recorded(self, name: str, status: int = 200) -> None:
        kind = "text/event-stream" if name.endswith(".sse") else "application/json"
        self.sends((RECORDED / name).read_bytes(), status, kind)

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        rest = b""
        async with stream:
            try:
                while True:
                    request, rest = await _read_request(stream, rest)
                    self.requests.append(request)
                    connection = Connection(stream)
                    await (self._plays.popleft() if len(self._plays) > 1 else self._plays[0])(connection)
                    if not connection.is_open or not connection.is_chunked:
                        return
            except (EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
                return


async def _read_request(stream: trio.SocketStream, rest: bytes) -> tuple[SentRequest, bytes]:
    async def more() -> bytes:
        if not (data := await stream.receive_some()):
            raise EOFError
        return data

    while b"\r\n\r\n" not in rest:
        rest += await more()
    head, _, rest = rest.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    size = int(headers.get("content-length", "0"))
    while len(rest) < size:
        rest += await more()
    method, path, _ = first.split(" ")
    return SentRequest(method, path, headers, rest[:size]), rest[size:]


@pytest.fixture
async def server(nursery: trio.Nursery) -> AsyncIterator[ModelServer]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found = ModelServer(listener.socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, found.serve, [listener])
    yield found
    nursery.cancel_scope.cancel()


def plain_call(call: ToolCall) -> tuple[str, str, dict[str, Any]]:
    return call.tool_call_id, call.tool_name, call.arguments


@pytest.fixture
def plain() -> Callable[[Any], Any]:
    """Deltas and answers as plain data, without event ids and times."""

    def meta_of(item: StreamDelta | ProviderResponse) -> Any:
        return item.meta and (item.meta.provider, item.meta.model, item.meta.request_id, item.meta.usage)

    def of(item: Any) -> Any:
        if isinstance(item, list):
            return [of(each) for each in item]
        thoughts = [(block.content, block.data) for block in item.reasoning]
        if isinstance(item, ProviderResponse):
            calls = [plain_call(call) for call in item.tool_calls]
            return item.content, calls, item.stop_reason, thoughts, meta_of(item)
        if item.tool_call_delta is not None:
            return plain_call(item.tool_call_delta)
        if item.done:
            return "done", item.stop_reason, thoughts, meta_of(item)
        return item.text, item.reasoning_delta

    return of


@pytest.fixture
def recorded() -> Path:
    return RECORDED
