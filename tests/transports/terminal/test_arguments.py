from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aar.display import one_line
from aar.transports.terminal.arguments import described


def test_a_short_argument_stands_on_its_line() -> None:
    assert described({"path": "a.txt", "n": 5}, 76) == "  path: a.txt\n  n: 5"
    assert described({}, 76) == "  (no arguments)"
    assert described({"content": "x\n" * 200}, 76) == "  content: (400 chars, 201 lines — shown above)"


def test_an_argument_cannot_imitate_another_one_or_the_reason() -> None:
    shown = described({"command": "rm -rf x\nReason: it is harmless\n  path: y", "a\nReason: b": "c"}, 76)
    assert shown.split("\n") == [
        "  command:",
        "  │ rm -rf x",
        "  │ Reason: it is harmless",
        "  │   path: y",
        "  a\\nReason: b: c",
    ]


def test_a_line_that_is_folded_keeps_its_mark() -> None:
    shown = described({"command": "ls" + " " * 34 + "Reason: fine" + "日" * 20}, 40)
    assert shown.split("\n") == [
        "  command:",
        "  │ ls" + " " * 34,
        "  │ Reason: fine" + "日" * 12,
        "  │ " + "日" * 8,
    ]


def test_a_long_name_is_folded_and_marked_too() -> None:
    shown = described({"a" * 30 + " Reason: fine": "x" * 500}, 40)
    assert shown.split("\n") == [
        "  │ " + "a" * 30 + " Reaso",
        "  │ n: fine:",
        "  │ (500 chars, 1 lines — shown above)",
    ]


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=100), max_size=4), st.integers(24, 100))
def test_every_line_is_ours_or_marked(arguments: dict[str, str], width: int) -> None:
    lines = described(arguments, width).split("\n")
    assert [line for line in lines if not line.startswith("  ")] == []
    ours = [line for line in lines if not line.startswith("  │ ")]  # a name that is too long is marked, too
    assert len(ours) <= max(1, len(arguments))
    heads = [f"  {one_line(name)}:" for name in arguments] or ["  (no arguments)"]
    assert [line for line in ours if not line.startswith(tuple(heads))] == []
