"""`aar tui --fixed` on a real terminal, which it gives back however it ends. (The fixture compares its settings.)"""

from __future__ import annotations

import os
import signal
import sys

import pytest
import trio

SHOWN, GONE = "\x1b[?1049h", "\x1b[?1049l"  # the other screen of a terminal, and the way back
HINT = "Type a message."
SEND, CANCEL, QUIT, SUSPEND = "\x13", "\x18", "\x11", "\x1a"


@pytest.mark.covers("AURA-29")
async def test_a_prompt_is_typed_sent_and_answered(terminal, model, flags):
    model.says("**Good** ", "day")
    async with terminal("tui", "--fixed", *flags) as screen:
        await screen.until(HINT)
        await screen.type("hello" + SEND)
        await screen.until("Good")
        await screen.until("(total: ")
        await screen.type(QUIT)
        assert await screen.end() == 0
    assert model.requests[0]["messages"][-1]["content"] == "hello"
    assert screen.raw.index(SHOWN) < screen.raw.index(GONE) < screen.raw.index("Session saved: ")


async def test_what_is_pasted_is_one_text_and_no_keys(terminal, model, flags):
    model.says("Well.")
    async with terminal("tui", "--fixed", *flags) as screen:
        await screen.until(HINT)
        await screen.type(f"\x1b[200~one\r{QUIT}\x1b[31mtwo\x1b[201~{SEND}")
        await screen.until("Well.")
        await screen.type(QUIT)
        assert await screen.end() == 0
    assert model.requests[0]["messages"][-1]["content"] == "one\ntwo"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_a_signal_in_the_middle_of_a_turn_gives_the_terminal_back(terminal, model, flags, number, code):
    model.says("Some", " more", wait=trio.Event())
    async with terminal("tui", "--fixed", *flags) as screen:
        await screen.until(HINT)
        await screen.type("go" + SEND)
        await screen.until("Some")
        os.kill(screen.process.pid, number)
        assert await screen.end() == code
    assert screen.raw.index(GONE) < screen.raw.index("Session saved: ")


async def test_ctrl_c_cancels_a_turn_and_leaves_where_there_is_none(terminal, model, flags):
    model.says("Some", " more", wait=trio.Event())
    async with terminal("tui", "--fixed", *flags) as screen:
        await screen.until(HINT)
        await screen.type("go" + SEND)
        await screen.until("Some")
        await screen.type("\x03")
        await screen.until("Cancelled")
        await screen.type("\x03")
        assert await screen.end() == 0
    assert GONE in screen.raw


async def test_ctrl_z_gives_the_terminal_back_and_the_way_back_takes_it_again(terminal, model, flags):
    """Nobody could wake the program here, so the system lets it go on at once."""
    async with terminal("tui", "--fixed", *flags) as screen:
        await screen.until(HINT)
        await screen.type("draft")
        await screen.until("draft")
        await screen.type(SUSPEND)
        await screen.until("draft")
        await screen.type(QUIT)
        assert await screen.end() == 0
    assert [screen.raw.count(code) for code in (SHOWN, GONE)] == [2, 2]


async def test_another_size_is_drawn_anew(terminal, flags):
    async with terminal("tui", "--fixed", *flags) as screen:
        await screen.until("Ctrl+L clear")
        screen.resize(columns=30)
        await screen.until("Ctrl+Q exit")
        await screen.type(QUIT)
        assert await screen.end() == 0


async def test_without_its_package_it_says_which_one_is_missing(here, monkeypatch):
    from aar.transports.fullscreen.start import fullscreen
    from aar.transports.program.flags import Flags

    monkeypatch.setitem(sys.modules, "aar.transports.fullscreen.run", None)
    told = []
    monkeypatch.setattr("aar.transports.program.exits.complain", told.append)
    assert await trio.to_thread.run_sync(lambda: fullscreen(flags=Flags())) == 1
    assert told == ["The full screen needs a package that is not there: pip install 'aar-agent[tui]'"]


async def test_what_was_stopped_by_others_takes_the_terminal_again(terminal, flags):
    async with terminal("tui", "--fixed", *flags) as screen:
        await screen.until(HINT)
        os.kill(screen.process.pid, signal.SIGSTOP)
        os.kill(screen.process.pid, signal.SIGCONT)
        await screen.until(HINT)
        await screen.type(QUIT)
        assert await screen.end() == 0
    assert [screen.raw.count(code) for code in (SHOWN, GONE)] == [2, 2]


@pytest.mark.parametrize("term", ["dumb", ""])
async def test_a_terminal_that_cannot_move_its_cursor_is_told_what_to_use_instead(terminal, flags, place, term):
    place.variables["TERM"] = term
    async with terminal("tui", "--fixed", *flags) as screen:
        assert await screen.end() == 2
    assert "Without --fixed: aar tui, aar chat." in screen.text
    assert SHOWN not in screen.raw
