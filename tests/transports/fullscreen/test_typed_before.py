"""What was typed in other sessions, on the full screen."""

from __future__ import annotations

import json

import pytest

from aar.testing import ScriptedProvider
from aar.transports.fullscreen.history import LIMIT, History
from aar.transports.terminal.history_file import HistoryFile
from tests.transports.fullscreen.whole import open_whole


def test_older_entries_come_behind_those_of_the_session_and_each_text_once() -> None:
    history = History(["a", "b"])
    assert history.previous("draft") == "b"
    history.add_older(["x", "b", "y"])
    assert [history.previous("b") for _ in range(4)] == ["a", "y", "x", None]
    assert [history.next() for _ in range(5)] == ["y", "a", "b", "draft", None]


def test_with_older_entries_the_history_is_bounded_as_well() -> None:
    history = History(map(str, range(LIMIT - 1)))
    history.add_older(["older", "old"])
    found = [history.previous("") for _ in range(LIMIT + 1)]
    assert found[-3:] == ["0", "old", None]


@pytest.mark.covers("AURA-40")
async def test_what_other_sessions_were_told_comes_back_and_what_is_typed_is_kept(tmp_path, autojump_clock) -> None:
    (tmp_path / "history").write_text('{"text": "older"}\n{"text": "old"}\n')
    typed = HistoryFile(tmp_path / "history")
    async with open_whole(tmp_path, ScriptedProvider().text("Fine.").text("Fine, too."), typed=typed) as whole:
        whole.type("draft")
        while "1 old" not in "\n".join(await whole.frame()):
            whole.press("ctrl up")
        whole.press("ctrl up")
        await whole.until("  1 older")
        whole.press("ctrl down", "ctrl down")
        await whole.until("  1 draft")
        whole.press("ctrl s")
        await whole.until("Fine.", "completed")
        whole.send(" not this")
        await whole.until("Fine, too.", "completed")
    lines = (tmp_path / "history").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["older", "old", "draft"]
