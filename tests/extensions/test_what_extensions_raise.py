"""Whatever code of an extension raises, in whatever place, ends that call and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from textwrap import indent

import pytest
import trio

from aar.client import opening_problems
from aar.errors import ExtensionError
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry

RAISERS = {
    "asyncio.CancelledError": "import asyncio\nraise asyncio.CancelledError()",
    "a class of its own": "class Odd(BaseException):\n    pass\nraise Odd('odd')",
    "a group": "raise BaseExceptionGroup('several', [SystemExit(3), ValueError(3)])",
    "what says nothing": "class Odd(Exception):\n    def __str__(self):\n        raise ValueError\nraise Odd()",
    "half a character": "raise ValueError('\\udcff')",
    "too deep": "def deep():\n    deep()\ndeep()",
}

PLACES = {
    "a command": "api.command('bad')(bad)",
    "a tool": "api.tool('bad', 'bad', {'type': 'object'})(bad)",
    "a listener": "api.events.on('x')(bad)\n@api.command('bad')\nasync def emit(args, ctx):\n"
    "    api.events.emit('x')\n    await api.events.emit_async('x')",
    **{
        f"a handler of {event}": f"api.on({event!r})(bad)"
        for event in ("tool_call", "tool_result", "user_message", "after_turn", "session_start", "assistant_message")
    },
}


def code(kind: str, raiser: str, place: str) -> str:
    return f"{kind} bad(*args, **named):\n{indent(raiser, '    ')}\ndef register(api):\n{indent(place, '    ')}\n"


@pytest.fixture
def without_logs() -> Iterator[None]:
    """What is logged goes into the report of a test, and half a character does not get from one process to another."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("without_logs")
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("raiser", RAISERS.values(), ids=RAISERS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_what_an_extension_raises_ends_no_turn(world, kind, raiser, place) -> None:
    world.user("bad.py", code(kind, raiser, place))
    tools = ToolRegistry()
    tools.register("good")(lambda: "good")
    provider = ScriptedProvider().call("bad" if "api.tool" in place else "good").text("done")
    config = AgentConfig.model_validate({"tools": {"enabled_builtins": []}})
    with trio.fail_after(20):
        async with world.session(provider, config, tools=tools) as session:
            if "api.events" in place:
                await session.run_command("bad")
            elif "api.command" in place:
                with pytest.raises(ExtensionError, match=r"^Extension command error: "):
                    await session.run_command("bad")
            assert (await session.prompt("go")).stop == "end_turn"
            assert facts_of(session)[-1].type == "turn_ended"


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("raiser", RAISERS.values(), ids=RAISERS)
async def test_what_raises_while_it_is_loaded_is_told_and_the_others_work(world, kind, raiser) -> None:
    world.user("bad.py", f"{kind} register(api):\n{indent(raiser, '    ')}\n")
    world.user("good.py", "def register(api):\n    api.command('good')(lambda args, ctx: 'good')\n")
    async with world.session() as session:
        assert await session.run_command("good") == "good"
        (problem,) = opening_problems(session)
        assert problem.startswith("Extension 'bad' could not be loaded: register(api): ")


async def test_a_module_that_ends_the_program_when_it_is_imported_is_told(world) -> None:
    world.user("bad.py", "import sys\nsys.exit(0)\n")
    async with world.session() as session:
        assert opening_problems(session) == ["Extension 'bad' could not be loaded: its module: it called sys.exit()"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{'type': 'array'}", "is not one of an object"),
        ("['a']", "is not one of an object"),
        ("{'type': 'object', 'properties': 3}", "is no JSON schema"),
        ("{'properties': {'a': {'type': 'nonsense'}}}", "is no JSON schema"),
        ("{'properties': {'a': {'enum': {1, 2}}}}", "is no JSON schema: Object of type set is not JSON serializable"),
        ("{'properties': {'a': {'minimum': float('nan')}}}", "is no JSON schema: Out of range float values"),
        ("deep", "is no JSON schema: maximum recursion depth exceeded"),
    ],
)
async def test_a_schema_that_a_model_would_refuse_is_told_when_it_is_loaded(world, schema, reason) -> None:
    world.user(
        "bad.py",
        f"""
        deep = {{}}
        for _ in range(50_000):
            deep = {{"properties": {{"a": deep}}}}

        def register(api):
            api.tool("bad", "bad", {schema})(lambda **named: "done")
        """,
    )
    async with world.session(ScriptedProvider().text("done")) as session:
        (problem,) = opening_problems(session)
        assert problem.startswith(
            f"Extension 'bad' could not be loaded: register(api): the schema of tool 'bad' {reason}"
        )
        assert (await session.prompt("go")).stop == "end_turn"
