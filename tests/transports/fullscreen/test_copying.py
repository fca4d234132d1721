"""Copying a block: what goes to the terminal's clipboard, and what is said about it."""

from __future__ import annotations

import base64

import pytest

from aar.transports.fullscreen.clipboard import Copying
from aar.transports.terminal.clipboard import MOST_BYTES, copied

XTERM = {"TERM": "xterm-256color"}


def clipboard(codes: str) -> str:
    """What a terminal makes of it."""
    assert codes.startswith("\x1b]52;c;")
    assert codes.endswith("\x07")
    return base64.b64decode(codes[7:-1], validate=True).decode()


@pytest.mark.covers("FTUI-21", "AURA-41")
async def test_the_selected_block_goes_to_the_clipboard(scene) -> None:
    scene.selected = "def f():\n\treturn 'ä'\n"
    Copying(scene, XTERM).actions["copy"]()
    assert [clipboard(codes) for codes in scene.codes] == ["def f():\n\treturn 'ä'"]
    assert scene.told == ["Sent to the clipboard: 20 characters."]


@pytest.mark.covers("FTUI-21")
def test_what_is_copied_has_no_escape_sequences() -> None:
    copy = copied("\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07done\x00\u202e", XTERM)
    assert clipboard(copy.codes) == "red done"


async def test_without_a_block_nothing_is_copied(scene) -> None:
    Copying(scene, XTERM).copy()
    assert (scene.codes, scene.told) == ([], ["Nothing to copy: click a block first."])


def test_more_than_terminals_take_is_cut_between_two_characters_and_said() -> None:
    copy = copied("é" * MOST_BYTES, XTERM)
    assert clipboard(copy.codes) == "é" * (MOST_BYTES // 2)
    assert len(copy.codes) <= 100_000
    assert copy.message == ("The first 74,994 of 149,988 bytes were sent to the clipboard: terminals take no more.")


@pytest.mark.parametrize(
    "environ",
    [{"TERM": "linux"}, {"TERM": "dumb"}, {}, XTERM | {"STY": "1.a"}, XTERM | {"TERM_PROGRAM": "Apple_Terminal"}],
)
def test_a_terminal_that_is_known_to_have_none_is_told_about(environ) -> None:
    copy = copied("text", environ)
    assert copy.codes == ""
    assert copy.message.startswith("Not copied: ")


def test_tmux_needs_a_setting() -> None:
    copy = copied("x", XTERM | {"TMUX": "/tmp/tmux-0/default,1,0"})
    assert clipboard(copy.codes) == "x"
    assert copy.message == "Sent to the clipboard: 1 character; tmux passes them on with `set -g set-clipboard on`."
