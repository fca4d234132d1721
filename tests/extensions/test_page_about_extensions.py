"""The examples of the page about extensions, and its tables, against the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aar.extensions.api import EVENTS, ExtensionAPI, ExtensionContext
from aar.messages.events import ToolResult
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extensions.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def first_cells(title: str) -> list[str]:
    """The names in the first column of the table that begins so."""
    table = PAGE[PAGE.index(title) :].partition("\n\n")[0]
    return [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)", row.split("|")[1])]


async def test_the_extension_of_five_minutes_does_what_the_page_says(world) -> None:
    world.user("words.py", EXAMPLES[0])
    provider = ScriptedProvider()
    provider.calls(("count_words", {"text": "one two three"}), ("bash", {"command": "git push --force"})).text("done")
    async with world.session(provider, AgentConfig()) as session:
        assert await session.run_command("hello", "you") == f"Hello, you. You are in {world.project}."
        await session.prompt("go")
        results = [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult)]
        assert results == ["3", "Error [blocked]: force pushes are for people"]
    assert provider.requests[0].system.endswith("Answer in British English.")


@pytest.mark.parametrize("code", EXAMPLES[1:])
async def test_the_other_examples_load(world, code) -> None:
    world.user("example.py", code)
    async with world.session() as session:
        assert [await session.run_command(one.name, "x") for one in await session.commands()] == [None]


async def test_the_file_that_init_writes_loads_as_it_is_and_with_all_that_is_a_comment_in_it(world) -> None:
    template = (ROOT / "aar" / "data" / "starter" / "hello.py.template").read_text("utf-8")
    world.user("plain.py", template)
    code = re.sub(r"^    # (?![A-Z].*[a-z][:.]$)", "    ", template, flags=re.MULTILINE)  # all but the sentences
    world.user("whole.py", code)
    async with world.session() as session:
        assert [one.name for one in await session.commands()] == ["hello"]
        assert await session.run_command("hello") == "Hello, world."
        assert "word_count" in [tool.name for tool in await session.tools()]


def test_the_tables_name_what_there_is() -> None:
    assert sorted(first_cells("| event | payload")) == sorted(EVENTS)
    api = {name for name in dir(ExtensionAPI) if not name.startswith("_")} | {"name", "events"}
    assert set(first_cells("| `api` | |")) == api - {"close"}
    context = {name for name in ExtensionContext.__dataclass_fields__ if not name.startswith("_")} | {"session"}
    assert set(first_cells("| `ctx` | |")) == context
