from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.messages.settings import BUILTIN_TOOLS, ToolConfig
from aar.messages.tools import SideEffect, ToolSchema
from aar.tools import ToolContext, ToolRegistry, ToolSpec, builtin_tools, invoke, tool


@pytest.mark.covers("TOOL-01")
def test_the_decorator_infers_name_description_and_schema() -> None:
    registry = ToolRegistry()

    @registry.register()
    def weigh(count: int, mass: float, exact: bool, unit: str = "kg", note=None) -> str:  # type: ignore[no-untyped-def]
        """Weigh things."""
        return ""

    spec = registry.get("weigh")
    assert spec is not None
    assert spec.description == "Weigh things."
    assert spec.side_effects == (SideEffect.NONE,)
    assert spec.handler is weigh
    assert spec.input_schema == {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "mass": {"type": "number"},
            "exact": {"type": "boolean"},
            "unit": {"type": "string"},
            "note": {"type": "string"},
        },
        "required": ["count", "mass", "exact"],
    }


def test_what_is_given_to_the_decorator_wins() -> None:
    registry = ToolRegistry()

    @registry.register(
        name="other", description="Other.", input_schema={}, side_effects=["write"], requires_approval=True
    )
    def function(value: str) -> str:
        """Own text."""
        return value

    assert registry.list_tools() == [
        ToolSpec("other", "Other.", {}, (SideEffect.WRITE,), True, handler=function),
    ]


@pytest.mark.covers("TOOL-02")
def test_tools_are_added_found_counted_and_removed() -> None:
    registry = ToolRegistry()
    registry.add(ToolSpec("b", "first"))
    registry.add(ToolSpec("a"))
    registry.add(ToolSpec("b", "second"))
    assert (registry.names(), len(registry), "b" in registry, "c" in registry) == (["b", "a"], 2, True, False)
    assert registry.get("b") == ToolSpec("b", "second")
    assert registry.get("c") is None
    copy = registry.copy()
    registry.remove("b")
    registry.remove("b")
    assert (registry.names(), copy.names()) == (["a"], ["b", "a"])


@pytest.mark.covers("TOOL-38", "AURA-66")
def test_a_provider_sees_three_keys_only() -> None:
    registry = ToolRegistry([ToolSpec("b", "B.", {"type": "object"}, prompt_snippet="s", prompt_guidelines=("g",))])
    registry.add(ToolSpec("a"))
    assert registry.to_provider_schemas() == [
        {"name": "b", "description": "B.", "input_schema": {"type": "object"}},
        {"name": "a", "description": "", "input_schema": {}},
    ]
    assert registry.schemas() == (ToolSchema("a", "", {}), ToolSchema("b", "B.", {"type": "object"}))


@pytest.mark.covers("TOOL-37")
def test_snippets_leave_out_empty_ones_and_guidelines_are_told_once_in_order() -> None:
    registry = ToolRegistry(
        [
            ToolSpec("c", prompt_snippet="see", prompt_guidelines=("two", "one")),
            ToolSpec("a"),
            ToolSpec("b", prompt_snippet="bee", prompt_guidelines=("one", "three")),
        ]
    )
    assert registry.get_prompt_snippets() == {"c": "see", "b": "bee"}
    assert list(registry.get_prompt_snippets()) == ["c", "b"]
    assert registry.get_prompt_guidelines() == ["two", "one", "three"]


@pytest.mark.covers("TOOL-36")
def test_built_in_tools_carry_their_prompt_texts() -> None:
    registry = ToolRegistry(builtin_tools(ToolConfig()))
    assert registry.get_prompt_snippets() == {
        "read_file": "Read file contents (supports line ranges; large files return a preview)",
        "write_file": "Create or overwrite a file",
        "edit_file": "Replace an exact unique string in a file",
        "list_directory": "List files and directories at a path",
        "bash": "Execute a shell command (returns stdout, stderr, exit code)",
        "grep": "Search file contents with regex",
        "find_files": "Find files by glob pattern",
    }
    assert registry.get_prompt_guidelines() == [
        "Use grep to search file contents (symbols, patterns); use find_files for path/filename searches."
    ]


@pytest.mark.covers("TOOL-11")
def test_only_enabled_built_ins_are_there() -> None:
    enabled = ["grep", "read_file", "no_such_tool", "grep"]
    assert [spec.name for spec in builtin_tools(ToolConfig(enabled_builtins=enabled))] == ["grep", "read_file"]
    assert [spec.name for spec in builtin_tools(ToolConfig())] == list(BUILTIN_TOOLS)


def test_built_in_tools_say_what_they_do_to_the_world() -> None:
    effects = {spec.name: [str(one) for one in spec.side_effects] for spec in builtin_tools(ToolConfig())}
    assert effects == {
        "read_file": ["read"],
        "write_file": ["write"],
        "edit_file": ["write"],
        "list_directory": ["read"],
        "bash": ["execute"],
        "grep": ["read"],
        "find_files": ["read"],
    }


@tool
def only_a_function(path: str) -> str:
    """Say where."""
    return path


MORE_BUILTINS = ["todo", "task", "patch", "batch", "load_tools", "done", "skill", "memory_read", "memory_write"]
EVERY_BUILTIN = builtin_tools(ToolConfig(enabled_builtins=[*BUILTIN_TOOLS, *MORE_BUILTINS]))


@pytest.mark.covers("AURA-61", "AURA-63")
@pytest.mark.parametrize("spec", [only_a_function, *EVERY_BUILTIN], ids=lambda spec: spec.name)
def test_every_tool_keeps_to_the_form_also_one_that_is_only_a_function(spec: ToolSpec) -> None:
    assert re.fullmatch("[a-z]+(_[a-z]+)*", spec.name)
    assert spec.description.strip()
    assert spec.schema() == ToolSchema(spec.name, spec.description, spec.input_schema)
    taken, required = spec.input_schema["properties"], spec.input_schema.get("required", [])
    assert set(required) <= set(taken)
    assert (spec.problem_with({}) is None) == (not required)
    assert spec.side_effects
    assert callable(spec.handler)
    assert spec.execution in (None, "parallel", "sequential")
    assert "\n" not in spec.prompt_snippet


def test_every_built_in_tool_has_been_looked_at() -> None:
    assert [spec.name for spec in EVERY_BUILTIN] == [*BUILTIN_TOOLS, *MORE_BUILTINS]


@pytest.mark.covers("TOOL-05")
async def test_sync_and_async_handlers_run_and_a_sync_one_does_not_block_the_loop(context: ToolContext) -> None:
    entered, go_on = threading.Event(), threading.Event()

    @tool
    def slow(value: int) -> int:
        entered.set()
        assert go_on.wait(30)
        return value + 1

    @tool
    async def quick(value: int) -> int:
        await trio.lowlevel.checkpoint()
        return value + 2

    results: list[Any] = []

    async def run_slow() -> None:
        results.append(await invoke(slow, {"value": 1}, context))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_slow)
        await trio.to_thread.run_sync(entered.wait)
        results.append(await invoke(quick, {"value": 1}, context))
        go_on.set()
    assert results == [3, 2]


async def test_cancelling_leaves_a_sync_handler_behind_with_its_place_in_the_limiter(context: ToolContext) -> None:
    entered, go_on, done = threading.Event(), threading.Event(), threading.Event()

    @tool
    def stuck() -> None:
        entered.set()
        go_on.wait(30)
        done.set()

    limiter = trio.CapacityLimiter(1)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: invoke(stuck, {}, context, limiter=limiter))
            await trio.to_thread.run_sync(entered.wait)
            scope.cancel()
    assert not done.is_set()
    assert limiter.borrowed_tokens == 1
    go_on.set()
    async with limiter:
        assert done.is_set()


async def test_a_handler_gets_the_context_by_name_or_by_type_and_the_schema_hides_it(context: ToolContext) -> None:
    @tool
    def by_name(value: str, ctx) -> str:  # type: ignore[no-untyped-def]
        return f"{value} {ctx.tool_call_id}"

    @tool
    async def by_type(where: ToolContext, value: str) -> str:
        return f"{value} {where.session_id}"

    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    assert (by_name.input_schema, by_type.input_schema) == (schema, schema)
    assert await invoke(by_name, {"value": "a"}, context) == "a call-1"
    assert await invoke(by_type, {"value": "b"}, context) == "b 0123456789abcdef"


@pytest.mark.covers("TOOL-41")
async def test_two_sessions_with_different_folders_read_different_files(
    tmp_path: Path, context_at: Callable[..., ToolContext]
) -> None:
    read_file = builtin_tools(ToolConfig(enabled_builtins=["read_file"]))[0]
    results = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "who.txt").write_text(name)
        results.append(await invoke(read_file, {"path": "who.txt"}, context_at(tmp_path / name)))
    assert results == ["     1\tone", "     1\ttwo"]


async def test_an_argument_that_a_tool_does_not_have_is_told_with_those_that_it_has(context) -> None:
    calls: list[str] = []

    @tool
    def find(regex: str, at_most: int = 5) -> str:
        calls.append(regex)
        return regex

    with pytest.raises(TypeError, match="unexpected keyword argument 'path'; it takes regex, at_most"):
        await invoke(find, {"regex": "a", "path": "."}, context)

    @tool
    def take(**anything: str) -> str:
        return ",".join(anything)

    assert (calls, await invoke(take, {"a": "1", "b": "2"}, context)) == ([], "a,b")
