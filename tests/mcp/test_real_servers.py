"""Servers written with the package `mcp`, over standard streams and over HTTP."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from aar.errors import McpError
from aar.mcp.connection import Connection
from aar.messages.events import Notice, ToolOutput, ToolResult
from aar.messages.mcp import McpPrompt, McpResource, McpServer
from aar.processes.environment import child_environment
from aar.processes.group import open_process
from aar.testing import ScriptedProvider, facts_of
from tests.mcp.conftest import real_app, served

# The package leaves generators of httpx2 to Trio when a request is cancelled; Trio closes them, and says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <async_generator object:pytest.PytestUnraisableExceptionWarning"
)

PROGRAM = Path(__file__).parent / "servers" / "real.py"


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What is left behind is found here, and not in some other test."""
    yield
    gc.collect()


def results_of(session) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


async def told(session, words: str) -> None:
    with session.follow(after=0) as records:
        async for record in records:
            if isinstance(record.event, Notice) and words in record.event.text:
                return


@asynccontextmanager
async def over_http(port: int = 0, *options: str):
    """A server of its own process, and its address."""
    argv = [sys.executable, str(PROGRAM), "http", str(port), *options]
    async with open_process(argv, cwd="/", env=child_environment()) as process:
        line = b""
        while b"\n" not in line:
            line += await process.stdout.receive_some()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drain, process.stderr)
            yield process, line.split()[0].decode()
            nursery.cancel_scope.cancel()


async def _drain(stream) -> None:
    async for _ in stream:
        pass


def at(address: str, **more) -> McpServer:
    return McpServer(name="real", transport="http", url=f"{address}/mcp", **more)


@asynccontextmanager
async def reached(kind: str, real: McpServer):
    """The same server by the standard streams of its process, or by an address of this one."""
    if kind == "stdio":
        yield real
    else:
        async with served(real_app()) as address:
            yield at(address)


both = pytest.mark.parametrize("kind", ["stdio", "http"])


@both
@pytest.mark.covers("MCP-01", "MCP-02")
async def test_tools_answer_with_text_pictures_and_errors(kind, using, real) -> None:
    provider = ScriptedProvider().calls(("add", {"a": 1, "b": 2}), ("picture", {}), ("break_down", {})).text("done")
    async with reached(kind, real) as server, using(provider, server) as session:
        await session.mcp_servers(wait=True)
        await session.prompt("go")
        total, picture, failed = [event for event in facts_of(session) if isinstance(event, ToolResult)]
        assert (total.output, total.is_error) == ("3", False)
        assert (picture.output, picture.is_error) == ("[image: image/png]", False)
        assert failed.is_error
        assert "break_down" in failed.output
        schema = {tool.name: tool.input_schema for tool in provider.requests[0].tools}["add"]
        assert schema["required"] == ["a", "b"]


@both
async def test_arguments_that_do_not_fit_are_refused_before_the_server_sees_them(kind, using, real) -> None:
    provider = ScriptedProvider().call("add", a="x", b=2).text("done")
    async with reached(kind, real) as server, using(provider, server) as session:
        await session.mcp_servers(wait=True)
        await session.prompt("go")
        assert results_of(session)[0].startswith("Error [invalid_arguments]: invalid arguments for 'add'")


@both
async def test_resources_and_prompts_can_be_listed_and_read(kind, using, real) -> None:
    async with reached(kind, real) as server, using(ScriptedProvider(), server) as session:
        await session.mcp_servers(wait=True)
        assert await session.mcp_resources("real") == (
            McpResource(uri="notes://today", name="notes", description="Notes of today.", mime_type="text/plain"),
        )
        assert await session.read_mcp_resource("real", "notes://today") == "Buy milk."
        assert await session.mcp_prompts("real") == (
            McpPrompt(name="review", description="Ask for a review.", arguments=("language",), required=("language",)),
        )
        assert await session.mcp_prompt("real", "review", {"language": "Python"}) == "Review this Python code."
        with pytest.raises(McpError, match="MCP server 'real': "):
            await session.read_mcp_resource("real", "notes://tomorrow")


@both
async def test_a_cancelled_call_is_cancelled_on_the_server(kind, using, real, until) -> None:
    provider = ScriptedProvider().call("wait")
    provider.call("what_was_heard").text("done")
    async with reached(kind, real) as server, using(provider, server) as session:
        await session.mcp_servers(wait=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            await until(session, ToolOutput)
            with trio.fail_after(2):
                await session.cancel()
        await session.prompt("and now?")
        assert results_of(session)[1] == "cancelled"


@both
async def test_a_tool_that_comes_later_is_offered_at_the_next_step(kind, using, real) -> None:
    provider = ScriptedProvider().call("grow").text("done").call("another").text("done")
    async with reached(kind, real) as server, using(provider, server) as session:
        await session.mcp_servers(wait=True)
        await session.prompt("go")
        await told(session, "are others now; added: another.")
        await session.prompt("use it")
        assert results_of(session) == ["grown", "new"]


# --- HTTP alone -------------------------------------------------------------------------------


@pytest.mark.covers("MCP-16")
async def test_headers_go_with_every_request(using) -> None:
    provider = ScriptedProvider().call("header", name="x-key").call("header", name="X-Other").text("done")
    async with served(real_app()) as address:
        headers = {"X-Key": "one", "x-other": "two"}
        async with using(provider, at(address, headers=headers)) as session:
            await session.mcp_servers(wait=True)
            await session.prompt("go")
            assert results_of(session) == ["one", "two"]


@pytest.mark.covers("MCP-12")
async def test_a_server_that_is_killed_during_a_call_fails_that_call_and_is_found_again(using, until) -> None:
    provider = ScriptedProvider().call("wait").text("done").call("add", a=1, b=1).text("done")
    async with over_http() as (process, address), using(provider, at(address)) as session:
        await session.mcp_servers(wait=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            await until(session, ToolOutput)
            os.kill(process.pid, signal.SIGKILL)
        assert "McpUnavailable: MCP server 'real' was lost" in results_of(session)[0]
        await told(session, "was lost")
        async with over_http(int(address.rpartition(":")[2])):
            await told(session, "is connected now")
            await session.prompt("again")
            assert results_of(session)[1] == "2"


async def test_an_address_where_nobody_is_says_so(using, unused_port) -> None:
    async with using(ScriptedProvider(), at(f"http://127.0.0.1:{unused_port}")) as session:
        (status,) = await session.mcp_servers(wait=True)
        assert status.state == "failed"
        assert status.reason == f"all attempts to connect to 127.0.0.1:{unused_port} failed"


async def test_a_refusal_is_told_with_its_status_and_without_the_key(using, refusing) -> None:
    async with (
        refusing(401) as address,
        using(ScriptedProvider(), at(address, headers={"Authorization": "Bearer canary"})) as session,
    ):
        (status,) = await session.mcp_servers(wait=True)
        assert status.reason == (
            "it answers 401: it wants another key than it gets; give it one in its headers, such as"
            ' {"Authorization": "Bearer ..."}. Signing in (OAuth) is not supported'
        )
        assert "canary" not in str(facts_of(session))


async def test_a_session_at_an_older_server_is_ended_there_and_a_lost_one_is_noticed(recording) -> None:
    async with recording() as (address, seen, forget):
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open(is_legacy=True):
            assert "add" in [tool.name for tool in await connection.tools()]
            assert (await connection.call("add", {"a": 2, "b": 2}, limit=10)).text == "4"
        assert [method for method, _ in seen][-1] == "DELETE"
        assert all(headers.get("mcp-session-id") for method, headers in seen if method in ("GET", "DELETE"))
        lost = Connection(at(address), cwd="/", env={})
        async with lost.open(is_legacy=True):
            forget()
            with pytest.raises(McpError):
                await lost.tools()
            assert await lost.changed() is False
        assert lost.why == "it does not know this session any more"
