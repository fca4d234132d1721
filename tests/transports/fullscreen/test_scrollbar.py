"""The bar beside the chat, which shows where one is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urwid.testing import check_box_sizing, render_text

from aar.config.themes import Themes
from aar.transports.fullscreen.blocks import Lines
from aar.transports.fullscreen.viewport import Viewport
from tests.transports.fullscreen.whole import open_whole


def port(*lengths: int) -> Viewport:
    found = Viewport(bar_columns=1)
    found.blocks += [Lines("\n".join(["x"] * length)) for length in lengths]
    return found


def bar_of(found: Viewport, rows: int = 10) -> str:
    return "".join(line[-1] for line in render_text(found, (20, rows)))


def test_it_shows_where_one_is_and_nothing_where_all_is_seen() -> None:
    assert bar_of(port(3)) == " " * 10
    found = port(98)
    assert bar_of(found) == " " * 9 + "█"
    found.to_start()
    assert bar_of(found) == "█" + " " * 9
    found.move(48)
    assert bar_of(found).strip() == "█"
    assert 3 <= bar_of(found).index("█") <= 6
    assert bar_of(port(18)) == " " * 5 + "█" * 5


@given(st.lists(st.integers(1, 30), max_size=8), st.lists(st.integers(-40, 40), max_size=5), st.integers(1, 12))
def test_wherever_one_is_it_is_one_piece_that_touches_the_ends_there(
    lengths: list[int], moves: list[int], rows: int
) -> None:
    found = port(*lengths)
    bar_of(found, rows)
    for move in moves:
        found.move(move)
    bar = bar_of(found, rows)
    assert len(bar) == rows
    assert " " not in bar.strip()
    if bar.strip() and found.is_following:
        assert bar.endswith("█")
    if bar.strip() and found._top == (0, 0):
        assert bar.startswith("█")


def test_any_size_can_be_drawn() -> None:
    check_box_sizing(port(50, 3))


@pytest.mark.parametrize("enabled", [True, False])
async def test_the_theme_says_whether_there_is_one(tmp_path, autojump_clock, enabled) -> None:
    theme = Themes(tmp_path).get("decker")
    bar = theme.fixed_layout.scrollbar.model_copy(update={"enabled": enabled})
    other = theme.model_copy(update={"fixed_layout": theme.fixed_layout.model_copy(update={"scrollbar": bar})})
    async with open_whole(tmp_path, size=(100, 24)) as whole:
        whole.app.chat.use(other)
        whole.app._toggle_thinking()
        whole.app.tell("\n".join(["x" * 98] * 60))
        await whole.until("xxx", gone="│")
        assert whole.lines[14].endswith("█") is enabled
        assert ("scrollbar" in {str(one) for one in whole.styles_of("█")}) is enabled
