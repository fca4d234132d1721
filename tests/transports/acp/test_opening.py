"""Sessions whose opening is taken back, at every moment at which that can happen: nothing is left that nobody owns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from aar.messages.settings import AgentConfig
from aar.runtime import open_runtime
from aar.testing import MemoryStore, ScriptedProvider
from aar.transports.acp.agent import Agent
from aar.transports.acp.calls import Call, Calls, Reply
from aar.transports.acp.frames import RpcError
from aar.transports.acp.handshake import ClientCapabilities
from aar.transports.acp.house import House
from aar.transports.acp.rpc import Connection
from aar.transports.stdio.outbox import Outbox

MOMENTS = range(40)  # passes of the scheduler; opening a session in memory takes fewer


class Deaf:
    """A client that says nothing, and hears nothing."""

    def lane_of(self, call: Call) -> str | None:
        return call.params.get("sessionId")

    def answer_at_once(self, _: Call) -> Reply | None:
        return None

    async def read(self) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    async def write(self, _: bytes) -> None:
        """Into nothing."""


class GatedStore(MemoryStore):
    """Opening a session waits while the gate is closed. `opened` are the ids of those that were."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.close_the_gate()
        self.gate.set()

    def close_the_gate(self) -> None:
        self.asked, self.gate = trio.Event(), trio.Event()

    @asynccontextmanager
    async def open(self, session_id: str, **more: Any) -> AsyncIterator[Any]:
        self.asked.set()
        await self.gate.wait()
        async with super().open(session_id, **more) as log:
            self.opened.append(session_id)
            yield log


class Desk(Deaf):
    """An agent over a runtime, and the calls of its client."""

    def __init__(self, runtime: Any, store: GatedStore, nursery: trio.Nursery) -> None:
        self.store = store
        self._nursery = nursery
        self.connection = Connection(self.read, self)
        house = House(runtime.sessions, runtime.config)
        self.agent = Agent(house, self.connection, ClientCapabilities(), nursery)
        self.calls = Calls(Outbox())

    async def serve(self, call: Call) -> Reply:
        return await self.agent.serve(call)

    async def leave(self) -> None:
        """It never does."""

    def begin(self, method: str, **params: Any) -> Call:
        call = Call(method, params, object(), True)
        self.calls.begin(call, self, self._nursery)
        return call

    async def stored(self, cwd: str) -> str:
        """The id of a session that is not open."""
        opened = await self.agent.serve(Call("session/new", {"cwd": cwd}))
        await self.agent.serve(Call("session/close", {"sessionId": opened.result["sessionId"]}))
        return str(opened.result["sessionId"])

    async def kept(self, source: str) -> set[str]:
        """Stored sessions besides this one."""
        return {entry.session_id for entry in (await self.store.list())[0]} - {source}

    async def open_ones(self) -> list[str]:
        """Sessions that this client could still use."""
        found = []
        for session_id in dict.fromkeys(self.store.opened):
            with suppress(RpcError):
                await self.agent.serve(Call("session/close", {"sessionId": session_id}))
                found.append(session_id)
        return found


@asynccontextmanager
async def a_desk(home: Path) -> AsyncIterator[Desk]:
    store = GatedStore()
    async with (
        open_runtime(AgentConfig(), provider=ScriptedProvider(), store=store, home=home) as runtime,
        trio.open_nursery() as nursery,
    ):
        yield Desk(runtime, store, nursery)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("method", ["session/new", "session/fork", "session/load", "session/resume"])
async def test_whenever_an_opening_is_taken_back_nothing_of_it_is_left(tmp_path: Path, method: str) -> None:
    lost, answered = [], set()
    for moment in MOMENTS:
        async with a_desk(tmp_path) as desk:
            source = await desk.stored(str(tmp_path)) if method != "session/new" else ""
            desk.store.close_the_gate()
            call = desk.begin(method, cwd=str(tmp_path), sessionId=source)
            await desk.store.asked.wait()
            desk.store.gate.set()
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            call.scope.cancel()
            await desk.calls.done()
            await trio.testing.wait_all_tasks_blocked(0.002)
            answered.add(not call.scope.cancelled_caught)
            if call.scope.cancelled_caught and (await desk.kept(source) or await desk.open_ones()):
                lost.append(moment)
    assert lost == []
    assert answered == {True, False}
