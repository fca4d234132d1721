"""Typing: lines with numbers, pastes that are one text, and what was typed before."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urwid.testing import check_box_sizing, click, press, render_text

from aar.transports.fullscreen.history import LIMIT, History
from aar.transports.fullscreen.input import LONG_PASTE, PLACEHOLDER, Input
from aar.transports.fullscreen.terminal import PASTE_LIMIT, take_pastes
from tests.transports.fullscreen.whole import open_whole

SIZE = (24, 3)


def typed(text: str, pastes: tuple[str, ...] = ()) -> Input:
    field = Input(deque(pastes))
    press(field, SIZE, *("enter" if letter == "\n" else letter for letter in text))
    return field


# --- the input --------------------------------------------------------------------------------


def test_lines_have_numbers_and_what_is_folded_has_none() -> None:
    field = typed("one\na line that is too long\n")
    assert render_text(field, (24, 5), focus=True, strip=True) == [
        "  1 one",
        "  2 a line that is too",
        "    long",
        "  3",
        "",
    ]


def test_the_line_with_the_cursor_is_always_seen() -> None:
    field = typed("\n".join("abcdef"))
    assert render_text(field, SIZE, focus=True, strip=True) == ["  4 d", "  5 e", "  6 f"]
    press(field, SIZE, *["up"] * 4)
    assert render_text(field, SIZE, focus=True, strip=True) == ["  2 b", "  3 c", "  4 d"]
    assert field.get_cursor_coords(SIZE) == (5, 0)


def test_an_empty_input_says_what_to_do() -> None:
    field = Input(deque())
    assert render_text(field, (80, 1), focus=True, strip=True) == [f"  1 {PLACEHOLDER}"]
    assert field.render((80, 1), focus=True).cursor == (4, 0)


def test_a_click_puts_the_cursor_there() -> None:
    field = typed("first\nsecond")
    assert click(field, SIZE, 4 + 2, 0)
    press(field, SIZE, "X")
    assert field.text == "fiXrst\nsecond"
    assert not click(field, SIZE, 1, 0)


def test_any_size_can_be_drawn() -> None:
    check_box_sizing(typed("one\ntwo ä 漢字\n\nfour"))
    check_box_sizing(Input(deque()))


def test_what_is_taken_is_whole_and_leaves_nothing() -> None:
    field = typed("a\nb")
    assert field.take() == "a\nb"
    assert (field.text, field.take()) == ("", "")


def test_a_tab_that_was_pasted_is_kept_and_shown_as_a_sign() -> None:
    field = typed("", ("all:\n\tmake",))
    press(field, SIZE, "begin paste", "end paste")
    assert render_text(field, SIZE, focus=True, strip=True) == ["  1 all:", "  2 ⇥make", ""]
    assert field.take() == "all:\n\tmake"


@pytest.mark.covers("FTUI-17")
def test_what_is_pasted_loses_its_escape_sequences() -> None:
    field = typed("say ", ("\x1b[31mred\x1b[0m\x1b]0;title\x07 text\r\nnext\x00",))
    press(field, SIZE, "begin paste", "end paste")
    assert field.text == "say red text\nnext"


def test_a_long_paste_is_a_mark_until_it_is_taken() -> None:
    long = "x" * LONG_PASTE + "\ny"
    field = typed("look: ", (long, long + "z"))
    press(field, SIZE, "begin paste", "end paste", "begin paste", "end paste")
    assert field.text == "look: [Pasted 1: 5002 characters, 2 lines][Pasted 2: 5003 characters, 2 lines]"
    assert field.take() == f"look: {long}{long}z"


async def test_what_is_pasted_goes_to_the_model_as_it_is(tmp_path, autojump_clock) -> None:
    from aar.messages.events import UserMessage
    from aar.testing import ScriptedProvider, facts_of

    async with open_whole(tmp_path, ScriptedProvider().text("Well.")) as whole:
        whole.paste("one\n\ttwo \x1b[1mbold\x1b[0m /quit")
        await whole.until("  2 ⇥two bold /quit")
        whole.press("ctrl s")
        await whole.until("Well.", "completed", "> one", "two bold /quit")
        assert [fact.content for fact in facts_of(whole.handle) if isinstance(fact, UserMessage)] == [
            "one\n\ttwo bold /quit"
        ]


# --- pastes among what a terminal sends -------------------------------------------------------

BEGIN, END = b"\x1b[200~", b"\x1b[201~"


def test_a_paste_is_one_text_whatever_stands_in_it() -> None:
    data = b"ab" + BEGIN + b"x\x1b[A\x11\x1b[31m" + END + b"c" + BEGIN + "ä".encode() + END
    assert take_pastes(data, None) == (b"ab" + BEGIN + END + b"c" + BEGIN + END, ["x\x1b[A\x11\x1b[31m", "ä"], None)


@given(st.lists(st.tuples(st.binary(max_size=5), st.text(max_size=12)), max_size=4), st.integers(1, 7))
def test_it_does_not_matter_in_which_pieces_it_comes(parts: list[tuple[bytes, str]], length: int) -> None:
    parts = [(keys.replace(b"\x1b", b""), text.replace("\x1b", "")) for keys, text in parts]
    stream = b"".join(keys + BEGIN + text.encode() + END for keys, text in parts)
    typed, texts, begun, rest = b"", list[str](), None, b""
    for at in range(0, len(stream), length):
        keys, found, begun = take_pastes(rest + stream[at : at + length], begun)
        # urwid keeps the beginning of a key, and gives it again with the rest
        kept = next((n for n in range(len(BEGIN) - 1, 0, -1) if begun is None and keys.endswith(BEGIN[:n])), 0)
        keys, rest = keys[: len(keys) - kept], keys[len(keys) - kept :]
        typed += keys
        texts += found
    assert typed + rest == b"".join(keys + BEGIN + END for keys, _ in parts)
    assert texts == [text for _, text in parts]


def test_a_paste_without_end_takes_no_more_memory_than_it_may() -> None:
    begun = None
    for _ in range(8):
        _, texts, begun = take_pastes((BEGIN if begun is None else b"") + b"x" * (PASTE_LIMIT // 2), begun)
        assert begun is not None
        assert len(begun) <= 2.5 * PASTE_LIMIT
    typed, texts, begun = take_pastes(END + b"y", begun)
    assert (typed, [len(text) for text in texts], begun) == (BEGIN + END + b"y", [PASTE_LIMIT], None)


# --- what was typed before --------------------------------------------------------------------


@pytest.mark.covers("FTUI-14")
def test_the_draft_is_kept_while_somebody_looks_back() -> None:
    history = History(["one", "two"])
    assert [history.previous("draft"), history.previous("two"), history.previous("one")] == ["two", "one", None]
    assert [history.next(), history.next(), history.next()] == ["two", "draft", None]


@pytest.mark.covers("FTUI-14")
def test_the_same_is_not_kept_twice_in_a_row() -> None:
    history = History(["one", "one", " ", "two", "one", "one"])
    assert [history.previous("") for _ in range(4)] == ["one", "two", "one", None]


def test_the_history_is_bounded() -> None:
    history = History(str(n) for n in range(2 * LIMIT))
    found = [history.previous("") for _ in range(LIMIT + 1)]
    assert (found[0], found[-2], found[-1]) == (str(2 * LIMIT - 1), str(LIMIT), None)


@pytest.mark.covers("FTUI-14")
async def test_the_keys_go_through_what_was_sent(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path) as whole:
        for text in ("/queue", "/queue", "/help"):
            whole.send(text)
        whole.type("a draft")
        seen = []
        for key in ("ctrl up", "ctrl up", "ctrl up", "ctrl down", "ctrl down", "ctrl down"):
            whole.press(key)
            seen.append(whole.app.input.text)
        assert seen == ["/help", "/queue", "/queue", "/help", "a draft", "a draft"]
