"""Tools that raise what is meant to end a program end their own call."""

from __future__ import annotations

import asyncio
import sys

import pytest
import trio

from aar.messages.events import ToolResult
from aar.messages.settings import AgentConfig, ToolConfig
from aar.testing import ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry

CONFIG = AgentConfig(tools=ToolConfig(enabled_builtins=[]))


class Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def leave() -> None:
    sys.exit(3)


def be_cancelled() -> None:
    raise asyncio.CancelledError


def say_nothing() -> None:
    raise Wordless


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (leave, "Error [exception]: SystemExit: 3"),
        (be_cancelled, "Error [exception]: CancelledError"),
        (say_nothing, "Error [exception]: Wordless"),
    ],
)
@pytest.mark.parametrize("kind", ["function", "coroutine", "task"])
async def test_a_tool_that_leaves_is_told_to_the_model_and_the_turn_goes_on(live, what, told, kind) -> None:
    tools = ToolRegistry()

    async def here() -> None:
        what()

    async def in_a_task() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(here)

    tools.register("one")({"function": what, "coroutine": here, "task": in_a_task}[kind])
    async with live(ScriptedProvider().call("one").text("I see"), CONFIG, tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        (result,) = [fact for fact in facts_of(session) if isinstance(fact, ToolResult)]
        assert result.is_error
        assert kind == "task" or result.output == told


async def test_a_tool_that_is_cancelled_is_cancelled_whatever_else_it_raises_then(live) -> None:
    tools, running = ToolRegistry(), trio.Event()

    @tools.register("one")
    async def one() -> None:
        async def fail_at_the_end() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise SystemExit(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            running.set()
            await trio.sleep_forever()

    async with live(ScriptedProvider().call("one").text("done"), CONFIG, tools=tools) as session:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def cancel() -> None:
                await running.wait()
                await session.cancel()

            assert (await session.prompt("go")).stop == "cancelled"
        assert (await session.prompt("again")).stop == "end_turn"
