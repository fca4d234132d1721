"""The list of what is to be done, from the model's call to whoever asks for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.events import ToolCall, ToolResult
from aar.messages.settings import BUILTIN_TOOLS, AgentConfig, ToolConfig
from aar.messages.todos import Todo, as_todos, rendered, todos_of
from aar.testing import ScriptedProvider
from aar.tools.builtins import builtin_tools

WITH_TODO = AgentConfig(tools=ToolConfig(enabled_builtins=[*BUILTIN_TOOLS, "todo"]))


def items(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"items": [{"text": text, "status": status} for text, status in pairs]}


def events_of(session: Any) -> list[Any]:
    return [record.event for record in session.records()]


async def test_the_list_is_what_the_last_call_said(live) -> None:
    provider = (
        ScriptedProvider()
        .call("todo", **items(("read", "in_progress"), ("write", "pending")))
        .call("todo", **items(("read", "done"), ("write", "in_progress")))
        .text("on it")
    )
    async with live(provider, WITH_TODO) as session:
        await session.prompt("go")
        events = events_of(session)
    results = [event.output for event in events if isinstance(event, ToolResult)]
    assert results == ["[~] read\n[ ] write\n0 of 2 done.", "[x] read\n[~] write\n1 of 2 done."]
    assert todos_of(events) == [Todo("read", "done"), Todo("write", "in_progress")]
    assert [todo.is_open for todo in todos_of(events)] == [False, True]


async def test_a_call_that_was_refused_changes_nothing(live) -> None:
    provider = (
        ScriptedProvider()
        .call("todo", **items(("read", "pending")))
        .call("todo", **items(("read", "forgotten")))
        .call("todo", items=[{"text": str(number), "status": "done"} for number in range(101)])
        .text("sorry")
    )
    async with live(provider, WITH_TODO) as session:
        await session.prompt("go")
        events = events_of(session)
    assert [event.is_error for event in events if isinstance(event, ToolResult)] == [False, True, True]
    assert todos_of(events) == [Todo("read", "pending")]


async def test_an_empty_list_is_a_list(live) -> None:
    provider = ScriptedProvider().call("todo", **items(("a", "done"))).call("todo", **items()).text("all done")
    async with live(provider, WITH_TODO) as session:
        await session.prompt("go")
        assert todos_of(events_of(session)) == []


def test_the_tool_is_there_only_where_it_is_named() -> None:
    assert "todo" not in [spec.name for spec in builtin_tools(ToolConfig())]
    assert [spec.name for spec in builtin_tools(ToolConfig(enabled_builtins=["todo"]))] == ["todo"]


@pytest.mark.parametrize("damaged", [None, 3, {}, ["x", None], [{"status": 5}], [{"text": None, "status": []}]])
def test_a_damaged_list_harms_nobody(damaged: object) -> None:
    call = ToolCall(tool_call_id="c", tool_name="todo", arguments={"items": damaged})
    result = ToolResult(tool_call_id="c", tool_name="todo", output="")
    assert rendered(todos_of([call, result])) == rendered(as_todos(damaged))


@given(st.lists(st.tuples(st.text(max_size=9), st.sampled_from(["pending", "in_progress", "done"])), max_size=9))
def test_what_is_given_is_what_is_kept(pairs: list[tuple[str, str]]) -> None:
    assert as_todos(items(*pairs)["items"]) == pairs
