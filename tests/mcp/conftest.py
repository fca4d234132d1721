"""MCP servers to test with, and sessions that use them."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aar.client import SessionHandle
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.testing import ScriptedProvider, open_test_runtime

SERVERS = Path(__file__).parent / "servers"


@pytest.fixture
def plain() -> Callable[..., McpServer]:
    """`plain("name", tools=[...])`: the server in `servers/plain.py` with these options."""

    def named(name: str = "plain", *, env: dict[str, str] | None = None, prefix: bool = False, **options: Any) -> Any:
        args = (str(SERVERS / "plain.py"), json.dumps(options))
        return McpServer(name=name, command=sys.executable, args=args, env=env or {}, prefix_tools=prefix)

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
