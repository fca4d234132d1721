"""`aar mcp`: another agent's MCP client against the real program."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
import trio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from tests.transports.cli.conftest import PATIENCE, Model, Place, flags, here, model, place, started

__all__ = ["flags", "here", "model", "place", "started"]


@pytest.fixture
def client(place: Place, flags: list[str], started: Any) -> Callable[..., Any]:
    """`async with client("--yes") as agent`: a client of `aar mcp` over pipes; `cold`, it starts the program itself."""

    @asynccontextmanager
    async def start(*arguments: str, cold: bool = False) -> AsyncIterator[Client]:
        words = ["mcp", *flags, *arguments]
        if cold:
            program = {"command": sys.executable, "args": ["-m", "aar", *words], "cwd": str(place.project)}
            with trio.fail_after(PATIENCE):
                async with Client(StdioServerParameters(**program, env=place.environment)) as agent:
                    yield agent
        else:
            async with (
                started(*words, stdin=subprocess.PIPE) as process,
                Client(_over_pipes_of(process)) as agent,
            ):
                yield agent

    return start


@asynccontextmanager
async def _over_pipes_of(process: Any) -> AsyncIterator[tuple[Any, Any]]:
    """What the package's own client does with a program that it has started."""
    heard, received = anyio.create_memory_object_stream[SessionMessage](0)
    sent, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def listen() -> None:
        rest = b""
        async for data in process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                await heard.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

    async def tell() -> None:
        async for message in said:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send_all(line.encode() + b"\n")

    async with heard, received, sent, said, trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        nursery.start_soon(tell)
        yield received, sent
        nursery.cancel_scope.cancel()
    await process.stdin.aclose()


async def called(agent: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await agent.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content or {}
    return found


async def refusal(agent: Client, tool: str, **arguments: Any) -> str:
    result = await agent.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]


async def test_an_agent_gives_a_task_and_goes_on_in_the_same_session(client: Any, model: Model) -> None:
    model.says("I am ", "Aar.").says("As I said.")
    async with client(cold=True) as agent:
        assert [tool.name for tool in (await agent.list_tools()).tools] == ["prompt", "status", "cancel"]
        first = await called(agent, "prompt", text="Who are you?")
        assert (first["status"], first["answer"], first["error"]) == ("completed", "I am Aar.", "")
        second = await called(agent, "prompt", text="Again?", session_id=first["session_id"])
        assert (second["session_id"], second["answer"]) == (first["session_id"], "As I said.")
    sent = [message["content"] for message in model.requests[-1]["messages"] if message["role"] != "system"]
    assert sent == ["Who are you?", "I am Aar.", "Again?"]


async def test_tools_that_ask_are_denied_unless_the_user_has_said_yes(client: Any, model: Model, place: Place) -> None:
    model.calls("write_file", path="a.txt", content="hi").says("Done.")
    async with client() as agent:
        await called(agent, "prompt", text="write")
    assert not (place.project / "a.txt").exists()
    model.calls("write_file", path="a.txt", content="hi").says("Done.")
    async with client("--yes") as agent:
        await called(agent, "prompt", text="write")
        await called(agent, "prompt", text="write")
    assert (place.project / "a.txt").read_text() == "hi"


async def test_a_long_task_is_begun_looked_after_and_cancelled(client: Any, model: Model) -> None:
    model.says("so far", wait=trio.Event())
    async with client() as agent:
        begun = await called(agent, "prompt", text="go", wait=False)
        assert begun["status"] in ("created", "in-progress")
        await model.asked.wait()
        assert (await called(agent, "status", run_id=begun["run_id"]))["status"] == "in-progress"
        ended = await called(agent, "cancel", run_id=begun["run_id"])
        assert ended["status"] == "cancelled"
        assert await called(agent, "status", run_id=begun["run_id"]) == ended


async def test_a_call_that_is_cancelled_ends_its_task_and_the_next_one_runs(client: Any, model: Model) -> None:
    model.says("so far", wait=trio.Event()).says("Here.")
    async with client() as agent:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                await called(agent, "prompt", text="go")

            nursery.start_soon(ask)
            await model.asked.wait()
            nursery.cancel_scope.cancel()
        assert (await called(agent, "prompt", text="next"))["answer"] == "Here."


async def test_wrong_calls_are_told_in_words(client: Any, model: Model) -> None:
    async with client() as agent:
        assert "say what Aar is to do" in await refusal(agent, "prompt", text="  ")
        assert "There is no run 'nope'" in await refusal(agent, "status", run_id="nope")
        assert "There is no run 'nope'" in await refusal(agent, "cancel", run_id="nope")


async def test_a_failing_model_is_told_and_harms_nothing(client: Any, model: Model) -> None:
    model.says("no such key", status=401).says("Here.")
    async with client() as agent:
        failed = await called(agent, "prompt", text="go")
        assert (failed["status"], failed["error"]) == ("failed", "Authentication failed — check your API key.")
        assert (await called(agent, "prompt", text="go"))["answer"] == "Here."


@pytest.mark.parametrize("way", ["end of input", "SIGTERM"])
async def test_it_ends_with_its_client_and_on_a_signal_also_in_the_middle_of_a_task(
    started: Any, flags: list[str], model: Model, way: str
) -> None:
    model.says("so far", wait=trio.Event())
    async with started("mcp", *flags, stdin=subprocess.PIPE) as process:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}
        lines = [
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "prompt", "arguments": {"text": "go"}},
            },
        ]
        await process.stdin.send_all(b"no json\n" + b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        await model.asked.wait()
        if way == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            await process.stdin.aclose()
        with trio.fail_after(PATIENCE):
            assert await process.wait() == 0


async def test_over_http_it_needs_its_token(started: Any, flags: list[str], model: Model) -> None:
    model.says("Over HTTP.")
    async with started("mcp", "--http", "--port", "0", "--token", "sesame", *flags) as process:
        url = await _address(process.stderr)
        async with httpx2.AsyncClient() as nobody:
            refused = await nobody.post(url, json={})
            assert (refused.status_code, refused.json()) == (401, {"detail": "A valid bearer token is needed"})
        async with (
            httpx2.AsyncClient(headers={"Authorization": "Bearer sesame"}, timeout=None) as http,
            Client(streamable_http_client(url, http_client=http)) as agent,
        ):
            assert (await called(agent, "prompt", text="go"))["answer"] == "Over HTTP."
        process.terminate()
        with trio.fail_after(PATIENCE):
            assert await process.wait() == 0


async def test_a_page_of_a_browser_is_kept_out(started: Any, flags: list[str]) -> None:
    async with started("mcp", "--http", "--port", "0", *flags) as process:
        url = await _address(process.stderr)
        async with httpx2.AsyncClient() as page:
            for headers, status in (({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 421)):
                assert (await page.post(url, json={}, headers=headers)).status_code == status
        process.terminate()
        await process.wait()


async def _address(stream: Any) -> str:
    data = b""
    while not (found := re.search(rb"http://\S+/mcp", data)):
        piece = await stream.receive_some()
        assert piece, data
        data += piece
    return found.group().decode()


def test_flags_of_serving_over_http_need_it(here: Any) -> None:
    done = here("mcp", "--port", "1")
    assert (done.code, done.err) == (2, "aar: --port is for serving over HTTP: add --http.\n")
