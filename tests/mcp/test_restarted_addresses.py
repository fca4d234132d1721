"""Servers over HTTP that go away while nobody uses them, and come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from aar.messages.events import Notice
from aar.testing import ScriptedProvider
from tests.mcp.test_hostile_addresses import EVENTS, Application, Reply, at, fine, results_of


class Telling(Application):
    """With a stream on which it might tell news."""

    def __init__(self, *calls: Any) -> None:
        super().__init__(*calls, mcp_session_id="one")
        self.is_listened_to = trio.Event()

    async def answer(self, reply: Reply) -> None:
        if reply.message["method"] != "GET":
            await super().answer(reply)
            return
        await reply.begin(kind=EVENTS)
        await reply.more(b": here\n\n")
        self.is_listened_to.set()
        await trio.sleep_forever()


@asynccontextmanager
async def served_at(port: int, app: Any) -> AsyncIterator[None]:
    config = Config()
    config.bind, config.errorlog, config.graceful_timeout = [f"127.0.0.1:{port}"], None, 0
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: serve(app, config, task_status=task_status))
        yield
        nursery.cancel_scope.cancel()


async def told(session: Any, words: str) -> None:
    with session.follow(after=0) as records:
        async for record in records:
            if isinstance(record.event, Notice) and words in record.event.text:
                return


def count(app: Application, method: str) -> int:
    return [seen for seen, _ in app.seen].count(method)


async def test_a_server_that_was_started_again_while_nobody_used_it_costs_no_call(using, unused_port) -> None:
    provider = ScriptedProvider().call("go").text("done").call("go").text("done")
    async with using(provider, at(f"http://127.0.0.1:{unused_port}")) as session:
        async with served_at(unused_port, first := Application(fine)):
            await session.mcp_servers(wait=True)
            await session.prompt("go")
        done = trio.Event()

        async def ask_again() -> None:
            await session.prompt("again")
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_again)
            await told(session, "was lost")
            async with served_at(unused_port, second := Application(fine)):
                await done.wait()
        assert results_of(session) == ["fine", "fine"]
        assert (count(first, "tools/call"), count(second, "tools/call")) == (1, 1)


async def test_a_server_that_goes_while_it_is_listened_to_is_noticed_before_anybody_asks(using, unused_port) -> None:
    async with using(ScriptedProvider(), at(f"http://127.0.0.1:{unused_port}")) as session:
        async with served_at(unused_port, app := Telling(fine)):
            await session.mcp_servers(wait=True)
            await app.is_listened_to.wait()
        with trio.fail_after(5):
            await told(session, "was lost")
            async with served_at(unused_port, Telling(fine)):
                await told(session, "is connected now")


async def test_a_call_that_may_have_been_done_is_not_made_again(using, unused_port) -> None:
    begun = trio.Event()

    async def hang(reply: Reply) -> None:
        begun.set()
        await trio.sleep_forever()

    provider = ScriptedProvider().call("go").text("done")
    async with using(provider, at(f"http://127.0.0.1:{unused_port}")) as session:
        async with trio.open_nursery() as nursery:
            async with served_at(unused_port, Application(hang)):
                await session.mcp_servers(wait=True)
                nursery.start_soon(session.prompt, "go")
                await begun.wait()
            async with served_at(unused_port, again := Application(fine)):
                await told(session, "is connected now")
        [result] = results_of(session)
        assert "McpUnavailable: MCP server 'it' was lost" in result
        assert count(again, "tools/call") == 0
