"""The whole of Aar with a real model. Effects and events are checked, never prose."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from aar.messages.events import AssistantMessage, ToolCall
from aar.messages.settings import AgentConfig, ProviderConfig, SafetyConfig
from aar.runtime import open_runtime
from aar.testing import facts_of

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]  # seconds: a busy machine reads slowly

CONFIG = AgentConfig(
    provider=ProviderConfig(name="local"),
    streaming=True,
    safety=SafetyConfig(require_approval_for_writes=False, require_approval_for_execute=False),
)


async def test_the_small_model_creates_a_file_and_stops_each_of_three_times(tmp_path: Path) -> None:
    async with open_runtime(CONFIG) as runtime:
        for attempt in ("first", "second", "third"):
            folder = tmp_path / attempt
            folder.mkdir()
            with trio.fail_after(600):
                session = await runtime.sessions.open(str(folder))
                ended = await session.prompt("Create hello.txt containing hi")
            facts = facts_of(session)
            calls = [(fact.tool_name, fact.arguments) for fact in facts if isinstance(fact, ToolCall)]
            answers = [fact.content for fact in facts if isinstance(fact, AssistantMessage)]
            assert ended.stop == "end_turn"
            assert calls == [("write_file", {"path": "hello.txt", "content": "hi"})]
            assert contents_of(folder) == {"hello.txt": "hi"}
            assert [bool(text) for text in answers] == [False, True]


def contents_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}
