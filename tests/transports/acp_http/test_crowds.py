"""Many clients at once, slow ones among them, and a cancel in every state of a run."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from aar.testing import ScriptedProvider
from aar.tools.registry import ToolRegistry, tool
from aar.transports.runs import runs
from tests.transports.acp_http.conftest import Api, asked, post, text_of
from tests.transports.runs.test_conversations import GatedStore

CROWD = 80
SOON = 5.0  # seconds, on a machine that does much else


async def test_a_crowd_of_streams_and_a_slow_reader_keep_nobody_waiting(api: Any) -> None:
    provider = ScriptedProvider().text("x" * 2_000_000, chunks=200)
    for _ in range(CROWD):
        provider.hang("Let me think")
    provider.text("Hello.")
    async with api(provider) as client, trio.open_nursery() as nursery:
        nursery.start_soon(_read_slowly, client)
        await provider.reached(1)
        begun = trio.Event()
        left = CROWD

        async def listen() -> None:
            nonlocal left
            async with client.connected(post("/runs", asked("go", mode="stream"))) as stream:
                await stream.receive_some()
                left -= 1
                if not left:
                    begun.set()
                await trio.sleep_forever()

        for _ in range(CROWD):
            nursery.start_soon(listen)
        await begun.wait()
        await provider.reached(CROWD + 1)
        with trio.fail_after(SOON):
            assert (await client.get("/ping")).status_code == 200
        with trio.fail_after(SOON):
            assert text_of(*(await client.run("hi"))["output"]) == "Hello."
        nursery.cancel_scope.cancel()
        with trio.fail_after(SOON):
            while provider.streaming_now:
                await trio.lowlevel.checkpoint()


async def _read_slowly(client: Api) -> None:
    host, port = client.url.removeprefix("http://").rsplit(":", 1)
    with trio.socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await slow.connect((host, int(port)))
        await slow.send(post("/runs", asked("go", mode="stream")))
        await trio.sleep_forever()


# --- cancelling -------------------------------------------------------------------------------


@asynccontextmanager
async def _opening(api: Any) -> AsyncIterator[tuple[Api, str | None]]:
    async with api(ScriptedProvider(), store=GatedStore()) as client:
        yield client, None
        client.store.gate.set()


@asynccontextmanager
async def _waiting_for_another(api: Any) -> AsyncIterator[tuple[Api, str | None]]:
    provider = ScriptedProvider().hang()
    async with api(provider) as client:
        other = (await client.post("/runs", asked("go", mode="async"))).json()
        await provider.reached(1)
        yield client, other["session_id"]
        await client.post(f"/runs/{other['run_id']}/cancel")


@asynccontextmanager
async def _silent_model(api: Any) -> AsyncIterator[tuple[Api, str | None]]:
    async with api(ScriptedProvider().hang()) as client:
        yield client, None


@asynccontextmanager
async def _talking_model(api: Any) -> AsyncIterator[tuple[Api, str | None]]:
    async with api(ScriptedProvider().hang("Let me think")) as client:
        yield client, None


@asynccontextmanager
async def _running_tool(api: Any) -> AsyncIterator[tuple[Api, str | None]]:
    @tool
    async def wait_for_ever() -> str:
        """Takes long."""
        await trio.sleep_forever()
        return ""

    registry = ToolRegistry()
    registry.add(wait_for_ever)
    async with api(ScriptedProvider().call("wait_for_ever"), registry=registry) as client:
        yield client, None


@asynccontextmanager
async def _open_question(api: Any) -> AsyncIterator[tuple[Api, str | None]]:
    async def never(*_: Any) -> str:
        await trio.sleep_forever()
        return "approved"

    provider = ScriptedProvider().call("write_file", path="x.txt", content="x")
    async with api(provider, approval_callback=never) as client:
        yield client, None


STATES = {
    "its session is opened": _opening,
    "it waits for another": _waiting_for_another,
    "the model is silent": _silent_model,
    "the model talks": _talking_model,
    "a tool runs": _running_tool,
    "a question is open": _open_question,
}


@pytest.mark.covers("ACPH-07")
@pytest.mark.parametrize("state", STATES)
async def test_a_run_is_cancelled_soon_in_every_state(api: Any, state: str) -> None:
    async with STATES[state](api) as (client, session_id):
        more = {"session_id": session_id} if session_id else {}
        async with client.streaming("go", **more) as events:
            first = await anext(events)
            await _settle(client, state)
            with trio.fail_after(SOON):
                answers = [await client.post(f"/runs/{first['run']['run_id']}/cancel") for _ in range(2)]
            assert [answer.json()["status"] for answer in answers] == ["cancelled", "cancelled"]
            assert [event async for event in events][-1]["type"] == "run_cancelled"


async def _settle(client: Api, state: str) -> None:
    """Until it is in its state, as far as that can be seen from outside."""
    if isinstance(client.store, GatedStore):
        await client.store.asked.wait()
    else:
        await trio.testing.wait_all_tasks_blocked(0.05)


@pytest.mark.covers("ACPH-17")
@pytest.mark.parametrize("mode", ["sync", "stream"])
@pytest.mark.parametrize("state", STATES)
async def test_a_client_that_leaves_ends_its_run_in_every_state(
    api: Any, state: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with STATES[state](api) as (client, session_id):
        more = {"session_id": session_id} if session_id else {}
        monkeypatch.setattr(runs, "MOST_LIVE", 2 if session_id else 1)
        async with client.connected(post("/runs", asked("go", mode=mode, **more))):
            await _settle(client, state)
            assert not await _has_room(client)
        with trio.fail_after(SOON):
            while not await _has_room(client):
                await trio.lowlevel.checkpoint()


async def _has_room(client: Api) -> bool:
    """Whether one more run is taken; it is left at once."""
    async with client.http.stream("POST", "/runs", json=asked("go", mode="stream")) as answer:
        return answer.status_code == 200
