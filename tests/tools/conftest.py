"""A working folder with the built-in tools in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aar.messages.settings import SafetyConfig, ToolConfig
from aar.safety.paths import PathGuard
from aar.tools import ToolContext, builtin_tools, invoke

CallTool = Callable[..., Awaitable[str]]


async def no_commands(*_: Any, **__: Any) -> Any:
    raise AssertionError("this tool runs no commands")


def context_of(cwd: Path, safety: SafetyConfig | None = None, config: ToolConfig | None = None) -> ToolContext:
    return ToolContext(
        cwd=str(cwd),
        session_id="0123456789abcdef",
        tool_call_id="call-1",
        report=lambda text: None,
        run_command=no_commands,
        paths=PathGuard(str(cwd), safety or SafetyConfig()),
        config=config or ToolConfig(),
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The session's folder; its neighbours in `tmp_path` are outside."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def context(work: Path) -> ToolContext:
    return context_of(work)


@pytest.fixture
def context_at() -> Callable[..., ToolContext]:
    return context_of


@pytest.fixture
def call(context: ToolContext) -> CallTool:
    """`await call("read_file", path="x")` runs a built-in tool in the working folder."""

    async def run(name: str, /, *, ctx: ToolContext | None = None, **arguments: Any) -> str:
        tools = {spec.name: spec for spec in builtin_tools(ToolConfig())}
        result = await invoke(tools[name], arguments, ctx or context)
        assert isinstance(result, str)
        return result

    return run
