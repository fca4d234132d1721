"""Servers as they are found: made after the examples of an SDK, restarted, with the names that all of them use."""

from __future__ import annotations

import pytest

from aar.mcp.connection import Connection
from aar.testing import ScriptedProvider
from aar.tools.registry import tool
from tests.mcp.test_hostile_addresses import Application, Reply, at, fine, results_of
from tests.mcp.test_sessions_with_servers import notices_of

FORGOTTEN = b'{"jsonrpc": "2.0", "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}'


async def test_a_server_that_answers_400_to_a_session_of_before_its_restart_is_connected_again(serving, using) -> None:
    async def forgotten(reply: Reply) -> None:
        await reply.all(FORGOTTEN, status=400)

    provider = ScriptedProvider().call("go").text("done")
    app = Application(forgotten, fine, mcp_session_id="one")
    async with serving(app) as address, using(provider, at(address)) as session:
        await session.mcp_servers(wait=True)
        await session.prompt("go")
        assert results_of(session) == ["fine"]
    assert [method for method, _ in app.seen].count("initialize") == 2


async def test_what_a_server_refused_while_it_was_connected_is_not_why_it_is_lost_later(serving) -> None:
    """Its session is there: the first question of all, which it answered with 400, was of a newer protocol."""

    class Older(Application):
        async def answer(self, reply: Reply) -> None:
            if reply.message["method"] == "server/discover":
                await reply.all(b"Bad Request", status=400, kind="text/plain")
            else:
                await super().answer(reply)

    app = Older(fine)
    async with serving(app) as address:
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open():
            assert (await connection.call("go", {}, limit=10)).text == "fine"
            assert connection.why == ""
    assert app.seen[0][0] == "server/discover"


@pytest.mark.parametrize(
    ("number", "told"),
    [(3, "s__t0, s__t1, s__t2"), (22, ", ".join(f"s__t{at}" for at in range(20)) + " and 2 more")],
)
async def test_many_names_that_are_taken_are_told_in_one_notice(using, plain, number: int, told: str) -> None:
    names = [f"t{at}" for at in range(number)]

    def built(name: str):
        def call() -> str:
            return name

        call.__name__, call.__doc__ = name, name
        return tool(call)

    async with using(
        ScriptedProvider().text("ok"), plain("s", tools=names), tools=[built(name) for name in names]
    ) as session:
        await session.prompt("go")
        assert notices_of(session) == [f"{number} tools of MCP server 's' have names that are taken; they are {told}."]
