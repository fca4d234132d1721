"""The API on a real server and a real port, with a model that follows a script."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from aar.kernel.alone import errors_alone
from aar.messages.settings import AgentConfig
from aar.testing import MemoryStore, ScriptedProvider
from aar.transports.acp_http.app import create_acp_asgi_app

PATIENCE = 20.0  # seconds; only a failing test ever waits that long


def asked(text: str, **more: Any) -> dict[str, Any]:
    """The body of a `POST /runs`."""
    return {"input": [{"role": "user", "parts": [{"content_type": "text/plain", "content": text}]}], **more}


def post(path: str, data: Any, *headers: str) -> bytes:
    """The bytes of such a request."""
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def text_of(*messages: dict[str, Any]) -> str:
    return "".join(part["content"] for message in messages for part in message["parts"])


@dataclass
class Api:
    """A client of one server."""

    http: httpx2.AsyncClient
    url: str
    store: MemoryStore

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.http.get(path, **more)

    async def post(self, path: str, data: Any = None, **more: Any) -> httpx2.Response:
        return await self.http.post(path, json=data, **more)

    async def run(self, text: str, **more: Any) -> dict[str, Any]:
        """The run that a sync request gives."""
        answer = await self.post("/runs", asked(text, **more))
        assert answer.status_code == 200, answer.text
        return answer.json()

    @asynccontextmanager
    async def streaming(self, text: str, **more: Any) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The events of a stream, each from a frame that has the form it must have."""
        async with self.http.stream("POST", "/runs", json=asked(text, mode="stream", **more)) as answer:
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
            assert answer.headers["cache-control"] == "no-cache"
            async with aclosing(answer.aiter_raw()) as pieces, aclosing(_events(pieces)) as events:
                yield events

    async def stream(self, text: str, **more: Any) -> list[dict[str, Any]]:
        async with self.streaming(text, **more) as events:
            return [event async for event in events]

    @asynccontextmanager
    async def connected(self, data: bytes) -> AsyncIterator[trio.SocketStream]:
        """A connection on which these bytes have been sent; it is closed as soon as the block is left."""
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(data)
            yield stream

    async def sent(self, data: bytes) -> bytes:
        """Everything that the server answers to these bytes before it closes the connection."""
        async with self.connected(data) as stream:
            with suppress(trio.BrokenResourceError):
                return b"".join([piece async for piece in stream])
        return b""

    async def until(self, run_id: str, status: str) -> dict[str, Any]:
        """Ask for a run, again and again, until it has this status."""
        while True:
            run = (await self.get(f"/runs/{run_id}")).json()
            if run["status"] == status:
                return run

    async def types(self, run: dict[str, Any]) -> list[str]:
        """What the log of a run says that happened."""
        return [event["type"] for event in (await self.get(f"/runs/{run['run_id']}/events")).json()["events"]]


async def _events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any], None]:
    rest = b""
    async for piece in pieces:
        *frames, rest = (rest + piece).split(b"\n\n")
        for frame in frames:
            assert frame.startswith(b"data: ")
            assert b"\n" not in frame
            yield json.loads(frame.removeprefix(b"data: "))
    assert rest == b""


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The address of this application, served until the block is left."""
    config, stop = Config(), trio.Event()
    config.bind, config.errorlog, config.graceful_timeout = ["127.0.0.1:0"], None, 1.0
    with errors_alone():
        async with trio.open_nursery() as nursery:

            async def work(*, task_status: trio.TaskStatus[list[str]]) -> None:
                await serve(app, config, shutdown_trigger=stop.wait, task_status=task_status)

            with trio.fail_after(PATIENCE):
                [url] = await nursery.start(work)
                yield url
                stop.set()


@pytest.fixture
def api(tmp_path: Path) -> Callable[..., Any]:
    """`async with api(provider, config) as client`: further arguments are those of `create_acp_asgi_app`."""

    @asynccontextmanager
    async def open_api(
        provider: ScriptedProvider | None = None, config: AgentConfig | None = None, **more: Any
    ) -> AsyncIterator[Api]:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        store = more.pop("store", None) or MemoryStore()
        config = config or AgentConfig(streaming=True)
        more = {"cwd": folder, "home": tmp_path / "home", **more}
        app = create_acp_asgi_app(config, provider=provider, store=store, **more)
        async with served(app) as url, httpx2.AsyncClient(base_url=url, timeout=None) as http:
            yield Api(http, url, store)

    return open_api
