"""Programs that misbehave, by mistake or on purpose: the session goes on, and whoever uses it can cancel."""

from __future__ import annotations

import pytest
import trio

from aar.errors import McpError
from aar.mcp.connection import Connection
from aar.messages.events import Notice, ToolOutput, ToolResult, TurnEnded
from aar.processes.environment import child_environment
from aar.testing import ScriptedProvider, facts_of


def results_of(session) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


def tool(name: str, **more) -> dict:
    return {"name": name, "inputSchema": {"type": "object", "properties": {}}, **more}


async def cancelled_at_once(session, until, prompt: str = "go") -> None:
    """Begin a turn, and cancel it when a call says something."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, prompt)
        await until(session, ToolOutput)
        with trio.fail_after(1):
            await session.cancel()
            await until(session, TurnEnded)


@pytest.mark.parametrize("line", [{"size": 5_000_000}, {"size": 5_000_000, "id_last": True}])
async def test_an_answer_that_is_too_long_fails_its_call_and_the_same_process_goes_on(plain, line, tmp_path) -> None:
    connection = Connection(plain(), cwd=str(tmp_path), env=child_environment(), message_limit=1_000_000)
    async with connection.open():
        pid = await connection.call("pid", {}, limit=100)
        with pytest.raises(McpError, match="'plain': it sent a message of more than 1,000,000 bytes"):
            await connection.call("big", line, limit=100)
        assert (await connection.call("big", {"size": 900_000}, limit=100)).text == "x" * 101
        assert await connection.call("pid", {}, limit=100) == pid


async def test_an_answer_with_millions_of_values_fails_its_call_before_it_is_read(plain, tmp_path) -> None:
    connection = Connection(plain(), cwd=str(tmp_path), env=child_environment())
    async with connection.open():
        with pytest.raises(McpError, match="'plain': it sent a message with more than 100,000 values"):
            await connection.call("values", {"count": 200_000}, limit=100)
        assert (await connection.call("echo", {}, limit=100)).text == "{}"


async def test_half_a_line_is_waited_for_no_longer_than_anybody_wants(using, plain) -> None:
    provider = ScriptedProvider().calls(("half_a_line", {}), ("echo", {})).text("done")
    async with using(provider, plain()) as session, trio.open_nursery() as nursery:
        await session.mcp_servers(wait=True)
        nursery.start_soon(session.prompt, "go")
        with session.follow(after=0) as records:
            async for record in records:
                if record.event.type == "tool_started":
                    break
        with trio.fail_after(1):
            await session.cancel()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/tools/list_changed", {}),
        ("notifications/progress", {"progressToken": "of nobody", "progress": 1}),
        ("notifications/message", {"level": "error", "data": "x" * 10_000}),
        ("notifications/of/nobody", {"a": [1, 2, 3]}),
        ("notifications/cancelled", {"requestId": 1}),
    ],
)
async def test_a_flood_of_notifications_stops_neither_calls_nor_a_cancel(
    using, plain, until, monkeypatch, method, params
) -> None:
    monkeypatch.setattr("aar.mcp.pace.LONGEST_PAUSE", 0.2)
    provider = ScriptedProvider().call("flood", method=method, params=params).call("echo", a=1).call("hang")
    async with using(provider, plain(tools=["flood", "echo", "hang"])) as session:
        with trio.fail_after(20):
            await cancelled_at_once(session, until)
        assert results_of(session)[:2] == ["it flows", '{"a": 1}']


async def test_a_cancelled_call_that_answers_all_the_same_disturbs_nobody(using, plain, until) -> None:
    provider = ScriptedProvider().call("late").call("echo", a=1).text("done")
    async with using(provider, plain(tools=["late", "echo"])) as session:
        await cancelled_at_once(session, until)
        await session.prompt("and now?")
        assert results_of(session)[1:] == ['{"a": 1}']


async def test_a_server_that_wants_to_use_our_model_is_refused(using, plain) -> None:
    async with using(ScriptedProvider().call("sample").text("done"), plain(tools=["sample"])) as session:
        await session.prompt("go")
        assert "not supported" in results_of(session)[0].lower()


@pytest.mark.parametrize(
    ("result", "output", "is_error"),
    [
        ({"isError": True}, "", True),
        ({"isError": True, "content": []}, "", True),
        ({"content": [], "structuredContent": {"a": 1}}, '{"a": 1}', False),
        ({"structuredContent": {"a": 1}}, '{"a": 1}', False),
        ({"content": []}, "", False),
        ({"isError": True, "content": None}, "", True),
        (
            {"content": [{"type": "new", "a": 1}, {"type": "text"}, 7]},
            '{"type": "new", "a": 1}\n{"type": "text"}\n7',
            False,
        ),
    ],
)
async def test_results_may_lack_almost_everything(using, plain, result, output, is_error) -> None:
    async with using(ScriptedProvider().call("raw", result=result).text("done"), plain(tools=["raw"])) as session:
        await session.prompt("go")
        (found,) = [event for event in facts_of(session) if isinstance(event, ToolResult)]
        assert (found.output, found.is_error) == (output, is_error)


@pytest.mark.parametrize("result", [None, [], "text", {}, {"content": "text"}, {"structuredContent": {"a": "\ud800"}}])
async def test_a_result_that_is_none_is_an_error_of_that_call(using, plain, result) -> None:
    provider = ScriptedProvider().calls(("raw", {"result": result}), ("echo", {})).text("done")
    async with using(provider, plain(tools=["raw", "echo"])) as session:
        await session.prompt("go")
        broken, fine = results_of(session)
        assert broken.startswith("Error [exception]: McpError: MCP server 'plain': ")
        assert len(broken) < 3000
        assert fine == "{}"


# --- lists ------------------------------------------------------------------------------------


async def listed(using, plain, listing) -> tuple[str, list[str], list[str]]:
    async with using(ScriptedProvider().text("done"), plain(listing=listing)) as session:
        (status,) = await session.mcp_servers(wait=True)
        await session.prompt("go")
        told = [event.text for event in facts_of(session) if isinstance(event, Notice)]
        return status.state, [one.name for one in status.tools], told


async def test_a_list_without_an_end_is_read_until_there_are_enough(using, plain) -> None:
    names = [f"t{number}" for number in range(100)]
    listing = {"tools": [tool(name) for name in names], "nextCursor": "again"}
    with trio.fail_after(10):
        assert await listed(using, plain, listing) == ("connected", names, [])


async def test_ten_thousand_tools_are_as_many_as_a_model_can_take(using, plain) -> None:
    names = [f"t{number}" for number in range(10_000)]
    async with using(ScriptedProvider(), plain(tools=names, page=10_000)) as session:
        (status,) = await session.mcp_servers(wait=True)
        assert [one.name for one in status.tools] == names[:512]
        assert status.left_out[0] == "'t512' (there are more than 512 tools)"
        assert status.left_out[20:] == ("9468 more",)


NO_OBJECT, NO_SCHEMA = "is not one of an object", "is no JSON Schema"
BROKEN = [
    {"type": 5},
    {"type": "array"},
    {"type": "object", "properties": []},
    {"type": "object", "properties": {"a": {"type": "nothing"}}},
    {"type": "object", "required": "a"},
    {"type": "object", "properties": {"a": {"pattern": 1}}},
    {"type": "object", "properties": {"a": {"$ref": 7}}},
    {"type": "object", "description": "x" * 101_000},
    "text",
    None,
    [],
]


@pytest.mark.parametrize("schema", BROKEN)
async def test_a_tool_whose_schema_is_none_is_left_out_and_the_others_stay(using, plain, schema) -> None:
    broken = {"name": "broken", "inputSchema": schema}
    listing = {
        "tools": [
            tool("a"),
            broken,
            7,
            {"name": 7},
            tool("b", description=7, annotations=7, outputSchema=7),
        ]
    }
    state, names, [told] = await listed(using, plain, listing)
    assert (state, names) == ("connected", ["a", "b"])
    is_object = isinstance(schema, dict) and schema["type"] == "object"
    why = NO_OBJECT if not is_object else "is too long" if "description" in schema else NO_SCHEMA
    who = f"'broken' (its schema {why}), one without a name (nobody could call it)"
    assert told == f"Tools of MCP server 'plain' are left out: {who}."


def deep(levels: int) -> dict:
    schema: dict = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


async def test_a_schema_that_is_nested_too_deeply_costs_its_tool_alone(using, plain) -> None:
    listing = {"tools": [tool("a"), {"name": "deep", "inputSchema": deep(200)}, tool("b")]}
    told = f"Tools of MCP server 'plain' are left out: 'deep' (its schema {NO_SCHEMA})."
    assert await listed(using, plain, listing) == ("connected", ["a", "b"], [told])


async def test_an_answer_that_is_nested_too_deeply_is_cut_or_fails_its_call(plain, tmp_path) -> None:
    connection = Connection(plain(), cwd=str(tmp_path), env=child_environment())
    async with connection.open():
        with pytest.raises(McpError, match="'plain': it sent a message that is nested too deeply"):
            await connection.call("deep", {"levels": 50_000}, limit=100)
        assert "(nested too deeply)" in (await connection.call("deep", {"levels": 400}, limit=10_000)).text
        assert (await connection.call("deep", {"levels": 2}, limit=100)).text == '{"a": {"a": 1}}'


async def test_a_list_that_nobody_can_read_fails_with_a_reason(using, plain) -> None:
    state, names, [told] = await listed(using, plain, {"tools": 5})
    assert (state, names) == ("failed", [])
    assert told.startswith("MCP server 'plain' could not be connected: ")


async def test_a_table_with_a_million_commas_is_no_million_values(plain, tmp_path) -> None:
    connection = Connection(plain(), cwd=str(tmp_path), env=child_environment())
    async with connection.open():
        assert (await connection.call("big", {"size": 3_000_000, "of": ',"'}, limit=4)).text == ',",",'


async def test_half_a_character_does_not_cost_a_list(using, plain) -> None:
    assert await listed(using, plain, {"tools": [tool("a", description="\ud800")]}) == ("connected", ["a"], [])


async def test_names_of_any_kind_become_names_that_models_take(using, plain) -> None:
    names = ["with blanks", "größe", "x" * 200, "a/b.c", "", "..", "same", "same", "\n", "bash; rm -rf /"]
    state, found, _ = await listed(using, plain, {"tools": [tool(name) for name in names]})
    assert state == "connected"
    assert found[:2] == ["with_blanks", "gr__e"]
    assert len(found) == len(set(found)) == 9
    assert all(1 <= len(name) <= 64 and name.isascii() for name in found)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") for name in found)
