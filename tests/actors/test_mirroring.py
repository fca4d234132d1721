"""What is said in a session is written along, where the settings name a file."""

from __future__ import annotations

import logging
import os

import pytest

from aar.messages.settings import AgentConfig
from aar.revising import exported
from aar.testing import MemoryStore, ScriptedProvider, open_test_runtime

FREE = {"require_approval_for_writes": False}


def settings(file: str) -> AgentConfig:
    return AgentConfig(transcript_file=file, safety=FREE)


@pytest.mark.covers("AURA-35")
async def test_the_file_is_the_transcript_without_escapes(tmp_path) -> None:
    (tmp_path / "project").mkdir()
    file = tmp_path / "project" / "talk.txt"
    store = MemoryStore()
    provider = (
        ScriptedProvider().call("write_file", path="a", content="x").text("Done \x1b[31mred\x1b[0m.").text("Bye.")
    )
    async with open_test_runtime(provider, settings("talk.txt"), store=store, home=tmp_path / "home") as runtime:
        session = await runtime.sessions.open(str(tmp_path / "project"))
        await session.prompt("write it")
        whole = exported(session)
        await runtime.sessions.close(session.session_id)
        assert file.read_text() == whole.replace("\x1b[31m", "").replace("\x1b[0m", "")
        assert "\x1b" not in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        again = await runtime.sessions.load(session.session_id)
        await again.prompt("and now?")
        await runtime.sessions.close(session.session_id)
    assert file.read_text().endswith("Done red.\n\n## User\n\nand now?\n\n## Assistant\n\nBye.\n")
    assert file.read_text().count("write it") == 1


async def test_a_file_that_cannot_be_written_costs_the_session_nothing(live, tmp_path, caplog) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "link").symlink_to(tmp_path / "elsewhere")
    for name, words in (("link", "link: "), ("no/such/folder", "No such file")):
        with caplog.at_level(logging.ERROR):
            async with live(ScriptedProvider().text("Hello."), settings(name)) as session:
                assert (await session.prompt("hi")).stop == "end_turn"
        assert words in caplog.text
        caplog.clear()
    assert (tmp_path / "elsewhere").read_text() == ""


async def test_nothing_is_written_along_unless_the_settings_say_so(live, tmp_path) -> None:
    async with live(ScriptedProvider().text("Hello.")) as session:
        await session.prompt("hi")
        assert os.listdir(tmp_path / "project") == []
