"""The tool `skill`: a model knows names and descriptions, and gets the text when it asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aar.handle import opening_problems
from aar.messages.events import ToolResult
from aar.messages.settings import BUILTIN_TOOLS, AgentConfig, SafetyConfig, ToolConfig
from aar.roles import tell_of_skills
from aar.runtime import toolbox_for
from aar.testing import ScriptedProvider, facts_of
from aar.tools import ToolContext, builtin_tools
from aar.tools.registry import ToolRegistry
from aar.tools.skill import LIST_BYTES, ToldSkill, skill_tool

WITH_SKILLS = AgentConfig(tools=ToolConfig(enabled_builtins=[*BUILTIN_TOOLS, "skill"]))
MOST_TOKENS = 4_000
BYTES_PER_TOKEN = 4


def results(session: Any) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


def told_by(request: Any) -> str:
    return next((tool.description for tool in request.tools or () if tool.name == "skill"), "")


def put(place: Path, name: str, description: str, body: str = "Do it.") -> Path:
    folder = place / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".aar"


@pytest.mark.covers("AURA-84")
async def test_only_names_and_descriptions_are_told_until_the_model_asks(live, home: Path, project: Path) -> None:
    folder = put(home, "release", "How a version is made.", "Tag it with SWORDFISH.")
    (folder / "steps.md").write_text("one")
    put(project, "style", "How code looks here.", "Tabs.")
    provider = (
        ScriptedProvider()
        .call("skill", name="Release")
        .call("read_file", path=str(folder / "steps.md"))
        .call("skill", name="style")
        .text("done")
    )
    free = WITH_SKILLS.patched({"safety": {"allowed_paths": []}})
    async with live(provider, free) as session:
        await session.prompt("release it")
        release, steps, style = results(session)
    asked = json.dumps([tool.dump() for tool in provider.requests[0].tools or ()]) + str(provider.requests[0].system)
    assert "SWORDFISH" not in asked
    assert told_by(provider.requests[0]).splitlines()[1:] == [
        "- release: How a version is made.",
        "- style (of this project): How code looks here.",
    ]
    assert (
        release == f"Skill release. Its folder, where other files that it names are: {folder}\n\nTag it with SWORDFISH."
    )
    assert steps == "     1\tone"
    assert style.startswith("Skill style, which came with this project: its authors wrote it, and not the user. ")
    assert style.endswith("\n\nTabs.")


@pytest.mark.covers("AURA-84")
@pytest.mark.parametrize("letter", ["x", "ä", "語", "\u202e"])
def test_a_hundred_skills_cost_less_than_4000_tokens(letter: str) -> None:
    skills = [ToldSkill(f"skill-{number:02}", letter * 1_000, is_foreign=True) for number in range(100)]
    spec = skill_tool(skills, None)  # type: ignore[arg-type]
    size = len(json.dumps(spec.schema().dump(), ensure_ascii=False).encode())
    assert size < MOST_TOKENS * BYTES_PER_TOKEN
    assert all(f"\n- {one.name} (of this project)" in spec.description for one in skills)


@pytest.mark.covers("AURA-84")
def test_however_many_there_are_the_list_has_an_end() -> None:
    few, many = [[ToldSkill(f"{'n' * 60}{number:04}", "d" * 200) for number in range(most)] for most in (3, 5_000)]
    assert skill_tool(few, None).description.count("d" * 200) == 3  # type: ignore[arg-type]
    text = skill_tool(many, None).description  # type: ignore[arg-type]
    listed = text.count("\n- ")
    assert len(text) < LIST_BYTES + 300
    assert text.splitlines()[-1] == f"... and {5_000 - listed} more, by their names"


async def test_a_skill_that_there_is_none_of_is_told(live, home: Path) -> None:
    put(home, "a", "x")
    async with live(ScriptedProvider().call("skill", name="../a").text("no"), WITH_SKILLS) as session:
        await session.prompt("go")
        assert results(session) == ["Error [invalid_arguments]: there is no skill '../a'; there are: a"]


async def test_the_text_is_the_one_of_now(live, home: Path) -> None:
    put(home, "a", "x", "old")
    async with live(
        ScriptedProvider().call("skill", name="a").call("skill", name="b").text("ok"), WITH_SKILLS
    ) as session:
        put(home, "a", "x", "new")
        put(home, "b", "x", "came later")
        await session.prompt("go")
        assert [text.rpartition("\n")[2] for text in results(session)] == ["new", "came later"]


async def test_rules_hold_for_the_skills_of_a_project(live, home: Path, project: Path) -> None:
    put(project, "style", "x", "Tabs.")
    put(home, "mine", "x")
    denied = WITH_SKILLS.patched({"safety": {"denied_paths": ["**/.aar/skills/**"]}})
    async with live(ScriptedProvider().call("skill", name="style").text("no"), denied) as session:
        await session.prompt("go")
        assert results(session) == ["Error [invalid_arguments]: there is no skill 'style'; there are: mine"]
        (problem,) = opening_problems(session)
        assert problem.startswith(f"{project / 'skills' / 'style' / 'SKILL.md'}: may not be read (")


async def test_the_tool_is_there_only_where_it_is_named_and_there_are_skills(live, home: Path) -> None:
    put(home, "a", "x")
    plain, with_skills = ScriptedProvider().text("hi"), ScriptedProvider().text("hi")
    async with live(plain) as session:
        await session.prompt("go")
    (home / "skills" / "a" / "SKILL.md").unlink()
    async with live(with_skills, WITH_SKILLS) as session:
        await session.prompt("go")
    for provider in (plain, with_skills):
        assert "skill" not in [tool.name for tool in provider.requests[0].tools or ()]
    assert "skill" not in [spec.name for spec in builtin_tools(ToolConfig())]


async def test_what_a_session_would_have_is_told_before_one(tmp_path: Path, home: Path) -> None:
    put(home, "a", "x")
    (home / "skills" / "b").mkdir()
    (home / "skills" / "b" / "SKILL.md").write_text("no description")
    toolbox = toolbox_for(WITH_SKILLS, None)
    (remark,) = await tell_of_skills(WITH_SKILLS, toolbox, home, str(tmp_path))
    spec = toolbox.get("skill")
    assert spec is not None
    assert spec.description.endswith("\n- a: x")
    assert "has no `description`" in remark


async def test_a_tool_of_an_application_is_left_alone(live, home: Path) -> None:
    put(home, "a", "x")
    own = ToolRegistry()
    own.register("skill")(lambda name: f"mine: {name}")
    async with live(ScriptedProvider().call("skill", name="a").text("ok"), WITH_SKILLS, tools=own) as session:
        await session.prompt("go")
        assert results(session) == ["mine: a"]


def test_file_tools_read_the_folders_of_skills_and_change_none(context_at, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("AAR_HOME", str(tmp_path / "home"))
    ctx: ToolContext = context_at(tmp_path, SafetyConfig(allowed_paths=[]))
    for place in (tmp_path / "home" / "skills", tmp_path / ".aar" / "skills"):
        assert ctx.paths.check(str(place / "a" / "x.md"), write=False) is None
        assert ctx.paths.check(str(place / "a" / "x.md"), write=True) is not None
