"""From a theme to the colours of the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urwid
from pydantic import BaseModel

from aar.config.themes import Themes
from aar.errors import ConfigError
from aar.messages.themes import Theme
from aar.transports.fullscreen.styles import palette
from tests.transports.fullscreen.whole import open_whole


def texts_of(model: BaseModel) -> Iterator[tuple[str, ...]]:
    """The fields of a theme that hold styles and words, by their paths."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from ((name, *rest) for rest in texts_of(value))
        elif isinstance(value, str) and name not in ("name", "character", "side"):
            yield (name,)


def nested(path: tuple[str, ...], value: str) -> dict[str, Any]:
    return {path[0]: nested(path[1:], value) if path[1:] else value}


@pytest.mark.parametrize("value", ["on #0e0e0e", "none", "", "dim", "default", "bold red on blue", "link http://x"])
def test_every_style_that_a_theme_may_have_can_be_drawn(value) -> None:
    used = 0
    for path in texts_of(Theme(name="x")):
        theme = Theme.model_validate({"name": "x"} | nested(path, value))
        screen = urwid.display.raw.Screen()
        screen.register_palette(palette(theme))
        used += 1
    assert used > 60


@pytest.mark.parametrize("ground", ["#102030", "on #102030"])
def test_a_ground_may_be_written_either_way(ground) -> None:
    theme = Theme.model_validate({"name": "x", "fixed_layout": {"body_background": ground}})
    assert next(entry for entry in palette(theme) if entry[0] == "body")[5] == "#102030"


@pytest.mark.parametrize("sign", ["漢", "\u0301", "\x1b", "\x9b", "\u202e", "\u200b"])
async def test_a_sign_that_draws_no_line_is_refused_in_a_file_and_replaced_elsewhere(
    sign, tmp_path: Path, autojump_clock
) -> None:
    theme = Theme.model_validate({"name": "x"} | nested(("header", "separator", "character"), sign))
    (tmp_path / "x.json").write_text(theme.model_dump_json(), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"header\.separator\.character: .* draws no line"):
        Themes(tmp_path).get(str(tmp_path / "x.json"))
    async with open_whole(tmp_path, theme=theme) as whole:
        assert whole.lines[1] == "─" * 110
