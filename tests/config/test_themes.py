"""Themes by name: what a user can say, and what is said when it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.color import Color
from rich.style import Style

from aar.config.themes import BUILT_IN, Themes
from aar.errors import ConfigError
from aar.messages.themes import Theme


def write(home: Path, stem: str, /, **fields: object) -> Path:
    file = home / "themes" / f"{stem}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(fields))
    return file


@pytest.mark.covers("THM-01")
def test_four_themes_come_with_aar_and_say_what_they_are(tmp_path: Path) -> None:
    themes = Themes(tmp_path)
    assert themes.list_names() == list(BUILT_IN) == ["contrast", "decker", "default", "sleek"]
    found = [themes.get(name) for name in themes.list_names()]
    assert [theme.name for theme in found] == list(BUILT_IN)
    assert all(theme.description for theme in found)


def test_the_built_in_themes_have_the_colours_they_are_known_for(tmp_path: Path) -> None:
    themes = Themes(tmp_path)
    assert themes.get("contrast") == Theme(name="contrast", description=themes.get("contrast").description)
    assert themes.get("default").assistant.border_style == "#ffb30f"
    assert themes.get("decker").fixed_layout.thinking_panel.width == 42
    sleek = themes.get("sleek")
    assert (sleek.fixed_layout.thinking_panel.width, sleek.assistant.padding, sleek.error.padding) == (
        38,
        (0, 1),
        (0, 1),
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_theme_holds_only_styles_that_can_be_shown(name: str, tmp_path: Path) -> None:
    write(tmp_path, "copy", **Themes(tmp_path).get(name).model_dump(mode="json"))
    copy = Themes(tmp_path).get("copy")
    assert copy.name == "copy"
    assert Style.parse(copy.assistant.border_style).color == Color.parse(copy.assistant.border_style)


@pytest.mark.covers("THM-03")
def test_a_users_file_is_found_by_its_name_and_listed(tmp_path: Path) -> None:
    write(tmp_path, "mine", name="whatever", prompt_style="bold magenta")
    themes = Themes(tmp_path)
    assert themes.list_names() == ["contrast", "decker", "default", "mine", "sleek"]
    assert themes.get("mine") == Theme(name="mine", prompt_style="bold magenta")


def test_a_file_cannot_take_the_place_of_a_theme_that_comes_with_aar(tmp_path: Path) -> None:
    write(tmp_path, "decker", name="decker", prompt_style="red")
    themes = Themes(tmp_path)
    assert themes.list_names() == list(BUILT_IN)
    assert themes.get("decker").prompt_style != "red"


def test_an_applications_theme_comes_first(tmp_path: Path) -> None:
    own = Theme(name="decker", prompt_style="red")
    assert Themes(tmp_path, [own]).get("decker") is own


@pytest.mark.covers("THM-04")
def test_a_theme_can_be_named_by_the_path_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "night.json"
    file.write_text('{"name": "night", "dim_text": "#333333"}')
    assert Themes(tmp_path).get(str(file)) == Theme(name="night", dim_text="#333333")


@pytest.mark.covers("THM-06")
@pytest.mark.parametrize("name", ["nosuch", "", "../config", "themes/", "x" * 300, "~nobody/x", "a\0b"])
def test_an_unknown_theme_is_named_and_the_default_stands_in(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    themes = Themes(tmp_path)
    with pytest.raises(ConfigError, match="Unknown theme: "):
        themes.get(name)
    theme, why = themes.get_or_default(name)
    assert theme == themes.get("default")
    assert why == (
        f"Unknown theme: {name}. There are: contrast, decker, default, sleek.\nThe theme 'default' is used instead."
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "name: is missing. Add it: a theme says how it is called."),
        (
            {"name": "x", "assistant": {"padding": [0, -1]}},
            "assistant.padding.1: Input should be greater than or equal to 0. "
            "Correct it or leave it out, then the default holds.",
        ),
        (
            {"name": "x", "header": {"separator": {"style": "very blue"}}},
            "header.separator.style: 'very blue' is no style. Write colours and words such as "
            '"bold red", "#ffb30f", "on #121218" or "dim italic", or leave it out.',
        ),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_the_field_and_what_may_stand_there(
    fields: dict[str, object], told: str, tmp_path: Path
) -> None:
    file = write(tmp_path, "mine", **fields)
    with pytest.raises(ConfigError) as caught:
        Themes(tmp_path).get("mine")
    assert str(caught.value) == f"{file}: {told}"
    assert Themes(tmp_path).get_or_default("mine")[0].name == "default"


def test_the_next_theme_is_the_next_name_and_broken_files_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "broken")
    themes = Themes(tmp_path)
    names = ["broken"]
    for _ in range(5):
        names.append(themes.next_after(names[-1]).name)
    assert names == ["broken", "contrast", "decker", "default", "sleek", "contrast"]
    assert themes.next_after("/some/file.json").name == "contrast"
