"""Tools that wait until the model loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.events import ToolCall, ToolResult
from aar.messages.loading import loaded_by
from aar.messages.settings import AgentConfig, ToolConfig
from aar.prompt import deferred_section
from aar.roles import deferred_tools, offered_tools, why_left_out
from aar.runtime import toolbox_for
from aar.testing import MemoryStore, ScriptedProvider, facts_of, open_test_runtime
from aar.tools.filtering import filtered, split
from aar.tools.registry import ToolRegistry, ToolSpec


def settings(*deferred: str, **named: Any) -> AgentConfig:
    return AgentConfig(tools=ToolConfig(enabled_builtins=["read_file", "find_files"], deferred=list(deferred), **named))


def offered(request: Any) -> list[str]:
    return [tool.name for tool in request.tools or ()]


def results(session: Any) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    for name in ("mcp_search", "mcp_send"):
        registry.register(name)(lambda: "hello")
    return registry


@pytest.mark.covers("AURA-72")
async def test_a_tool_is_in_requests_once_it_is_loaded(live, tools) -> None:
    provider = ScriptedProvider().call("load_tools", names=["mcp_se?rch"]).call("mcp_search").text("done")
    async with live(provider, settings("mcp_*", "find_files"), tools=tools) as session:
        await session.prompt("go")
        assert results(session) == ["Loaded, and there from now on: mcp_search.", "hello"]
    first, second, third = provider.requests
    assert offered(first) == ["load_tools", "read_file"]
    assert offered(second) == offered(third) == ["load_tools", "mcp_search", "read_file"]
    assert deferred_section(["find_files", "mcp_search", "mcp_send"]) in first.system
    assert deferred_section(["find_files", "mcp_send"]) in second.system


@pytest.mark.covers("AURA-72")
async def test_what_was_loaded_is_there_when_the_session_is_resumed(tmp_path: Path, tools) -> None:
    (tmp_path / "project").mkdir()
    provider = ScriptedProvider().call("load_tools", names=["mcp_*"]).text("done").text("again")
    store = MemoryStore()
    for prompt in ("go", "and now?"):
        async with open_test_runtime(provider, settings("*"), home=tmp_path, tools=tools, store=store) as runtime:
            if prompt == "go":
                session = await runtime.sessions.open(str(tmp_path / "project"))
            else:
                session = await runtime.sessions.load(session.session_id)
            await session.prompt(prompt)
    assert [offered(request) for request in provider.requests] == [
        ["load_tools"],
        ["load_tools", "mcp_search", "mcp_send"],
        ["load_tools", "mcp_search", "mcp_send"],
    ]


def test_what_is_deferred_is_told_before_a_session(tools) -> None:
    config = settings("mcp_*", "load_tools", filters={"mine": ["!mcp_send"]})
    toolbox = toolbox_for(config, tools)
    assert [spec.name for spec in offered_tools(config, toolbox)] == ["read_file", "find_files", "load_tools"]
    assert deferred_tools(config, toolbox) == ["mcp_search"]
    assert why_left_out(config, "mcp_search") == "deferred: load_tools loads it"
    assert why_left_out(config, "mcp_send") == "mine: left out by mcp_send"


async def test_a_tool_that_waits_is_not_run(live, tools) -> None:
    async with live(ScriptedProvider().call("mcp_send").text("no"), settings("mcp_*"), tools=tools) as session:
        await session.prompt("go")
        assert results(session) == ["Error [unknown_tool]: unknown tool 'mcp_send'"]


async def test_a_name_that_nothing_has_is_told(live, tools) -> None:
    provider = ScriptedProvider().call("load_tools", names=["slack"]).call("load_tools", names=["x", "mcp_send"])
    async with live(provider.text("no"), settings("mcp_*"), tools=tools) as session:
        await session.prompt("go")
        assert results(session) == [
            "Error [invalid_arguments]: of the tools that can be loaded none is called slack; "
            "there are: mcp_search, mcp_send",
            "Loaded, and there from now on: mcp_send. Nothing to load is called x.",
        ]


async def test_filters_hold_for_what_is_loaded(live, tools) -> None:
    config = settings("mcp_*", filters={"mine": ["!mcp_send"]})
    provider = ScriptedProvider().call("load_tools", names=["*"]).text("done")
    async with live(provider, config, tools=tools) as session:
        await session.prompt("go")
    assert [name for request in provider.requests for name in offered(request) if name == "mcp_send"] == []
    assert "mcp_send" not in provider.requests[0].system


async def test_nothing_waits_where_nothing_could_load_it(live, tools) -> None:
    config = settings("*", filters={"mine": ["!load_tools"]})
    provider = ScriptedProvider().text("done")
    async with live(provider, config, tools=tools) as session:
        await session.prompt("go")
    assert offered(provider.requests[0]) == ["find_files", "mcp_search", "mcp_send", "read_file"]
    assert deferred_section(["x"])[:20] not in provider.requests[0].system


def test_calls_that_failed_or_were_edited_load_nothing() -> None:
    events = [
        ToolCall(tool_call_id="1", tool_name="load_tools", arguments={"names": ["a"]}),
        ToolResult(tool_call_id="1", tool_name="load_tools", is_error=True),
        ToolCall(tool_call_id="2", tool_name="load_tools", arguments={"names": "b"}),
        ToolResult(tool_call_id="2", tool_name="load_tools"),
        ToolCall(tool_call_id="3", tool_name="load_tools", arguments={"names": ["c", 4]}),
        ToolResult(tool_call_id="3", tool_name="load_tools"),
    ]
    assert loaded_by(events) == loaded_by(events, 5) == ("c",)
    assert loaded_by(events, 6) == ()


NAMES = ("load_tools", "a", "b_one", "b_two")
PATTERNS = st.lists(st.sampled_from([*NAMES, "*", "b_*", "?"]), max_size=3)


@given(PATTERNS, PATTERNS)
def test_loading_never_brings_what_filters_took_away(deferred: list[str], loaded: list[str]) -> None:
    registry = ToolRegistry([ToolSpec(name) for name in NAMES])
    config = ToolConfig(filters={"mine": ["!b_two"]}, deferred=deferred)
    found = split(registry, config, (), loaded)
    assert sorted([*found.offered.names(), *found.deferred]) == sorted(filtered(registry, config).names())
    assert "load_tools" in found.offered
