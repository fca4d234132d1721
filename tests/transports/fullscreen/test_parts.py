"""What stands beside the chat, in the whole interface: keys in, screen text out."""

from __future__ import annotations

import base64
import logging

import pytest
import trio

from aar import ToolRegistry, tool
from aar.journal.memory import MemoryStore
from aar.testing import ScriptedProvider
from aar.transports.fullscreen.approval import PAUSE
from tests.transports.fullscreen.whole import open_whole


class Desk:
    """A tool that wants to be asked about, and what it has done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.tools = ToolRegistry()

        @tool(requires_approval=True)
        def pay(what: str) -> str:
            """Pay for it."""
            self.done.append(what)
            return "paid"

        self.tools.add(pay)

    @staticmethod
    def asked_to_pay(*things: str) -> ScriptedProvider:
        return ScriptedProvider().calls(*(("pay", {"what": thing}) for thing in things)).text("All done.")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.covers("FTUI-13")
async def test_a_tool_runs_once_it_is_allowed_and_the_bar_is_gone(tmp_path, desk, autojump_clock) -> None:
    async with open_whole(tmp_path, desk.asked_to_pay("tea", "gold"), tools=desk.tools.list_tools()) as whole:
        whole.send("go")
        await whole.until("Approval required: pay", "what: tea")
        await trio.sleep(PAUSE)
        whole.press("y")
        await whole.until("Approval required: pay", "what: gold\nReason")
        await trio.sleep(PAUSE)
        whole.press("right", "right", "enter")
        await whole.until("All done.", gone="Approval required")
    assert desk.done == ["tea"]


async def test_who_goes_on_typing_while_a_question_comes_up_answers_nothing(tmp_path, desk, autojump_clock) -> None:
    async with open_whole(tmp_path, desk.asked_to_pay("tea"), tools=desk.tools.list_tools()) as whole:
        whole.send("go")
        await whole.until("Approval required")
        whole.type("say yes")
        await whole.until("1 say yes", "Approval required")
        whole.press("ctrl x")
        await whole.until("cancelled", gone="Approval required")
        assert "say yes" in whole.text
    assert desk.done == []


@pytest.mark.covers("FTUI-12")
async def test_an_at_sign_opens_the_picker_and_what_is_picked_stands_in_the_input(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path) as whole:
        for name in ("one.py", "two.py"):
            (tmp_path / "project" / name).write_text("")
        whole.type("look at @")
        await whole.until("File:", "one.py", "two.py")
        whole.press("t", "w", "enter")
        await whole.until("look at @two.py", gone="File:")
        whole.type("@me")
        await whole.until("File: me")
        whole.press("esc")
        await whole.until("look at @two.py @me", gone="File:")


@pytest.mark.covers("FTUI-11")
async def test_the_log_opens_is_live_and_closes_at_either_key(tmp_path, autojump_clock) -> None:
    log = logging.getLogger("some.place")
    async with open_whole(tmp_path) as whole:
        log.warning("first")
        whole.press("ctrl g")
        await whole.until("Log:", "WARNING  some.place: first")
        log.warning("second")
        await whole.until("WARNING  some.place: second")
        whole.press("esc")
        await whole.until("think:", gone="Log:")
        whole.press("ctrl g")
        await whole.until("second")
        whole.press("ctrl g")
        await whole.until("think:", gone="Log:")


@pytest.mark.covers("FTUI-19", "FTUI-20")
async def test_the_companion_grows_with_the_session_and_comes_back_with_it(tmp_path, autojump_clock) -> None:
    store = MemoryStore()
    provider = ScriptedProvider()
    provider.calls(*(("list_directory", {"path": str(number)}) for number in range(8))).text("Done.").text("Yes.")
    async with open_whole(tmp_path, provider, size=(150, 34), store=store) as whole:
        await whole.until("lv.1")
        whole.send("go")
        await whole.until("Done.", "completed", "[■■░░░░░░] lv.2")
        session_id = whole.handle.session_id
    async with open_whole(tmp_path, provider, size=(150, 34), store=store, session_id=session_id) as whole:
        await whole.until("[■■░░░░░░] lv.2")
        whole.press("ctrl l")
        await whole.until("[░░░░░░░░] lv.1")


@pytest.mark.covers("FTUI-21", "AURA-41")
@pytest.mark.parametrize("how", ["right click", "ctrl y"])
async def test_a_block_that_is_clicked_can_be_copied(tmp_path, monkeypatch, how, autojump_clock) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("STY", "TERM_PROGRAM", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    async with open_whole(tmp_path, ScriptedProvider().text("Take **this**.")) as whole:
        whole.send("go")
        await whole.until("Take this.")
        row = next(row for row, line in enumerate(whole.lines) if "Take this." in line)
        if how == "right click":
            whole.press(("mouse press", 3, 5, row))
        else:
            whole.press(("mouse press", 1, 5, row), "ctrl y")
        await whole.until("Sent to the clipboard")
        (codes,) = whole.surface.codes
    assert base64.b64decode(codes.removeprefix("\x1b]52;c;").removesuffix("\x07")) == b"Take **this**."


async def test_questions_are_answered_beforehand_when_the_user_said_so(tmp_path, desk, autojump_clock) -> None:
    async with open_whole(tmp_path, desk.asked_to_pay("tea"), tools=desk.tools.list_tools(), says_yes=True) as whole:
        whole.send("go")
        await whole.until("All done.")
        assert "Approval required" not in whole.text
    assert desk.done == ["tea"]


async def test_what_is_pasted_over_an_open_list_goes_into_the_input_in_its_order(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path) as whole:
        whole.press("ctrl g")
        await whole.until("Log:")
        whole.paste("first ")
        whole.press("esc")
        await whole.until("first", gone="Log:")
        whole.paste("second")
        await whole.until("first second")


async def test_what_is_pasted_while_a_question_is_open_answers_nothing(tmp_path, desk, autojump_clock) -> None:
    async with open_whole(tmp_path, desk.asked_to_pay("tea"), tools=desk.tools.list_tools()) as whole:
        whole.send("go")
        await whole.until("Approval required")
        await trio.sleep(PAUSE)
        whole.paste("y")
        await whole.until("1 y", "Approval required")
    assert desk.done == []
