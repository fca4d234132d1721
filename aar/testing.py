"""For tests of your own tools, hooks and actors: a runtime with a scripted model and nothing on disk.

async with open_test_runtime(ScriptedProvider().text("hello")) as runtime:
    session = await runtime.sessions.open("/")
    await session.prompt("hi")
    assert [fact.type for fact in facts_of(session)][-1] == "turn_ended"
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aar.client import SessionHandle
from aar.journal.memory import Fault, MemoryStore
from aar.messages.events import Event
from aar.messages.settings import AgentConfig
from aar.providers.scripted import ScriptedAnswer, ScriptedProvider
from aar.runtime import Runtime, open_runtime

__all__ = ["Fault", "MemoryStore", "ScriptedAnswer", "ScriptedProvider", "facts_of", "open_test_runtime"]


@asynccontextmanager
async def open_test_runtime(
    provider: ScriptedProvider | None = None, config: AgentConfig | None = None, **arguments: Any
) -> AsyncIterator[Runtime]:
    """`open_runtime` with a scripted provider. Further arguments are those of `open_runtime`."""
    async with open_runtime(config, provider=provider or ScriptedProvider(), **arguments) as runtime:
        yield runtime


def facts_of(session: SessionHandle, *, after: int = 0) -> list[Event]:
    """What the session has recorded, for comparing whole lists."""
    return [record.event for record in session.records(after=after)]
