"""The files of a session are kept before each turn, where the settings say so."""

from __future__ import annotations

import pytest

from aar.journal.revision import past_turns
from aar.messages.events import Notice, TurnStarted
from aar.messages.settings import AgentConfig
from aar.revising import undo
from aar.runtime import open_runtime, session_store
from aar.snapshots import Change, Snapshots
from aar.testing import ScriptedProvider, facts_of

FREE = {"require_approval_for_writes": False, "require_approval_for_execute": False}


def settings(**fields) -> AgentConfig:
    return AgentConfig(file_snapshots=True, safety=FREE, **fields)


@pytest.mark.covers("AURA-104")
async def test_what_a_turn_did_to_the_files_can_be_taken_back(live, tmp_path) -> None:
    provider = ScriptedProvider().call("write_file", path="a.txt", content="new").text("done")
    async with live(provider, settings()) as session:
        (tmp_path / "project" / "a.txt").write_text("old")
        await session.prompt("change it")
        assert (tmp_path / "project" / "a.txt").read_text() == "new"
        (turn,) = past_turns(session.records())
        _, changes = await Snapshots(tmp_path / "home", session.cwd).bring_back(session.session_id, turn.snapshot)
        assert changes == [Change("changed", "a.txt")]
        assert (tmp_path / "project" / "a.txt").read_text() == "old"


async def test_where_files_cannot_be_kept_it_is_told_once(live, story, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    async with live(ScriptedProvider().text("a").text("b"), settings()) as session:
        await session.prompt("one")
        await session.prompt("two")
        notices = [fact.text for fact in facts_of(session) if isinstance(fact, Notice)]
        assert notices == ["The files of this turn cannot be brought back: git is not installed"]


async def test_nothing_is_kept_unless_the_settings_say_so(live, tmp_path) -> None:
    async with live(ScriptedProvider().text("a"), AgentConfig()) as session:
        await session.prompt("one")
        assert [fact.data for fact in facts_of(session) if isinstance(fact, TurnStarted)] == [{}]
        assert not (tmp_path / "home" / "snapshots").exists()


async def test_sessions_that_are_kept_in_the_folder_itself_are_not_taken_back(tmp_path) -> None:
    """Their files are written to while that happens."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("old")
    provider = ScriptedProvider().call("write_file", path="a.txt", content="new").text("done")
    config = settings(session_dir="my [s]essions")
    store = session_store(config, home=tmp_path / "home", cwd=str(project))
    async with open_runtime(config, provider=provider, home=tmp_path / "home", store=store) as runtime:
        session = await runtime.sessions.open(str(project))
        await session.prompt("change it")
        [journal] = (project / "my [s]essions").glob("*.jsonl")
        before = journal.read_text()
        done = await undo(session, tmp_path / "home", 1, "files")
        assert done.files == (Change("changed", "a.txt"),)
        assert journal.read_text().startswith(before)
