"""What `tui.layout` hides, and what is said of its mistakes."""

from __future__ import annotations

from aar.transports.terminal.layout import SECTIONS, Layout, layout_of


def test_everything_is_shown_unless_it_is_said() -> None:
    assert layout_of({}) == Layout()
    assert layout_of({name: {"visible": True, "order": 10} for name in SECTIONS}) == Layout()
    layout = layout_of({"reasoning": {"visible": False}, "extensions": {"Todo": {"visible": False}, "x": {}}})
    assert [name for name in SECTIONS if not layout.shows(name)] == ["reasoning"]
    assert [name for name in ("todo", "x", "y") if not layout.shows_panel(name)] == ["todo"]


def test_a_mistake_hides_nothing_and_is_told() -> None:
    layout = layout_of({"thoughts": {}, "assistant": False, "tool_call": {"visible": "no"}, "_note": 1})
    assert layout.hidden == frozenset()
    assert layout.problems == (
        'tui.layout.assistant: must be an object such as {"visible": false}.',
        "tui.layout.thoughts: there is no such section. There are: " + ", ".join(SECTIONS) + ", extensions.",
        'tui.layout.tool_call: must be an object such as {"visible": false}.',
    )
    assert layout_of({"extensions": []}).problems == (
        'tui.layout.extensions: must be an object, such as {"NAME": {"visible": false}}.',
    )
