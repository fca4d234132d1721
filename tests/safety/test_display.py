from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.safety.display import one_line, plain, plain_json, visible

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ANY_TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x07\x9b[]\\m31;\r\n\t\u202e\u2066\u200b\x00\x7f\ud800\udcff"))
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm x\n\tls", "rm x\n\tls"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\rb\x00\x7f\x9b", "a\\rb\\x00\\x7f\\x9b"),
        ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
        ("a\u200bb\ufeff\u2028", "a\\u200bb\\ufeff\\u2028"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("a\u3164b\u2800\u1160\ufe00\U000e0100", "a\\u3164b\\u2800\\u1160\\ufe00\\U000e0100"),
        ("bad\udcff\ud800", "bad\\xff\\ud800"),
        ("grün 漢字 🙂", "grün 漢字 🙂"),
    ],
)
def test_what_hides_or_reorders_text_becomes_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm x\n\tls", "rm x\n\tls"),
        ("\x1b[1;31mred\x1b[0m and \x1b[2Kmore", "red and more"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        ("\x1b]0;never ends", "]0;never ends"),
        ("50%\r100%\r\ndone", "50%\n100%\ndone"),
        ("a\x1bb\x00\x9b31mc\x7f", "a31mc"),
        ("evil\u202etxt", "eviltxt"),
        ("half\ud800", "half\ufffd"),
    ],
)
def test_what_a_terminal_would_obey_is_gone(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(ANY_TEXT)
def test_no_text_keeps_a_control_character(text: str) -> None:
    assert not FORBIDDEN.search(plain(text))
    assert not FORBIDDEN.search(visible(text))


@given(ANY_TEXT)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    assert plain(plain(text)) == plain(text)
    assert visible(visible(text)) == visible(text)


def test_a_name_stays_on_its_line() -> None:
    assert one_line("a\nb\tc\x1b") == "a\\nb\\tc\\x1b"


@given(st.text(st.characters(categories=["L", "N", "P", "Zs", "Sm"], exclude_characters="\u115f\u1160\u3164\uffa0")))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text
    assert visible(text) == text


@given(st.text(), st.text())
def test_json_without_controls_is_the_same_json(name: str, text: str) -> None:
    document = {name: [text, "\x9b\u202e\x7f\U000e0041\ud800"]}
    written = plain_json(json.dumps(document, ensure_ascii=False, indent=1))
    assert json.loads(written) == document
    assert visible(written) == written
