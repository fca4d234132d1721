"""What a client is told of an open session, without a process."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, open_test_runtime
from aar.transports.acp import live
from aar.transports.acp.handshake import ClientCapabilities
from aar.transports.acp.live import LiveSession, Shop
from aar.transports.acp.rpc import Connection
from tests.transports.acp.test_rpc import Peer, Wire


async def test_a_mistake_in_what_follows_an_event_ends_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise KeyError("a mistake")

    wire, provider = Wire(), ScriptedProvider().text("Still here.")
    connection = Connection(wire.read, wire)
    async with open_test_runtime(provider, home=tmp_path) as runtime, trio.open_nursery() as nursery:
        handle = await runtime.sessions.open(str(tmp_path))
        shop = Shop(connection, ClientCapabilities(), AgentConfig(), nursery, trio.CapacityLimiter(1))
        nursery.start_soon(connection.run, Peer())
        session = LiveSession(handle, shop)
        session.begin()
        monkeypatch.setattr(live, "options_of", fails)
        await session.configure({"max_steps": 3})
        await handle.prompt("go")
        await session.up_to_date()
        await trio.testing.wait_all_tasks_blocked()  # it has been written, too
        nursery.cancel_scope.cancel()
    assert "Still here." in json.dumps(wire.frames)
