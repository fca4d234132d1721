"""Loopback servers that play the services behind the bundled MCP servers, and ways to start those."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import SSLContext
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from mcp import Client, StdioServerParameters

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Asked:
    """A request that came in; `at` is when, `form` and `json` what its body says."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float = field(compare=False)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()}


@dataclass(frozen=True)
class Answer:
    body: str | bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Play = Callable[[Asked], Answer]


@dataclass
class Service:
    """Somewhere on loopback; `asked` is every request so far."""

    url: str
    asked: list[Asked]

    @property
    def lines(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.asked]


def _handler(play: Play, asked: list[Asked]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Asked(self.command, parts.path, query, headers, body, monotonic())
            asked.append(request)
            answer = play(request)
            content = answer.body.encode() if isinstance(answer.body, str) else answer.body
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # who asked may have seen enough
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    for method in ("GET", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    return Handler


@contextmanager
def serving(play: Play, tls: SSLContext | None = None) -> Iterator[Service]:
    asked: list[Asked] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(play, asked))
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        scheme, host = ("https", "localhost") if tls else ("http", "127.0.0.1")
        yield Service(f"{scheme}://{host}:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def service() -> Callable[..., AbstractContextManager[Service]]:
    """`with service(play) as there`: `play(request)` gives the answer."""
    return serving


@pytest.fixture
def answer() -> type[Answer]:
    """`answer(body, status, headers)`: what a service says."""
    return Answer


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


async def said(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a tool, with `error: ` in front when it failed; the framing of the MCP library is left out."""
    result = await client.call_tool(tool, arguments)
    (block,) = result.content
    text = block.text.removeprefix(f"Error executing tool {tool}: ")  # type: ignore[union-attr]
    return f"error: {text}" if result.is_error else text


@pytest.fixture
def call() -> Callable[..., Any]:
    """`await call(client, "search", query="x")`."""
    return said


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., Any]:
    """`async with started("web", cwd=folder) as client`: the server as a process of its own, over its pipes."""

    @asynccontextmanager
    async def start(name: str, *arguments: str, cwd: Path = tmp_path, **variables: str) -> AsyncIterator[Client]:
        path = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
        environment = {"PATH": path, "HOME": str(tmp_path), **variables}
        command = shutil.which("python3", path=path) or sys.executable
        parameters = StdioServerParameters(
            command=command, args=[str(ROOT / "tools" / name), *arguments], env=environment, cwd=cwd
        )
        async with Client(parameters) as client:
            yield client

    return start
