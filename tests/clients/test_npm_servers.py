"""MCP servers from npm, used by sessions of Aar."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import create_server
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest
import trio

from aar.messages.events import ToolResult
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.testing import ScriptedProvider, facts_of, open_test_runtime
from tests.mcp.test_sessions_with_servers import told
from tests.transports.cli.conftest import PATIENCE

pytestmark = pytest.mark.clients
UNASKED = AgentConfig(tools={"enabled_builtins": []}, safety=SafetyConfig(require_approval_for_execute=False))


@pytest.fixture
def from_npm(installed: Path) -> Callable[..., McpServer]:
    """`from_npm("everything", ...)`: `@modelcontextprotocol/server-everything`, started with these arguments."""

    def named(name: str, *arguments: str) -> McpServer:
        program = installed / "node_modules" / ".bin" / f"mcp-server-{name}"
        return McpServer(name=name, command=str(program), args=arguments, prefix_tools=True)

    return named


async def test_the_server_with_everything_answers_calls_and_shows_resources_and_prompts(
    from_npm: Any, tmp_path: Path
) -> None:
    provider = ScriptedProvider().call("everything__echo", message="hello there")
    provider.call("everything__get-sum", a=19, b=23).call("everything__get-sum", a="no number").text("Done.")
    async with open_test_runtime(provider, UNASKED, home=tmp_path / "home") as runtime:
        session = await runtime.sessions.open(str(tmp_path), mcp_servers=(from_npm("everything"),))
        (status,) = await session.mcp_servers(wait=True)
        assert (status.name, status.state) == ("everything", "connected")
        await session.prompt("use it")
        results = [event for event in facts_of(session) if isinstance(event, ToolResult)]
        assert [result.is_error for result in results] == [False, False, True]
        assert results[0].output == "Echo: hello there"
        assert "42" in results[1].output
        resources = await session.mcp_resources("everything")
        assert "static" in " ".join(resource.uri for resource in resources)
        assert await session.read_mcp_resource("everything", resources[0].uri)
        prompts = [prompt.name for prompt in await session.mcp_prompts("everything")]
        assert "simple-prompt" in prompts
        assert await session.mcp_prompt("everything", "simple-prompt")


async def test_the_server_for_files_reads_and_writes_in_its_folder_alone(from_npm: Any, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "notes.txt").write_text("remember the milk\n")
    provider = ScriptedProvider().call("filesystem__read_text_file", path=str(folder / "notes.txt"))
    provider.call("filesystem__write_file", path=str(folder / "new.txt"), content="made\n")
    provider.call("filesystem__read_text_file", path="/etc/hostname").text("Done.")
    async with open_test_runtime(provider, UNASKED, home=tmp_path / "home") as runtime:
        server = from_npm("filesystem", str(folder))
        # Servers of this kind take the roots of their client over their arguments: the session's folder is one.
        session = await runtime.sessions.open(str(folder), mcp_servers=(server,))
        await session.mcp_servers(wait=True)
        await session.prompt("use them")
        results = [event for event in facts_of(session) if isinstance(event, ToolResult)]
        assert [result.is_error for result in results] == [False, False, True]
        assert "remember the milk" in results[0].output
        assert "outside the allowed paths" in results[2].output  # Aar asks its own policy first
    assert (folder / "new.txt").read_text() == "made\n"


# The package leaves generators of httpx2 to Trio when a stream breaks; Trio closes them, and says so.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <async_generator object:pytest.PytestUnraisableExceptionWarning"
)
async def test_a_server_at_an_address_that_is_killed_and_started_again_is_used_again(
    installed: Path, tmp_path: Path
) -> None:
    """It keeps sessions, and answers 400 to one that it does not know."""
    program = installed / "node_modules" / ".bin" / "mcp-server-everything"
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = McpServer(name="it", transport="http", url=f"http://127.0.0.1:{port}/mcp")
    provider = ScriptedProvider()
    for message in ("one", "two", "three"):
        provider.call("echo", message=message).text("Done.")
    async with open_test_runtime(provider, UNASKED, home=tmp_path / "home") as runtime:
        async with listening(program, port):
            session = await runtime.sessions.open(str(tmp_path), mcp_servers=(server,))
            await session.mcp_servers(wait=True)
            await session.prompt("use it")
        with trio.fail_after(PATIENCE):
            await session.prompt("use what is gone")
            async with listening(program, port):
                await told(session, "is connected now")
                await session.prompt("use it again")
    results = [event.output for event in facts_of(session) if isinstance(event, ToolResult)]
    assert (results[0], results[2:]) == ("Echo: one", ["Echo: three"])
    lost = "Error [exception]: McpUnavailable: MCP server 'it' "  # was lost, or, noticed before, is not there
    assert results[1].startswith((f"{lost}was lost", f"{lost}is not there"))
    gc.collect()  # what is left behind is found here, and not in some other test


@asynccontextmanager
async def listening(program: Path, port: int) -> AsyncIterator[None]:
    """The server with everything at this port, from when it listens until it is killed."""
    command = [str(program), "streamableHttp"]
    environment = {**os.environ, "PORT": str(port)}
    process = await trio.lowlevel.open_process(command, env=environment, stdout=DEVNULL, stderr=PIPE)
    try:
        assert process.stderr is not None
        said = b""
        with trio.fail_after(PATIENCE):
            while b"listening on port" not in said:
                said += (part := await process.stderr.receive_some())
                assert part, said
        yield
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        if process.stderr is not None:
            await process.stderr.aclose()
