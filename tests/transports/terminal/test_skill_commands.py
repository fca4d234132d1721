"""`/skill`, as every interface has it."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from aar.messages.settings import AgentConfig
from aar.testing import open_test_runtime
from aar.transports.program.opening import Conversation
from aar.transports.terminal.session_commands import SESSION
from aar.transports.terminal.slash import Reply, SlashCommands


def put(place: Path, name: str, description: str) -> Path:
    folder = place / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\ndescription: {description}\n---\nDo it.\n")
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AAR_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


async def replies(home: Path, cwd: Path, *lines: str) -> list[Reply]:
    config = AgentConfig()
    async with open_test_runtime(None, config, home=home) as runtime:
        handle = await runtime.sessions.open(str(cwd))
        slash = SlashCommands(Conversation(runtime.sessions, handle, config), SESSION)
        return [await slash.run(line) for line in lines]


async def test_skills_are_shown_and_sent(home: Path, tmp_path: Path) -> None:
    folder = put(home, "release", "How a version is made.")
    put(tmp_path / ".aar", "style", "How code looks here.")
    listed, sent, unknown = await replies(home, tmp_path, "/skill", "/skill Release  of 2.0", "/skill nothing")
    assert listed.table is not None
    assert listed.table.rows == (
        ("release", "", "How a version is made."),
        ("style", "project", "How code looks here."),
    )
    assert sent.inputs is not None
    assert not sent.inputs.are_typed
    async with aclosing(sent.inputs.lines) as lines:
        assert [line async for line in lines] == [
            f"Skill release. Its folder, where other files that it names are: {folder}\n\nDo it.\n\nof 2.0"
        ]
    assert unknown.problem == "There is no skill 'nothing'. There are: release, style."


async def test_where_there_are_none_it_is_said_what_one_is(home: Path, tmp_path: Path) -> None:
    put(home, "odd", "'")
    (listed,) = await replies(home, tmp_path, "/skill")
    assert listed.text == "There are no skills: a skill is a folder skills/NAME with a SKILL.md."
    assert "is no valid YAML" in listed.problem
