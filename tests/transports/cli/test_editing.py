from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.transports.cli.editing import EditedLine, Pressed, keys_in

UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
HISTORY = ("oldest", "newest")


def typed(text: str, history=HISTORY) -> tuple[str, str, list[Pressed]]:
    """What stands before and behind the cursor after these keys, and what they meant beyond the line."""
    line = EditedLine(history)
    keys, rest = keys_in(text)
    assert rest == ""
    pressed = [meaning for key in keys if (meaning := line.press(key))]
    return line.text[: line.cursor], line.text[line.cursor :], pressed


@pytest.mark.parametrize(
    ("keys", "before", "behind"),
    [
        ("hello", "hello", ""),
        (f"helo{LEFT}l", "hell", "o"),
        (f"ab{LEFT}{LEFT}{LEFT}x{RIGHT}{RIGHT}{RIGHT}y", "xaby", ""),
        ("abc\x01x", "x", "abc"),
        ("abc\x01\x05x", "abcx", ""),
        ("abc\x1b[Hx\x1b[Fy\x1bOHz", "z", "xabcy"),
        ("abc\x7f\x08", "a", ""),
        ("\x7fabc\x01\x1b[3~\x04", "", "c"),
        (f"abcd{LEFT}{LEFT}\x0b", "ab", ""),
        (f"abcd{LEFT}{LEFT}\x15", "", "cd"),
        ("one two  \x17", "one ", ""),
        ("one two\x1b\x7fx", "one x", ""),
        ("one two\x1bb\x1b[1;5Dx\x1bf\x1b[1;5Cy", "xone twoy", ""),
        ("one two\x01\x1bd", "", " two"),
        (f"e\u0301x{LEFT}{LEFT}\x1b[3~", "", "x"),  # an accent goes with its letter
        ("日本\x7f", "日", ""),
        ("a\tb", "a\tb", ""),
        ("a\x00\x07\x1b[15~\x1bOP\x9bb", "ab", ""),  # keys that mean nothing
        (UP, "newest", ""),
        (f"{UP}{UP}{UP}", "oldest", ""),
        (f"draft{UP}{DOWN}{DOWN}", "draft", ""),
        (f"{UP}er{DOWN}{UP}", "newester", ""),
        ("\x10\x10\x0e", "newest", ""),
    ],
)
def test_keys_edit_the_line(keys, before, behind):
    assert typed(keys) == (before, behind, [])


def test_what_is_pasted_is_text_whatever_its_keys_mean():
    assert typed("a\x1b[200~b\r\nc\r\rd\n\x04\x1b[A\x7f\te\x1b[201~f") == ("ab\nc\n\nd\n\tef", "", [])
    assert typed("a\x1b\rb") == ("a\nb", "", [])


def test_some_keys_are_for_others():
    assert typed("a\x0c\r")[2] == [Pressed.CLEAR, Pressed.ENTER]
    assert typed("\x04")[2] == [Pressed.END]
    assert typed("a\x04\x01\x04\x04")[2] == [Pressed.END]  # on a line with text it removes the next character


def test_without_a_history_up_and_down_do_nothing():
    assert typed(f"a{UP}{DOWN}b", ()) == ("ab", "", [])


@given(st.lists(st.sampled_from(["ab", "é", "\x1b[A", "\x1bOD", "\x1b[1;5C", "\x1bd", "\x7f", "\n"])), st.data())
def test_it_does_not_matter_in_which_pieces_keys_come_in(pieces, data):
    text = "".join(pieces)
    cut = data.draw(st.integers(0, len(text)))
    first, rest = keys_in(text[:cut])
    second, left = keys_in(rest + text[cut:])
    assert left == ""
    assert "".join(first + second) == text
    assert [key for key in first + second if key[0] < " " or key == "\x7f"] == [
        key for key in keys_in(text)[0] if key[0] < " " or key == "\x7f"
    ]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_whatever_is_typed_the_cursor_stays_in_the_line(text):
    line = EditedLine(HISTORY)
    for key in keys_in(text)[0]:
        line.press(key)
        assert 0 <= line.cursor <= len(line.text)
    assert "\x1b" not in line.text
