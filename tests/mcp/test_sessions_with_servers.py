"""Sessions that use MCP servers: real processes, real pipes, a scripted model."""

from __future__ import annotations

import pytest

from aar.messages.events import ToolResult
from aar.testing import ScriptedProvider, facts_of


def results_of(session) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


@pytest.mark.covers("MCP-01")
async def test_the_tools_of_a_server_are_there_in_the_first_turn_and_can_be_called(using, plain) -> None:
    provider = ScriptedProvider().call("echo", a=1).text("done")
    async with using(provider, plain()) as session:
        await session.prompt("go")
        assert [tool.name for tool in provider.requests[0].tools] == ["echo"]
        assert results_of(session) == ['{"a": 1}']
