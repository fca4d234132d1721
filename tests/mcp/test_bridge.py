"""Tools of servers in a registry of the application's own."""

from __future__ import annotations

import logging
import os

import pytest
import trio

import aar
from aar.errors import McpCollision, McpError, MissingMcp
from aar.messages.events import ToolResult
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.testing import ScriptedProvider
from aar.tools.registry import ToolRegistry, tool

UNASKED = AgentConfig(tools={"enabled_builtins": []}, safety=SafetyConfig(require_approval_for_execute=False))


def results_of(session) -> list[str]:
    return [event.output for event in session.events if isinstance(event, ToolResult)]


@tool
def mine() -> str:
    """My own tool."""
    return "mine"


async def test_tools_are_in_the_registry_for_the_length_of_the_block_and_agents_use_them(plain, tmp_path) -> None:
    registry = ToolRegistry([mine])
    async with aar.open_mcp_bridge(registry, [plain(tools=["echo", "pid"])], cwd=tmp_path) as (status,):
        assert (status.name, status.state) == ("plain", "connected")
        assert registry.names() == ["mine", "echo", "pid"]
        found = []
        for _ in range(2):
            provider = ScriptedProvider().calls(("pid", {}), ("mine", {})).text("done")
            agent = aar.Agent(UNASKED, provider, registry, cwd=tmp_path, home=tmp_path)
            found.append(results_of(await agent.run("go")))
        assert found[0] == found[1]  # one process for both
        assert found[0][1] == "mine"
    assert registry.names() == ["mine"]
    assert found[0][0] not in os.listdir("/proc")


@pytest.mark.covers("MCP-06")
@pytest.mark.parametrize("taken", ["echo", "read_file"])
async def test_a_name_that_is_taken_is_a_value_error_that_says_what_helps(plain, tmp_path, taken) -> None:
    @tool
    def echo() -> str:
        return "I was here first"

    registry = ToolRegistry([echo])
    with pytest.raises(ValueError, match=r"^MCP server 'it': there is another tool named ") as caught:
        async with aar.open_mcp_bridge(registry, [plain("it", tools=["pid", taken])], cwd=tmp_path):
            raise AssertionError("the block has begun")
    assert isinstance(caught.value, McpCollision)
    assert str(caught.value) == (
        f"MCP server 'it': there is another tool named {taken!r}. Set prefix_tools=True on it."
    )
    assert registry.names() == ["echo"]
    async with aar.open_mcp_bridge(registry, [plain("it", tools=["pid", taken], prefix=True)], cwd=tmp_path):
        assert registry.names() == ["echo", "it__pid", f"it__{taken}"]


@pytest.mark.covers("MCP-06")
async def test_two_servers_with_the_same_tool_collide_whichever_is_faster(plain, tmp_path) -> None:
    slow = plain("slow", tools=["echo"], floods=20_000)
    with pytest.raises(McpCollision, match="'fast'"):
        async with aar.open_mcp_bridge(ToolRegistry(), [slow, plain("fast", tools=["echo"])], cwd=tmp_path):
            raise AssertionError("the block has begun")


@pytest.mark.covers("MCP-10")
async def test_a_server_that_fails_is_told_and_the_others_are_there(plain, tmp_path, caplog) -> None:
    caplog.set_level(logging.WARNING)
    registry = ToolRegistry()
    missing = McpServer(name="missing", command="there-is-no-such-program")
    async with aar.open_mcp_bridge(registry, [missing, plain(tools=["echo"])], cwd=tmp_path) as statuses:
        assert [status.state for status in statuses] == ["failed", "connected"]
        assert registry.names() == ["echo"]
    assert [record.getMessage() for record in caplog.records] == [
        "MCP server 'missing' could not be connected: the command 'there-is-no-such-program' was not found."
    ]


async def test_the_registry_follows_a_server_whose_tools_change_and_a_late_collision_is_left_out(
    plain, tmp_path, caplog
) -> None:
    caplog.set_level(logging.WARNING)
    registry = ToolRegistry([mine])
    async with aar.open_mcp_bridge(registry, [plain(tools=["change", "echo"])], cwd=tmp_path):
        provider = ScriptedProvider().call("change", tools=["change", "mine", "new"]).text("done")
        await aar.Agent(UNASKED, provider, registry, cwd=tmp_path, home=tmp_path).run("go")
        with trio.fail_after(10):
            while "new" not in registry:
                await trio.lowlevel.checkpoint()
        assert registry.names() == ["mine", "change", "new"]
        assert registry.get("mine") is mine
    assert registry.names() == ["mine"]
    assert "there is another tool named 'mine'" in caplog.text


async def test_an_error_of_the_block_leaves_it_alone_and_nothing_is_left(plain, tmp_path) -> None:
    registry = ToolRegistry()
    notes = tmp_path / "notes"
    with pytest.raises(KeyError, match="mine"):
        async with aar.open_mcp_bridge(registry, [plain(notes=str(notes))], cwd=tmp_path):
            raise KeyError("mine")
    assert registry.names() == []
    assert notes.read_text().split()[1] not in os.listdir("/proc")


async def test_a_block_that_is_cancelled_ends_its_servers(plain, tmp_path) -> None:
    registry = ToolRegistry()
    notes = tmp_path / "notes"
    with trio.CancelScope() as scope:
        async with aar.open_mcp_bridge(registry, [plain(notes=str(notes))], cwd=tmp_path):
            scope.cancel()
            await trio.sleep_forever()
    assert registry.names() == []
    assert notes.read_text().split()[1] not in os.listdir("/proc")


async def test_a_tool_that_outlives_its_block_says_so(plain, tmp_path) -> None:
    registry = ToolRegistry()
    async with aar.open_mcp_bridge(registry, [plain(tools=["echo"])], cwd=tmp_path):
        kept = registry.copy()
    provider = ScriptedProvider().call("echo").text("done")
    session = await aar.Agent(UNASKED, provider, kept, cwd=tmp_path, home=tmp_path).run("go")
    assert results_of(session) == ["Error [exception]: McpUnavailable: MCP server 'plain' does not run any more"]


async def test_without_the_package_the_block_does_not_begin(plain, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingMcp, match=r"pip install 'aar-agent\[mcp\]'") as caught:
        async with aar.open_mcp_bridge(ToolRegistry(), [plain()], cwd=tmp_path):
            raise AssertionError("the block has begun")
    assert isinstance(caught.value, McpError | ImportError)
