"""The web API in this process: an application that is called as servers call it, with a model that follows a script."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

import aar
from aar.messages.settings import AgentConfig
from aar.testing import MemoryStore, ScriptedProvider

PATIENCE = 20.0  # seconds; only a failing test ever waits that long


@dataclass
class Exchange:
    """A request that is being answered."""

    told: trio.MemoryReceiveChannel[Any]
    left: trio.Event
    over: trio.Event = field(default_factory=trio.Event)
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    async def begin(self) -> None:
        start = await self.told.receive()
        self.status = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        async for message in self.told:
            yield message["body"]
            if not message.get("more_body", False):
                return

    async def data(self) -> Any:
        return json.loads(b"".join([piece async for piece in self.pieces()]))

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        """Those of the frames, each of which has the form it must have. Comments are passed over."""
        rest = b""
        async with aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                *frames, rest = (rest + piece).split(b"\n\n")
                for event in map(event_of, frames):
                    if event is not None:
                        yield event
        assert rest == b""

    async def leave(self) -> None:
        """Close the connection, and wait until the application has noticed."""
        self.left.set()
        await self.over.wait()


def event_of(frame: bytes) -> dict[str, Any] | None:
    if frame.startswith(b":"):
        return None
    kind, data = frame.split(b"\n")
    event = json.loads(data.removeprefix(b"data: "))
    assert kind == f"event: {event['type']}".encode()
    return event


@dataclass
class Web:
    """A client of one application."""

    app: Any
    nursery: trio.Nursery
    store: MemoryStore

    async def begin(self, method: str, path: str, body: Any = None, **more: Any) -> Exchange:
        """Returns when the head of the answer is there."""
        exchange = self.start(method, path, body, **more)
        await exchange.begin()
        return exchange

    def start(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        room: float = math.inf,
        **scope: Any,
    ) -> Exchange:
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        raw = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **(headers or {})}.items()]
        scope = {"type": "http", "http_version": "1.1", "method": method, "path": path, "headers": raw, **scope}
        tell, told = trio.open_memory_channel[Any](room)
        exchange = Exchange(told, trio.Event())
        messages = [{"type": "http.request", "body": sent, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await exchange.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if not exchange.left.is_set():
                await tell.send(message)

        async def serve() -> None:
            with tell:
                await self.app(scope, receive, send)
            exchange.over.set()

        self.nursery.start_soon(serve)
        return exchange

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        exchange = await self.begin(method, path, body, **more)
        return exchange.status, await exchange.data()

    async def get(self, path: str, **more: Any) -> tuple[int, Any]:
        return await self.ask("GET", path, **more)

    async def chat(self, prompt: Any, **more: Any) -> dict[str, Any]:
        status, answer = await self.ask("POST", "/chat", {"prompt": prompt, **more})
        assert status == 200, answer
        return answer

    async def streaming(self, prompt: Any, **more: Any) -> Exchange:
        exchange = await self.begin("POST", "/chat/stream", {"prompt": prompt, **more})
        assert exchange.status == 200
        return exchange

    async def stream(self, prompt: Any, **more: Any) -> list[dict[str, Any]]:
        return [event async for event in (await self.streaming(prompt, **more)).events()]


@asynccontextmanager
async def served(app: Any, store: MemoryStore) -> AsyncIterator[Web]:
    """The application between the first and the last word of its lifespan."""
    to_app, app_hears = trio.open_memory_channel[Any](1)
    to_server, server_hears = trio.open_memory_channel[Any](1)
    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.deadline = trio.current_time() + PATIENCE
        nursery.start_soon(app, {"type": "lifespan"}, app_hears.receive, to_server.send)
        await to_app.send({"type": "lifespan.startup"})
        assert await server_hears.receive() == {"type": "lifespan.startup.complete"}
        yield Web(app, nursery, store)
        await to_app.send({"type": "lifespan.shutdown"})
        assert await server_hears.receive() == {"type": "lifespan.shutdown.complete"}
    assert not nursery.cancel_scope.cancelled_caught


@pytest.fixture
def web(tmp_path: Path) -> Callable[..., Any]:
    """`async with web(provider, config) as client`: further arguments are those of `create_asgi_app`."""

    @asynccontextmanager
    async def open_web(
        provider: ScriptedProvider | None = None, config: AgentConfig | None = None, **more: Any
    ) -> AsyncIterator[Web]:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        store = more.pop("store", None) or MemoryStore()
        config = config or AgentConfig(streaming=True)
        more = {"cwd": folder, "home": tmp_path / "home", **more}
        app = aar.create_asgi_app(config, provider=provider or ScriptedProvider(), store=store, **more)
        async with served(app, store) as client:
            yield client

    return open_web
