"""From a theme's styles to urwid's palette. What is drawn names its style: another theme changes all of it at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from rich.color import Color, ColorSystem
from rich.style import Style

from aar.messages.themes import PanelStyle, Theme

__all__ = ["PANELS", "Entry", "palette"]

Entry = tuple[str, str, str, str, str, str]
"""Name, foreground and background with 16 colours, without colours, foreground and background with all colours."""

PANELS = ("assistant", "tool_call", "tool_result", "tool_error", "reasoning", "error", "welcome")

_BASIC = (
    "black",
    "dark red",
    "dark green",
    "brown",
    "dark blue",
    "dark magenta",
    "dark cyan",
    "light gray",
    "dark gray",
    "light red",
    "light green",
    "yellow",
    "light blue",
    "light magenta",
    "light cyan",
    "white",
)
_SETTINGS = {
    "bold": "bold",
    "italic": "italics",
    "underline": "underline",
    "dim": "faint",
    "reverse": "standout",
    "strike": "strikethrough",
}


def palette(theme: Theme) -> list[Entry]:
    """All styles of the full-screen interface in the colours of this theme."""
    return [_entry(name, style) for name, style in _styles(theme)]


def _styles(theme: Theme) -> Iterator[tuple[str, str]]:
    fixed, head, foot = theme.fixed_layout, theme.header, theme.footer
    chosen = str(Style.parse(theme.prompt_style) + Style(reverse=True))
    field, think = fixed.input_field, fixed.thinking_panel
    yield from (("body", _on(fixed.body_background)), ("selected", fixed.selected_block_style))
    for name in PANELS:
        panel: PanelStyle = getattr(theme, name)
        yield f"{name}.title", panel.title_style
        yield f"{name}.border", panel.border_style
    yield from (("prompt", theme.prompt_style), ("dim", theme.dim_text), ("working", theme.working_style))
    yield from (("path", theme.path_highlight), ("usage", theme.usage_style))
    yield "usage.warning", theme.usage_warning_style
    for badge in ("read", "write", "execute", "network", "external"):
        yield f"badge.{badge}", getattr(theme.badges, badge)
    for name, bar in (("header", head), ("footer", foot)):
        yield name, _on(bar.background, bar.text_style)
        yield f"{name}.separator", bar.separator.style
    for part in ("provider", "tokens", "session", "state"):
        yield f"header.{part}", getattr(head, f"{part}_style")
    yield "header.warning", head.tokens_warning_style
    yield from (("footer.step", foot.step_style), ("footer.theme", foot.theme_style), ("footer.keys", foot.input_style))
    yield "input", _on(fixed.input_background, field.text_color)
    yield "input.placeholder", field.placeholder_color
    yield "input.number", field.border_color
    yield "scrollbar", _on(fixed.scrollbar.background, fixed.scrollbar.color)
    yield "thinking", _on(think.background, think.text_style)
    yield "thinking.title", think.title_style
    yield "thinking.border", think.border_style
    yield "modal", _on(fixed.input_background)
    yield from (("modal.border", field.border_color_focus), ("modal.title", theme.prompt_style))
    yield from (
        ("button", theme.prompt_style),
        ("button.focus", chosen),
    )
    yield from (("md.heading", theme.assistant.title_style), ("md.strong", "bold"), ("md.emphasis", "italic"))
    yield from (("md.code", theme.path_highlight), ("md.link", "underline"), ("md.quote", theme.dim_text))
    yield from (("md.block", _on(fixed.input_background)), ("md.strike", "strike"))
    yield from (("code.comment", theme.dim_text), ("code.keyword", theme.tool_call.title_style))
    yield from (("code.string", theme.tool_result.border_style), ("code.number", theme.badges.network))
    yield "code.name", theme.assistant.border_style
    yield from (("plain", ""), ("error.text", theme.error.border_style))


def _on(ground: str, text: str = "none") -> str:
    """The style of text on a ground, which is a colour: `black` and `on black` mean the same."""
    told = Style.parse(ground)
    return str(Style.parse(text) + Style(bgcolor=told.bgcolor or told.color))


def _entry(name: str, text: str) -> Entry:
    style = Style.parse(text)
    settings = [ours for rich, ours in _SETTINGS.items() if getattr(style, rich)]
    over = "inherit"

    def told(colour: Color | None, high: bool) -> str:
        if colour is None:
            return over
        return _exact(colour) if high else _basic(colour)

    low = ",".join([told(style.color, False), *settings])
    high = ",".join([told(style.color, True), *settings])
    stands_out = ["standout"] if name in ("selected", "button.focus") else []
    mono = ",".join(dict.fromkeys([*settings, *stands_out]))
    return name, low, _dark(told(style.bgcolor, False)), mono, high, told(style.bgcolor, True)


@cache
def _exact(colour: Color) -> str:
    if colour.is_default:
        return "default"
    if colour.number is not None and colour.number < 16:
        return _BASIC[colour.number]  # the user's terminal says what red is
    return colour.get_truecolor().hex


@cache
def _basic(colour: Color) -> str:
    if colour.is_default:
        return "default"
    number = colour.downgrade(ColorSystem.STANDARD).number
    return _BASIC[number] if number is not None else "default"


def _dark(background: str) -> str:
    """Terminals with 16 colours have eight of them for backgrounds."""
    if background in _BASIC:
        return _BASIC[_BASIC.index(background) % 8]
    return background
