"""MCP servers to test with, and sessions that use them."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from aar.client import SessionHandle
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.testing import ScriptedProvider, open_test_runtime

SERVERS = Path(__file__).parent / "servers"


@pytest.fixture
def plain() -> Callable[..., McpServer]:
    """`plain("name", tools=[...])`: the server in `servers/plain.py` with these options."""

    def named(
        name: str = "plain",
        *,
        env: dict[str, str] | None = None,
        prefix: bool = False,
        trust: bool = False,
        **options: Any,
    ) -> McpServer:
        args = (str(SERVERS / "plain.py"), json.dumps(options))
        return McpServer(
            name=name, command=sys.executable, args=args, env=env or {}, prefix_tools=prefix, trust_annotations=trust
        )

    return named


@pytest.fixture
def real() -> McpServer:
    """A server written with the package `mcp`."""
    return McpServer(name="real", command=sys.executable, args=(str(SERVERS / "real.py"),))


def unasked(**fields: Any) -> AgentConfig:
    return AgentConfig(
        tools={"enabled_builtins": []}, safety=SafetyConfig(require_approval_for_execute=False), **fields
    )


@pytest.fixture
def using(tmp_path: Path) -> Callable[..., Any]:
    """`async with using(provider, *servers) as session`: one session with these servers, which asks nobody."""

    @asynccontextmanager
    async def open_session(
        provider: ScriptedProvider, *servers: McpServer, config: AgentConfig | None = None, **named: Any
    ) -> AsyncIterator[SessionHandle]:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        async with open_test_runtime(provider, config or unasked(), home=tmp_path / "home") as runtime:
            yield await runtime.sessions.open(str(folder), mcp_servers=servers, **named)

    return open_session


# --- HTTP -------------------------------------------------------------------------------------


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The address of an ASGI application in this process."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 0.1
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve, app, config, mode="asgi"))
        yield bound[0]
        nursery.cancel_scope.cancel()


def real_app() -> Any:
    """The application of a new server written with the package `mcp`."""
    spec = importlib.util.spec_from_file_location("real_server", SERVERS / "real.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.server.streamable_http_app()


@pytest.fixture
def refusing() -> Callable[[int], Any]:
    """`async with refusing(401) as address`: every request is answered so."""

    def answering(status: int) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                for event in ("startup", "shutdown"):
                    await receive()
                    await send({"type": f"lifespan.{event}.complete"})
                return
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        return served(app)

    return answering


@pytest.fixture
def recording() -> Callable[[], Any]:
    """`async with recording() as (address, seen, forget)`: a server of the package, what it was asked, a way to make
    it forget its sessions."""

    @asynccontextmanager
    async def record() -> AsyncIterator[tuple[str, list[tuple[str, dict[str, str]]], Callable[[], None]]]:
        answer = real_app()
        seen: list[tuple[str, dict[str, str]]] = []
        forgotten = False

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                seen.append((scope["method"], headers))
                if forgotten:
                    await send({"type": "http.response.start", "status": 404, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                    return
            await answer(scope, receive, send)

        def forget() -> None:
            nonlocal forgotten
            forgotten = True

        async with served(app) as address:
            yield address, seen, forget

    return record


@pytest.fixture
def serving() -> Callable[[Any], Any]:
    """`async with serving(app) as address`: any ASGI application."""
    return served
