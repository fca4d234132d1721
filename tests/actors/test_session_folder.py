"""A session keeps its folder for its whole life, wherever it is taken up again."""

from __future__ import annotations

from pathlib import Path

from aar.journal.memory import MemoryStore
from aar.journal.store import Header
from aar.testing import ScriptedProvider, open_test_runtime


async def test_a_session_that_is_taken_up_elsewhere_works_where_it_was_started(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    store = MemoryStore()
    async with open_test_runtime(ScriptedProvider().text("Yes."), store=store) as runtime:
        first = await runtime.sessions.open(str(here))
        await first.prompt("Are you there?")
    async with open_test_runtime(ScriptedProvider(), store=store) as runtime:
        assert (await runtime.sessions.load(first.session_id, cwd=str(elsewhere))).cwd == str(here)
    async with open_test_runtime(ScriptedProvider(), store=store) as runtime:
        assert (await runtime.sessions.fork(first.session_id, cwd=str(elsewhere))).cwd == str(elsewhere)


async def test_a_session_without_a_folder_gets_the_one_it_is_taken_up_in(tmp_path: Path) -> None:
    store = MemoryStore()
    async with store.open("old", create=True) as log:
        await log.append(0, [], header=Header("old"))
    async with open_test_runtime(ScriptedProvider(), store=store) as runtime:
        assert (await runtime.sessions.load("old", cwd=str(tmp_path))).cwd == str(tmp_path)
