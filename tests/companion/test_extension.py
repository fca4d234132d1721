"""The companion as a shipped extension: off unless it is named, and then a tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from aar.client import opening_problems
from aar.extensions.looking import Places, inspect_extension, list_extensions
from aar.messages.events import ToolResult
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of, open_test_runtime

ON = {"builtin": ["companion"]}


@pytest.fixture
def home(tmp_path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.covers("EXT-25")
async def test_switched_on_the_model_can_ask_for_its_status(tmp_path, home) -> None:
    provider = ScriptedProvider().call("companion_status").text("Good.")
    config = AgentConfig(extensions=ON)
    async with open_test_runtime(provider, config, home=home, extensions=True) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt("How is it?")
        results = [fact for fact in facts_of(session) if isinstance(fact, ToolResult)]
    assert [(one.is_error, one.output.splitlines()) for one in results] == [
        (False, ["mood: focused", "level: 1 / 5", "xp: 20%", "steps: 1", "errors: 0"])
    ]


@pytest.mark.covers("EXT-25")
@pytest.mark.parametrize("settings", [{}, {"enabled": False, **ON}])
async def test_it_is_not_there_unless_it_is_switched_on(tmp_path, home, settings) -> None:
    config = AgentConfig(extensions=settings)
    async with open_test_runtime(config=config, home=home, extensions=True) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        assert "companion_status" not in [tool.name for tool in await session.tools()]


async def test_a_name_that_does_not_come_with_aar_is_told(tmp_path, home) -> None:
    config = AgentConfig(extensions={"builtin": ["companoin", "companion"]})
    async with open_test_runtime(config=config, home=home, extensions=True) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        assert "companion_status" in [tool.name for tool in await session.tools()]
        assert opening_problems(session) == [
            "`extensions.builtin` names 'companoin', which does not come with Aar. There is: companion."
        ]


async def test_it_is_listed_when_it_is_on_and_can_always_be_looked_at(tmp_path, home) -> None:
    places = Places(home, str(tmp_path))
    assert [one.found.name for one in list_extensions(places)] == []
    listed = list_extensions(places._replace(builtin=["companion"]))
    assert [(one.found.name, one.found.source, one.state) for one in listed] == [("companion", "builtin", "ready")]
    loaded = await inspect_extension(places, "companion")
    assert loaded.api is not None
    assert [tool.name for tool in loaded.api.tools] == ["companion_status"]


async def test_an_extension_of_the_user_may_take_its_place(tmp_path, home) -> None:
    (home / "extensions").mkdir()
    (home / "extensions" / "companion.py").write_text("def register(api): pass\n")
    listed = list_extensions(Places(home, str(tmp_path), builtin=["companion"]))
    assert [(one.found.source, one.state) for one in listed] == [("builtin", "hidden"), ("user", "ready")]
