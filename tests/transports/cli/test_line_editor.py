"""Typing at the prompt of a chat, on a real terminal."""

from __future__ import annotations

import json
import signal

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.transports.cli.line_editor import _columns, _rows

UP, DOWN, LEFT = "\x1b[A", "\x1b[B", "\x1b[D"
PASTE, END = "\x1b[200~", "\x1b[201~"


def said(model) -> list[str]:
    return [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "user"]


async def test_lines_are_edited_and_come_back_with_the_arrow_keys(terminal, model, flags):
    model.says("One.").says("Two.").says("Three.")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type(f"helo{LEFT}l\x05!\r")
        await screen.until("One.")
        await screen.until("> ")
        await screen.type(f"{UP}\x01Oh, \r")
        await screen.until("Two.")
        await screen.until("> ")
        await screen.type(f"{UP}{UP}\r")
        await screen.until("Three.")
        await screen.until("> ")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert said(model) == ["hello!", "Oh, hello!", "hello!"]


async def test_what_was_said_in_a_session_comes_back_with_it(terminal, aar, model, flags, place):
    model.says("One.").says("Two.")
    await aar("run", "first", *flags)
    async with terminal("chat", "--continue", *flags) as screen:
        await screen.until("> ")
        await screen.type(f"{UP}\r")
        await screen.until("Two.")
        await screen.until("> ")
        await screen.type("/quit\r")
        assert await screen.end() == 0
    assert said(model) == ["first", "first"]
    assert typed_before(place) == ["first", "/quit"]


def typed_before(place) -> list[str]:
    return [json.loads(line)["text"] for line in (place.home / "history").read_text().splitlines()]


@pytest.mark.covers("AURA-40")
async def test_what_was_typed_in_another_chat_comes_back_and_so_does_the_draft(terminal, model, flags, place):
    model.says("One.")
    place.home.mkdir(exist_ok=True)
    (place.home / "history").write_text('{"text": "older\\nstill"}\nnonsense\n{"text": "old"}\n')
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type(f"draft{UP}{UP}{DOWN}{DOWN}!")
        await screen.until("draft!")
        await screen.type(f"{UP}{UP}\r")
        await screen.until("One.")
        await screen.until("> ")
        await screen.type(" /quit\r")
        assert await screen.end() == 0
    assert said(model) == ["older\nstill"]
    assert json.loads((place.home / "history").read_text().splitlines()[-1]) == {"text": "older\nstill"}
    assert (place.home / "history").stat().st_mode & 0o777 == 0o600


async def test_without_the_setting_nothing_that_is_typed_is_kept_or_brought_back(terminal, model, flags, place):
    model.says("One.")
    place.home.mkdir(exist_ok=True)
    (place.home / "config.json").write_text('{"tui": {"history": false}}')
    (place.home / "history").write_text('{"text": "old"}\n')
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type(f"{UP}new\r")
        await screen.until("One.")
        await screen.until("> ")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert said(model) == ["new"]
    assert typed_before(place) == ["old"]


async def test_a_line_that_was_typed_while_the_agent_worked_is_the_next_one(terminal, model, flags):
    go_on = trio.Event()
    model.says("One ", "two.", wait=go_on).says("Three.")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("first\n")
        await screen.until("One ")
        await screen.type("second\n\x04")
        await screen.until("second")
        go_on.set()
        await screen.until("Three.")
        assert await screen.end() == 0  # Ctrl+D was typed as well
    assert said(model) == ["first", "second"]


async def test_lines_that_are_pasted_are_taken_one_after_the_other(terminal, model, flags):
    model.says("One.").says("Two.").says("Three.")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("a\nb\nc\n\x04")
        assert await screen.end() == 0
    assert said(model) == ["a", "b", "c"]


async def test_a_terminal_that_marks_what_is_pasted_gives_one_message_without_escape_sequences(terminal, model, flags):
    model.says("ok")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type(f"see {PASTE}a\r\x1b[31m\tb\x1b[0m\n/quit{END} there\x1b\rand on\r")
        await screen.until("ok")
        await screen.until("> ")
        await screen.type(f"{UP}\x15\x04")
        assert await screen.end() == 0
    assert said(model) == ["see a\n\tb\n/quit there\nand on"]
    assert screen.raw.count("\x1b[?2004h") == screen.raw.count("\x1b[?2004l") == 2


async def test_of_a_message_with_more_lines_than_the_screen_those_around_the_cursor_are_drawn(terminal, model, flags):
    model.says("ok")
    lines = [f"line {number}" for number in range(100)]
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type(PASTE + "\n".join(lines) + END)
        await screen.until("line 99")
        assert "line 60\n" not in screen.text  # the terminal has 40 rows
        await screen.type("\x01y")
        await screen.until("> yline 0\nline 1\n")
        await screen.type("\r")
        await screen.until("ok")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert said(model) == ["y" + "\n".join(lines)]


async def test_a_line_longer_than_the_terminal_is_drawn_over_its_rows(terminal, model, flags):
    model.says("ok")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("x" * 98)  # the row is full: 2 for the prompt
        await screen.until("x" * 98 + "\n")
        await screen.type("日" * 60 + "\x01")
        await screen.until("日" * 60)
        await screen.type("y\r")
        await screen.until("ok")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert said(model) == ["y" + "x" * 98 + "日" * 60]
    assert "\x1b[2B\r\n" in screen.raw  # below all of it before the answer


async def test_ctrl_c_in_the_middle_of_a_long_line_leaves_below_it(terminal, model, flags):
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("x" * 250 + "\x01")
        await screen.until("x" * 250)
        await screen.until("\r")
        await screen.type("\x03")
        await screen.until("\nGoodbye.")
        assert await screen.end() == 0
    assert "\r\n\x1b[1B\r\nGoodbye." in screen.raw


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, -3)])
async def test_a_signal_at_the_prompt_leaves_the_terminal_as_it_was(terminal, model, flags, number, code):
    async with terminal("chat", *flags) as screen:  # which compares the modes of the terminal
        await screen.until("> ")
        await screen.type("abc")
        await screen.until("abc")
        screen.process.send_signal(number)
        assert await screen.end() == code


async def test_ctrl_z_where_nobody_could_wake_the_program_does_nothing(terminal, model, flags):
    model.says("ok")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("a")
        await screen.until("a")
        await screen.type("\x1a")
        await screen.until("> a")  # drawn anew
        await screen.type("b\r")
        await screen.until("ok")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert said(model) == ["ab"]


async def test_a_window_of_another_size_is_drawn_anew(terminal, model, flags):
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("x" * 30)
        await screen.until("x" * 30)
        screen.resize(columns=20)
        await screen.until("> " + "x" * 30)
        await screen.type("\x15\x04")
        assert await screen.end() == 0
    assert "\x1b[1A\r\x1b[J> xxx" in screen.raw


async def test_a_terminal_that_cannot_move_its_cursor_edits_its_lines_itself(terminal, model, flags, place):
    place.variables["TERM"] = "dumb"
    model.says("ok")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("hi\n")
        await screen.until("ok")
        await screen.until("> ")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert "\x1b" not in screen.raw


@pytest.mark.covers("AURA-47")
async def test_tab_adds_what_a_directive_may_go_on_with(terminal, model, flags, place):
    for name in ("shot.png", "shop.txt", "sheet.png"):
        place.write(name, "x")
    model.says("One.").says("Two.")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("@Pa\tsh\t")  # to what the choices have in common, which is here already
        await screen.until("sheet.png]  shop.txt]  shot.png]")
        await screen.type("op\t now\tthen\r")
        await screen.until("One.")
        await screen.until("> ")
        await screen.type(f"{PASTE}@Pa\t{END}\r")
        await screen.until("Two.")
        await screen.until("> ")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert said(model) == ["shop.txt now\tthen", "@Pa"]


@given(st.text(alphabet="ab \n漢\u0301é", max_size=30), st.integers(2, 9))
def test_rows_hold_the_whole_text_and_none_is_wider_than_the_terminal(text, width) -> None:
    rows = _rows(text, width)
    assert "".join(rows) == text.replace("\n", "")
    assert all(sum(map(_columns, row)) <= width for row in rows)
    assert _rows("a" * width + "\n\nb", width) == ["a" * width, "", "b"]
