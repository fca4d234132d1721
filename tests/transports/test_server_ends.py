"""How servers end in the middle of a task with a command: soon, and without a process that stays."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
import pytest
import trio
import trio.lowlevel

from tests.transports.acp.test_ends import gone, is_alive, written_to
from tests.transports.acp_http.conftest import asked
from tests.transports.cli.conftest import Model, Place, flags, model, place, started
from tests.transports.mcp_server.test_mcp_wire import HELLO, Wire, call, request
from tests.transports.test_server_signals import SERVERS, told

__all__ = ["flags", "model", "place", "started"]

ENDS_WITHIN = 8.0  # seconds, on a machine that does much else

Busy = tuple[trio.Process, int]


@pytest.fixture
def busy(started: Any, flags: list[str], model: Model, place: Place) -> Callable[..., Any]:
    """`async with busy("http") as (process, pid)`: a server whose command runs, and a process of that command."""

    @asynccontextmanager
    async def open_busy(server: str) -> AsyncIterator[Busy]:
        model.calls("bash", command="sleep 1000 & echo $! > pids; wait").says("Well.")
        os.mkfifo(place.project / "pids")
        async with (
            started(*SERVERS[server], "--yes", *flags, stdin=subprocess.PIPE) as process,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon({"http": _stream, "web": _chat, "mcp": _call, "mcp http": _post}[server], process)
            pid = int(await written_to(place.project / "pids"))
            assert is_alive(pid)
            yield process, pid
            nursery.cancel_scope.cancel()

    return open_busy


async def _stream(process: trio.Process) -> None:
    url = await told(process.stderr, r"http://\S+:\d+")
    with suppress(httpx2.TransportError):
        async with (
            httpx2.AsyncClient(base_url=url, timeout=None) as http,
            http.stream("POST", "/runs", json=asked("go", mode="stream")) as answer,
        ):
            await answer.aread()


async def _chat(process: trio.Process) -> None:
    url = await told(process.stderr, r"http://\S+:\d+")
    with suppress(httpx2.TransportError):
        async with httpx2.AsyncClient(base_url=url, timeout=None) as http:
            await http.post("/chat", json={"prompt": "go"})


async def _call(process: trio.Process) -> None:
    client = Wire(process)
    await client.say(request(0, "initialize", **HELLO), {"jsonrpc": "2.0", "method": "notifications/initialized"})
    await client.say(call(1, "prompt", text="go"))


async def _post(process: trio.Process) -> None:
    url = await told(process.stderr, r"http://\S+/mcp")
    kinds = {"Accept": "application/json, text/event-stream"}
    with suppress(httpx2.TransportError):
        async with httpx2.AsyncClient(headers=kinds, timeout=None) as http:
            begun = await http.post(url, json=request(0, "initialize", **HELLO))
            http.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
            await http.post(url, json=call(1, "prompt", text="go"))


@pytest.mark.parametrize("server", SERVERS)
async def test_a_signal_ends_it_soon_with_all_that_it_started(busy: Any, server: str) -> None:
    async with busy(server) as (process, pid):
        began = trio.current_time()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert trio.current_time() - began < ENDS_WITHIN
        assert not is_alive(pid)


async def test_one_more_signal_ends_it_at_once_and_nothing_stays(busy: Any) -> None:
    async with busy("http") as (process, pid):
        for _ in range(20):  # the second one that is taken counts; some come together
            process.send_signal(signal.SIGTERM)
            await trio.lowlevel.checkpoint()
        assert await process.wait() in (0, 143)
        await gone(pid)


@pytest.mark.parametrize("server", ["http", "mcp"])
async def test_killed_it_leaves_no_process(busy: Any, server: str) -> None:
    async with busy(server) as (process, pid):
        process.kill()
        await process.wait()
        await gone(pid)


async def test_a_client_that_closes_its_input_ends_it_with_all_that_it_started(busy: Any) -> None:
    async with busy("mcp") as (process, pid):
        await process.stdin.aclose()
        assert await process.wait() == 0
        assert not is_alive(pid)
