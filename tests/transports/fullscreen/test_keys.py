"""Other keys for what the full screen does, by the settings."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.settings import TuiConfig
from aar.testing import ScriptedProvider
from aar.transports.fullscreen.key_names import key_of, label_of
from aar.transports.fullscreen.keys import ACTIONS, KEYMAPS, Keys
from tests.transports.fullscreen.whole import open_whole


def keys(keymap: str = "default", **other: str) -> Keys:
    return Keys(TuiConfig.model_validate({"keymap": keymap, "keys": other}))


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Ctrl+S", "ctrl s"),
        ("ctrl-s", "ctrl s"),
        (" control s ", "ctrl s"),
        ("Alt+Enter", "meta enter"),
        ("meta return", "meta enter"),
        ("Shift+Tab", "shift tab"),
        ("Ctrl+Alt+X", "meta ctrl x"),
        ("PageUp", "page up"),
        ("ctrl page down", "ctrl page down"),
        ("Escape", "esc"),
        ("F12", "f12"),
        ("ctrl+shift+left", "shift ctrl left"),
    ],
)
def test_a_key_may_be_written_as_people_do(name: str, key: str) -> None:
    assert key_of(name) == (key, "")


@pytest.mark.covers("AURA-39")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("crtl+s", "there is no key crtl+s. Did you mean Ctrl+S?"),
        ("pagepu", "there is no key pagepu. Did you mean PageUp?"),
        ("F13", "there is no key F13. Did you mean F3?"),
        ("???", "there is no key ???. Keys are written as Ctrl+S, Alt+Enter, F5, PageUp, Esc."),
        ("+", "there is no key +. Keys are written as Ctrl+S, Alt+Enter, F5, PageUp, Esc."),
        ("s", "s cannot be used: it is needed for typing. Add Ctrl or Alt."),
        ("Ctrl+C", "Ctrl+C cannot be used: the terminal makes a signal of it."),
        ("ctrl+i", "ctrl+i cannot be used: terminals send the same for Tab."),
        ("ctrl+enter", "ctrl+enter cannot be used: terminals do not tell it from the key alone."),
        ("ctrl+shift+x", "ctrl+shift+x cannot be used: terminals do not tell Shift with a letter from the letter."),
        ("ctrl+1", "ctrl+1 cannot be used: Ctrl goes with letters."),
    ],
)
def test_a_key_that_there_is_not_or_that_cannot_be_told_is_refused_with_a_reason(name: str, problem: str) -> None:
    assert key_of(name) == ("", problem)


@given(st.text(max_size=20))
def test_whatever_is_written_there_is_a_key_or_a_reason(name: str) -> None:
    key, problem = key_of(name)
    assert bool(key) != bool(problem)
    assert not key or key_of(label_of(key)) == (key, "")


def test_the_keys_of_every_keymap_could_be_chosen_by_a_user() -> None:
    for keymap in KEYMAPS.values():
        assert [key_of(label_of(key)) for key in keymap.values()] == [(key, "") for key in keymap.values()]
        assert keymap.keys() <= ACTIONS.keys()
        assert len(set(keymap.values())) == len(keymap)


# --- the settings -----------------------------------------------------------------------------


@pytest.mark.covers("AURA-39")
def test_an_action_has_the_key_that_the_settings_give_it_and_the_footer_shows_it() -> None:
    found = keys(send="Alt+Enter", clear="", logs="F5")
    assert found.problems == []
    assert found.hints() == ("Alt+Enter send  Ctrl+X cancel  F5 logs  Ctrl+K think  Ctrl+T theme  Ctrl+Q exit")
    assert [found.bound(key) and found.bound(key).action for key in ("meta enter", "ctrl s", "ctrl l", "f5")] == [
        "send",
        None,
        None,
        "logs",
    ]
    assert found.bound("f5").everywhere


@pytest.mark.covers("AURA-39")
@pytest.mark.parametrize(
    ("setting", "problems"),
    [
        ({"sned": "Ctrl+D"}, ["tui.keys: sned is nothing that a key could do. Did you mean send?"]),
        (
            {"zzz": "Ctrl+D"},
            [f"tui.keys: zzz is nothing that a key could do. There are: {', '.join(ACTIONS)}."],
        ),
        ({"send": "Ctlr+D"}, ["tui.keys.send: there is no key Ctlr+D. Did you mean Ctrl+D?"]),
        (
            {"send": "Ctrl+D", "theme": "ctrl d"},
            ["tui.keys: Ctrl+D is to be two things. It is send, not theme."],
        ),
        (
            {"send": "Ctrl+X"},
            ['tui.keys: Ctrl+X is send now, and cancel has no key. Give it one there, or "".'],
        ),
        ({"send": "Ctrl+X", "cancel": "Ctrl+S"}, []),
        ({"send": "Ctrl+X", "cancel": ""}, []),
        ({"_why": "because"}, []),
    ],
)
def test_a_mistake_is_told_and_the_rest_holds(setting: dict[str, Any], problems: list[str]) -> None:
    found = keys(**setting, copy="F9")
    assert found.problems == problems
    assert found.label("copy") == "F9"
    assert len({binding.action for binding in found.bindings}) == len(found.bindings)


@given(
    st.dictionaries(st.sampled_from([*ACTIONS, "no such"]), st.sampled_from(["", "Ctrl+S", "f5", "up", "Ctrl+Q", "x"]))
)
def test_no_key_does_two_things_and_what_lost_its_key_is_told(setting: dict[str, str]) -> None:
    found = keys(**setting)
    lost = [name for name in KEYMAPS["default"] if name not in setting and not found.label(name)]
    assert all(any(f" {name} has no key" in problem for problem in found.problems) for name in lost)


# --- on the screen ----------------------------------------------------------------------------


@pytest.mark.covers("AURA-39")
async def test_with_other_keys_the_screen_says_so_and_they_work(tmp_path, autojump_clock) -> None:
    other = keys("enter", send="F2", newline="Enter", sned="F9")
    async with open_whole(tmp_path, ScriptedProvider().text("Hello."), keys=other, size=(140, 34)) as whole:
        await whole.until("F2 sends it, Enter begins a new line.", "F2 send  Esc cancel", "Did you mean send?")
        whole.type("one\ntwo")
        whole.press("ctrl s")
        await whole.until("  2 two")
        whole.press("f2")
        await whole.until("> one", "Hello.", "completed")


@pytest.mark.covers("AURA-39")
async def test_enter_sends_and_the_arrow_keys_leave_the_lines_for_the_history(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().text("Hello.").hang("wait"), keys=keys("enter")) as whole:
        whole.type("first")
        whole.press("enter")
        await whole.until("> first", "Hello.", "completed")
        whole.type("one")
        whole.press("meta enter")
        whole.type("two")
        whole.press("up")
        assert whole.app.input.text == "one\ntwo"
        whole.press("up")
        assert whole.app.input.text == "first"
        whole.press("down")
        assert whole.app.input.text == "one\ntwo"
        whole.press("enter")
        await whole.until("wait")
        whole.press("esc")
        await whole.until("Cancelled")


async def test_escape_closes_what_is_open_before_it_cancels(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().hang("wait"), keys=keys("enter")) as whole:
        whole.type("go")
        whole.press("enter")
        await whole.until("wait")
        whole.press("ctrl g")
        await whole.until("Log:")
        whole.press("esc")
        await whole.until(gone="Log:")
        assert "Cancelled" not in whole.text
        whole.press("esc")
        await whole.until("Cancelled")


@pytest.mark.covers("AURA-39")
async def test_ctrl_c_copies_then_clears_then_cancels_then_leaves(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().hang("wait"), keys=keys("enter")) as whole:
        whole.type("go")
        whole.press("enter")
        await whole.until("wait")
        whole.type("more")
        row = next(place for place, line in enumerate(whole.lines) if "wait" in line)
        whole.press(("mouse press", 1, 5, row))
        for seen, gone in (("Sent to the clipboard", "zzz"), ("", "  1 more"), ("Cancelled", "zzz")):
            assert not whole.leaving.asked.is_set()
            whole.leaving.take(signal.SIGINT)
            await whole.until(seen, gone=gone)
        assert len(whole.surface.codes) == 1
        assert not whole.leaving.asked.is_set()
        whole.leaving.take(signal.SIGINT)  # within two seconds of the cancel
        assert whole.leaving.asked.is_set()


@pytest.mark.covers("AURA-39")
async def test_where_nothing_is_left_to_do_a_second_ctrl_c_leaves(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, keys=keys("enter", quit="")) as whole:
        whole.leaving.take(signal.SIGINT)
        await whole.until("Press Ctrl+C again to leave.")
        assert not whole.leaving.asked.is_set()
        whole.leaving.take(signal.SIGINT)
        assert whole.leaving.asked.is_set()
