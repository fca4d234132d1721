"""A session follows its servers: here they are services of the test, which tell what it wants."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from aar.actors.mcp_tools import SessionServers
from aar.journal.journal import Journal
from aar.journal.state import Session
from aar.kernel import Child, open_supervisor
from aar.messages.mcp import McpListing, McpServer, McpTool
from aar.messages.settings import SafetyConfig
from aar.safety.grants import approval_key
from aar.testing import MemoryStore
from aar.tools.registry import ToolRegistry


async def follow(*listings: McpListing) -> tuple[list[str], list[str]]:
    """The tools in the toolbox after these listings, one after the other, and what was told."""
    toolbox, told = await followed(*listings)
    return toolbox.names(), told


async def followed(*listings: McpListing) -> tuple[ToolRegistry, list[str]]:
    toolbox = ToolRegistry()

    async def server(mailbox) -> None:
        waiting = list(listings)
        async for envelope in mailbox:
            if not waiting:
                await trio.sleep_forever()
            envelope.reply(waiting.pop(0))

    async with MemoryStore().open("one", create=True) as log, open_supervisor() as supervisor:
        journal = Journal(log, Session.of(log.stored))
        ref = supervisor.start(Child("mcp", server))
        servers = SessionServers([(McpServer(name="it", command="x"), ref)], toolbox, journal)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(servers.keep)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        return toolbox, [record.event.text for record in journal.records]


def listing(version: int, *tools: str, reason: str = "") -> McpListing:
    state = "failed" if reason else "connected"
    return McpListing(version=version, state=state, reason=reason, tools=tuple(McpTool(name=name) for name in tools))


async def test_tools_stay_while_the_server_is_away_and_go_when_it_lists_others() -> None:
    assert await follow(listing(1, "a", "b"), listing(2, "a", "b", reason="gone")) == (
        ["a", "b"],
        ["MCP server 'it' was lost: gone."],
    )
    assert await follow(listing(1, "a", "b"), listing(2, "a", "b", reason="gone"), listing(3, "b", "c")) == (
        ["b", "c"],
        [
            "MCP server 'it' was lost: gone.",
            "The tools of MCP server 'it' are others now; added: c; removed: a.",
            "MCP server 'it' is connected now.",
        ],
    )


async def test_a_tool_whose_description_changes_is_told_as_changed() -> None:
    other = McpListing(version=2, state="connected", tools=(McpTool(name="a", description="Now with a twist."),))
    assert await follow(listing(1, "a"), other) == (["a"], ["The tools of MCP server 'it' are others now; changed: a."])


async def test_a_tool_that_is_left_out_is_told_once() -> None:
    def listed(version: int, *left_out: str) -> McpListing:
        return McpListing(version=version, state="connected", left_out=left_out)

    assert await follow(listed(1, "'a' (why)"), listed(2, "'a' (why)", "'b' (it)"), listed(3, "'b' (it)")) == (
        [],
        [
            "Tools of MCP server 'it' are left out: 'a' (why).",
            "Tools of MCP server 'it' are left out: 'b' (it).",
        ],
    )


async def test_always_said_to_a_tool_does_not_hold_for_another_behind_the_same_name() -> None:
    def listed(version: int, **fields: Any) -> McpListing:
        return McpListing(version=version, state="connected", tools=(McpTool(name="a", **fields),))

    async def key(*listings: McpListing) -> str:
        toolbox, _ = await followed(*listings)
        return approval_key(toolbox.list_tools()[0], {}, SafetyConfig(), "/")

    first, twist = listed(1, description="It counts."), listed(2, description="It deletes.")
    schema = listed(3, description="It counts.", input_schema={"type": "object", "properties": {"what": {}}})
    again = listed(4, description="It counts.")
    keys = [await key(first), await key(first, twist), await key(first, schema), await key(first, twist, again)]
    assert keys[0] == keys[3]
    assert len(set(keys)) == 3
    assert '["a", "tool"]' not in keys  # what earlier versions have recorded holds for none of them


async def test_a_server_that_comes_and_goes_all_day_does_not_fill_the_journal() -> None:
    story = [listing(number, "a", reason="gone" if number % 2 else "") for number in range(1, 100)]
    tools, told = await follow(*story)
    assert tools == ["a"]
    assert len([text for text in told if "connected now" in text]) == 9
    assert told[-1] == "MCP server 'it' was lost: gone. This is not told any more."


async def test_the_name_of_a_tool_that_is_long_gone_is_free_again() -> None:
    """It is kept for a while, since the same tool may come back; not for ever."""
    many = [f"t{number}" for number in range(1001)]
    for gone, name in ((["a"], "two__x"), (many, "x")):
        toolbox = ToolRegistry()
        first = iter([listing(1, "x"), listing(2, *gone), listing(3, "y")])
        second, may_list = iter([listing(1), listing(2, "x")]), trio.Event()

        async def one(mailbox, story=first, behind=may_list) -> None:
            async for envelope in mailbox:
                if (told := next(story, None)) is None:
                    behind.set()
                    await trio.sleep_forever()
                envelope.reply(told)

        async def two(mailbox, story=second, before=may_list) -> None:
            async for envelope in mailbox:
                if (told := next(story, None)) is None:
                    await trio.sleep_forever()
                envelope.reply(told)
                await before.wait()

        async with MemoryStore().open("one", create=True) as log, open_supervisor() as supervisor:
            refs = [supervisor.start(Child(server.__name__, server)) for server in (one, two)]
            servers = [(McpServer(name=ref.name, command="x"), ref) for ref in refs]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(SessionServers(servers, toolbox, Journal(log, Session.of(log.stored))).keep)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        assert sorted(toolbox.names()) == sorted([name, "y"])
