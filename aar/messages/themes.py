"""How the text interfaces look. Every field but the name has a default, so a theme may say as little as it likes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "Badges",
    "Bar",
    "Companion",
    "FixedLayout",
    "Footer",
    "Header",
    "InputField",
    "PanelStyle",
    "Region",
    "Scrollbar",
    "Separator",
    "Theme",
    "ThinkingPanel",
    "theme_schema",
]

Padding = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class Style(BaseModel):
    """Unknown keys are ignored: a theme may be written for a newer Aar."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class PanelStyle(Style):
    """`padding` is vertical, horizontal, in cells."""

    title_style: str = ""
    border_style: str = ""
    padding: Padding = (0, 2)


_PANELS: dict[str, tuple[str, int]] = {
    "assistant": ("green", 1),
    "tool_call": ("yellow", 0),
    "tool_result": ("cyan", 0),
    "tool_error": ("red", 0),
    "reasoning": ("dim", 0),
    "error": ("red", 0),
    "welcome": ("blue", 1),
}


def _panel(name: str) -> PanelStyle:
    colour, vertical = _PANELS[name]
    title = colour if colour == "dim" else f"bold {colour}"
    return PanelStyle(title_style=title, border_style=colour, padding=(vertical, 2))


class Badges(Style):
    read: str = "dim cyan"
    write: str = "yellow"
    execute: str = "red"
    network: str = "blue"
    external: str = "magenta"


class Separator(Style):
    character: str = Field(default="─", min_length=1, max_length=1)
    style: str = "dim"


class Bar(Style):
    background: str = "on #1a1a2e"
    text_style: str = "bold white"
    separator_style: str = "dim"
    separator: Separator = Field(default_factory=Separator)


class Header(Bar):
    provider_style: str = "bold cyan"
    tokens_style: str = "dim green"
    tokens_warning_style: str = "bold red"
    session_style: str = "dim"
    state_style: str = "bold yellow"


class Footer(Bar):
    step_style: str = "dim cyan"
    theme_style: str = "dim magenta"
    input_style: str = "bold blue"


class Region(Style):
    """`size` is in lines; `None` takes what is left."""

    name: Literal["header", "body", "input", "footer"]
    size: int | None = Field(default=None, ge=1)
    visible: bool = True


class InputField(Style):
    border_type: str = "tall"
    border_color: str = "#444444"
    border_color_focus: str = "#888888"
    placeholder_color: str = "#555555"
    cursor_background: str = "#cccccc"
    cursor_foreground: str = "#000000"
    text_color: str = "#ffffff"


class Scrollbar(Style):
    enabled: bool = True
    color: str = "#444444"
    color_hover: str = "#666666"
    color_active: str = "#888888"
    background: str = "#1a1a1a"
    background_hover: str = "#222222"
    background_active: str = "#222222"
    size: int = Field(default=1, ge=0)
    scroll_speed: int = Field(default=3, ge=1)


class ThinkingPanel(Style):
    enabled: bool = True
    side: Literal["left", "right"] = "right"
    width: int = Field(default=40, ge=1)
    background: str = "#080808"
    border_style: str = "#2a2a2a"
    text_style: str = "italic dim"
    title_style: str = "dim #555555"
    scrollbar: Scrollbar = Field(default_factory=Scrollbar)


class Companion(Style):
    """Intervals in seconds."""

    enabled: bool = True
    name: str = "Bit"
    git_poll_interval: float = Field(default=60, gt=0)
    parts: list[Literal["kaomoji", "xp_bar", "level", "mood", "name", "steps"]] = ["kaomoji", "xp_bar", "level", "mood"]
    animation_interval: float = Field(default=0.4, gt=0)


def _regions() -> list[Region]:
    return [
        Region(name="header", size=1),
        Region(name="body"),
        Region(name="input", size=3),
        Region(name="footer", size=1),
    ]


class FixedLayout(Style):
    regions: list[Region] = Field(default_factory=_regions)
    body_background: str = "#0e0e0e"
    input_background: str = "#111118"
    selected_block_style: str = "on #2a2a3a"
    input_field: InputField = Field(default_factory=InputField)
    scrollbar: Scrollbar = Field(default_factory=Scrollbar)
    thinking_panel: ThinkingPanel = Field(default_factory=ThinkingPanel)
    companion: Companion = Field(default_factory=Companion)


class Theme(Style):
    name: str = Field(min_length=1)
    description: str = ""
    assistant: PanelStyle = Field(default_factory=lambda: _panel("assistant"))
    tool_call: PanelStyle = Field(default_factory=lambda: _panel("tool_call"))
    tool_result: PanelStyle = Field(default_factory=lambda: _panel("tool_result"))
    tool_error: PanelStyle = Field(default_factory=lambda: _panel("tool_error"))
    reasoning: PanelStyle = Field(default_factory=lambda: _panel("reasoning"))
    error: PanelStyle = Field(default_factory=lambda: _panel("error"))
    welcome: PanelStyle = Field(default_factory=lambda: _panel("welcome"))
    prompt_style: str = "bold blue"
    dim_text: str = "dim"
    working_style: str = "dim italic"
    path_highlight: str = "bold blue"
    usage_style: str = "dim"
    usage_warning_style: str = "bold red"
    badges: Badges = Field(default_factory=Badges)
    header: Header = Field(default_factory=Header)
    footer: Footer = Field(default_factory=Footer)
    fixed_layout: FixedLayout = Field(default_factory=FixedLayout)

    @model_validator(mode="before")
    @classmethod
    def _complete_the_panels(cls, values: Any) -> Any:
        """A panel that says only one thing keeps the rest of its own default."""
        if not isinstance(values, dict):
            return values
        told = {name: values[name] for name in _PANELS if isinstance(values.get(name), dict)}
        return {**values, **{name: {**_panel(name).model_dump(), **panel} for name, panel in told.items()}}


def theme_schema() -> dict[str, Any]:
    """The JSON schema of a theme file."""
    return Theme.model_json_schema()
