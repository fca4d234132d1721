"""Themes: what is not said has a default."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from aar.messages.themes import Theme, theme_schema

BAR = {
    "background": "on #1a1a2e",
    "text_style": "bold white",
    "separator_style": "dim",
    "separator": {"character": "─", "style": "dim"},
}
SCROLLBAR = {
    "enabled": True,
    "color": "#444444",
    "color_hover": "#666666",
    "color_active": "#888888",
    "background": "#1a1a1a",
    "background_hover": "#222222",
    "background_active": "#222222",
    "size": 1,
    "scroll_speed": 3,
}


def panel(title: str, border: str, vertical: int) -> dict[str, object]:
    return {"title_style": title, "border_style": border, "padding": [vertical, 2]}


@pytest.mark.covers("THM-02")
def test_the_defaults_of_a_theme_are_the_documented_ones() -> None:
    assert Theme(name="x").model_dump(mode="json") == {
        "name": "x",
        "description": "",
        "assistant": panel("bold green", "green", 1),
        "tool_call": panel("bold yellow", "yellow", 0),
        "tool_result": panel("bold cyan", "cyan", 0),
        "tool_error": panel("bold red", "red", 0),
        "reasoning": panel("dim", "dim", 0),
        "error": panel("bold red", "red", 0),
        "welcome": panel("bold blue", "blue", 1),
        "prompt_style": "bold blue",
        "dim_text": "dim",
        "working_style": "dim italic",
        "path_highlight": "bold blue",
        "usage_style": "dim",
        "usage_warning_style": "bold red",
        "badges": {"read": "dim cyan", "write": "yellow", "execute": "red", "network": "blue", "external": "magenta"},
        "header": {
            **BAR,
            "provider_style": "bold cyan",
            "tokens_style": "dim green",
            "tokens_warning_style": "bold red",
            "session_style": "dim",
            "state_style": "bold yellow",
        },
        "footer": {**BAR, "step_style": "dim cyan", "theme_style": "dim magenta", "input_style": "bold blue"},
        "fixed_layout": {
            "regions": [
                {"name": "header", "size": 1, "visible": True},
                {"name": "body", "size": None, "visible": True},
                {"name": "input", "size": 3, "visible": True},
                {"name": "footer", "size": 1, "visible": True},
            ],
            "body_background": "#0e0e0e",
            "input_background": "#111118",
            "selected_block_style": "on #2a2a3a",
            "input_field": {
                "border_type": "tall",
                "border_color": "#444444",
                "border_color_focus": "#888888",
                "placeholder_color": "#555555",
                "cursor_background": "#cccccc",
                "cursor_foreground": "#000000",
                "text_color": "#ffffff",
            },
            "scrollbar": SCROLLBAR,
            "thinking_panel": {
                "enabled": True,
                "side": "right",
                "width": 40,
                "background": "#080808",
                "border_style": "#2a2a2a",
                "text_style": "italic dim",
                "title_style": "dim #555555",
                "scrollbar": SCROLLBAR,
            },
            "companion": {
                "enabled": True,
                "name": "Bit",
                "git_poll_interval": 60.0,
                "parts": ["kaomoji", "xp_bar", "level", "mood"],
                "animation_interval": 0.4,
            },
        },
    }


@pytest.mark.covers("THM-05")
def test_a_partial_theme_is_filled_up_with_defaults() -> None:
    theme = Theme.model_validate({"name": "x", "header": {"state_style": "red"}, "assistant": {"padding": [0, 1]}})
    assert (theme.header.state_style, theme.header.provider_style) == ("red", "bold cyan")
    assert theme.assistant.model_dump() == {"title_style": "bold green", "border_style": "green", "padding": (0, 1)}
    assert theme.footer == Theme(name="x").footer


def test_a_theme_needs_a_name() -> None:
    with pytest.raises(ValidationError):
        Theme.model_validate({"description": "nameless"})
    assert theme_schema()["required"] == ["name"]
