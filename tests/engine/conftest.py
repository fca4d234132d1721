"""An engine over a session of its own, and what its subscribers are told, in short."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aar.driving import open_engine
from aar.engine import Engine, EngineEvent, Options
from aar.messages.settings import AgentConfig
from aar.testing import open_test_runtime

STREAMING = AgentConfig(streaming=True, max_retries=1)


@pytest.fixture
def engine(tmp_path: Path) -> Callable[..., Any]:
    """`async with engine(model, should_stop_after_turn=...) as it`: options by name, tools and settings as well."""

    @asynccontextmanager
    async def opened(
        model: Any, *, tools: Sequence[Any] = (), config: AgentConfig = STREAMING, bound: float = 2.0, **options: Any
    ) -> AsyncIterator[Engine]:
        async with (
            open_test_runtime(model, config, home=tmp_path / "home") as runtime,
            open_engine(runtime, tmp_path, Options(**options), tools=tools, ephemeral_timeout=bound) as it,
        ):
            yield it

    return opened


_SHORT = {
    "tool_execution_start": lambda event: event.tool_call.tool_call_id,
    "tool_execution_update": lambda event: f"{event.tool_call.tool_call_id} {event.delta}",
    "tool_execution_end": lambda event: f"{event.tool_call.tool_call_id} {event.result.output}",
    "message_update": lambda event: f"{'thinking' if event.is_thinking else 'text'} {event.delta}",
    "message_start": lambda event: event.message.role,
    "message_end": lambda event: f"{event.message.role} {event.message.text}",
    "agent_error": lambda event: event.error,
}


@pytest.fixture(scope="session")
def line() -> Callable[[EngineEvent], str]:
    """An event in a few words."""
    return lambda event: f"{event.type} {_SHORT.get(event.type, lambda _: '')(event)}".strip()


@pytest.fixture
def told(line: Callable[[EngineEvent], str]) -> Callable[[Engine], list[str]]:
    """`told(engine)`: a list that grows by a line for each event."""

    def record(it: Engine) -> list[str]:
        lines: list[str] = []
        it.subscribe(lambda event: lines.append(line(event)))
        return lines

    return record
