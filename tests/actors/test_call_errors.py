"""What a model reads when a call of a built-in tool goes wrong."""

from __future__ import annotations

import pytest

from aar.messages.events import ToolResult
from aar.testing import ScriptedProvider, facts_of, open_test_runtime


async def result_of(tool: str, folder: str, **arguments) -> ToolResult:
    async with open_test_runtime(ScriptedProvider().call(tool, **arguments).text("ok")) as runtime:
        session = await runtime.sessions.open(folder)
        await session.prompt("go")
        (result,) = [fact for fact in facts_of(session) if isinstance(fact, ToolResult)]
        return result


@pytest.mark.covers("TOOL-04")
async def test_arguments_that_do_not_fit_name_the_tool_and_the_field(tmp_path) -> None:
    result = await result_of("read_file", str(tmp_path), path=7)
    assert result.is_error
    assert result.output.startswith("Error [invalid_arguments]: invalid arguments for 'read_file': ")
    assert "path" in result.output.partition(": ")[2]


@pytest.mark.covers("TOOL-17")
async def test_a_file_that_is_not_there_is_an_exception_with_its_whole_name(tmp_path) -> None:
    result = await result_of("read_file", str(tmp_path), path="missing.txt")
    assert result.is_error
    assert result.output == f"Error [exception]: FileNotFoundError: File not found: {tmp_path}/missing.txt"
