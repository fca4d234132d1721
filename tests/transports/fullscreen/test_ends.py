"""How the full screen ends: keys, signals and crashes, each with the terminal as it was."""

from __future__ import annotations

import logging
import signal
import sys

import pytest
import trio
import trio.testing

from aar.messages.settings import TuiConfig
from aar.testing import ScriptedProvider
from aar.transports.fullscreen.frames import FRAME, Frames
from aar.transports.fullscreen.keys import ACTIONS, KEYMAPS, Keys
from aar.transports.fullscreen.leaving import AGAIN_WITHIN, GRACE, Leaving
from aar.transports.fullscreen.printed import keep_printed
from tests.transports.fullscreen.whole import open_whole


@pytest.mark.covers("FTUI-03", "AURA-39")
@pytest.mark.parametrize("keymap", KEYMAPS)
async def test_each_key_of_the_table_does_what_it_stands_for(tmp_path, keymap, autojump_clock) -> None:
    keys = Keys(TuiConfig.model_validate({"keymap": keymap}))
    async with open_whole(tmp_path, keys=keys) as whole:
        done: list[str] = []
        assert ACTIONS.keys() == whole.app._actions.keys()
        for action in list(whole.app._actions):
            whole.app._actions[action] = lambda action=action: done.append(action)
        for key in KEYMAPS[keymap].values():
            whole.press(key)
        typed = ["newline"] if whole.app.input.text == "\n" else []
        assert done == [action for action in KEYMAPS[keymap] if action not in typed]
        assert ("newline" in done) is (keymap == "enter")


@pytest.mark.covers("FTUI-03")
async def test_an_at_sign_picks_a_file_and_enter_begins_a_line(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path) as whole:
        done: list[str] = []
        whole.app._actions["files"] = lambda: done.append("files")
        whole.type("a\n@")
        assert (whole.app.input.text, done) == ("a\n", ["files"])


@pytest.mark.covers("FTUI-03")
async def test_keys_of_the_chat_wait_while_a_modal_is_open(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path) as whole:
        whole.press("ctrl g")
        await whole.until("Log:")
        whole.press("ctrl t", "x")
        whole.press("ctrl k")
        await whole.until("Log:", "think:off", "theme: contrast")
        whole.press("esc")
        await whole.until(gone="Log:")
        assert whole.app.input.text == ""


async def test_a_crash_while_drawing_gives_the_terminal_back(tmp_path, autojump_clock) -> None:
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True, allow_unwrapped=True):
        async with open_whole(tmp_path) as whole:

            def burn() -> None:
                raise RuntimeError("it burns")

            whole.app._update = burn  # type: ignore[method-assign]
            whole.app._frames._drawings[0] = burn
            whole.app.redraw()
            await trio.sleep_forever()
    assert whole.surface.restored == 1


async def test_a_crash_beside_the_screen_ends_it_and_an_error_of_aar_is_shown(tmp_path, autojump_clock) -> None:
    from aar.errors import ToolError

    async def fail(error: Exception) -> None:
        raise error

    with pytest.RaisesGroup(KeyError, flatten_subgroups=True, allow_unwrapped=True):
        async with open_whole(tmp_path) as whole:
            whole.app.start(fail, ToolError("failed", "so what"))
            await whole.until("so what")
            whole.app.start(fail, KeyError("a bug"))
            await trio.sleep_forever()
    assert whole.surface.restored == 1


# --- signals ----------------------------------------------------------------------------------


def leaving(*, interrupted: bool = True) -> tuple[Leaving, list[str], trio.CancelScope]:
    scope, told = trio.CancelScope(), list[str]()
    found = Leaving(scope)
    found.last = lambda: told.append("last")
    found.interrupted = (lambda: not told.append("interrupted")) if interrupted else None
    return found, told, scope


async def test_the_first_ctrl_c_is_for_the_turn_and_the_second_one_leaves(autojump_clock) -> None:
    found, told, scope = leaving()
    found.take(signal.SIGINT)
    await trio.sleep(AGAIN_WITHIN)
    found.take(signal.SIGINT)
    assert (told, found.asked.is_set()) == (["interrupted"] * 2, False)
    found.take(signal.SIGINT)
    assert (found.asked.is_set(), found.code, scope.deadline) == (True, None, trio.current_time() + GRACE)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_other_signals_leave_at_once_with_their_code(autojump_clock, number, code) -> None:
    found, told, scope = leaving()
    found.take(number)
    assert (told, found.asked.is_set(), found.code) == ([], True, code)
    assert not scope.cancel_called


async def test_before_there_is_a_screen_a_signal_cancels_what_is_opened() -> None:
    found, _, scope = leaving(interrupted=False)
    found.take(signal.SIGINT)
    assert (found.code, scope.cancel_called) == (130, True)


async def test_the_terminal_is_given_back_before_a_signal_ends_the_process(monkeypatch) -> None:
    found, told, _ = leaving()
    monkeypatch.setattr("os._exit", lambda code: told.append(f"exit {code}"))
    found.take(signal.SIGTERM)
    found.take(signal.SIGTERM)
    assert told == ["last", "exit 143"]


async def test_ctrl_c_where_nothing_runs_says_how_to_leave(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().hang("wait")) as whole:
        whole.leaving.take(signal.SIGINT)
        await whole.until("Press Ctrl+C again to leave, or Ctrl+Q.")
        await trio.sleep(AGAIN_WITHIN)
        whole.send("go")
        await whole.until("wait")
        whole.leaving.take(signal.SIGINT)
        await whole.until("| cancelled |")


# --- frames -----------------------------------------------------------------------------------


async def test_many_changes_are_one_frame_and_the_first_one_is_drawn_at_once(autojump_clock) -> None:
    sent = []

    async def send() -> None:
        sent.append(trio.current_time())

    frames = Frames(send)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(frames.run_async)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        for _ in range(100):
            frames.ask()
            await trio.sleep(FRAME / 10)
        nursery.cancel_scope.cancel()
    assert sent[0] == began
    assert len(sent) == pytest.approx(10, abs=1)


async def test_nothing_is_drawn_that_nobody_asked_for(tmp_path, autojump_clock) -> None:
    frames = Frames()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(frames.run_async)
        await trio.sleep(10)
        assert frames.drawn == 1
        alarm = frames.alarm(1, lambda: None)
        await trio.sleep(2)
        assert (frames.drawn, frames.remove_alarm(alarm)) == (2, True)
        nursery.cancel_scope.cancel()


# --- what is printed --------------------------------------------------------------------------


async def test_what_is_printed_while_the_screen_is_taken_is_in_the_log(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path) as whole:
        print("an extension says this")
        print("and an error", "x" * 5000, file=sys.stderr)
        whole.press("ctrl g")
        await whole.until("WARNING  aar.stdout: an extension says this", "WARNING  aar.stderr: and an error xxx")


def test_a_log_without_handlers_does_not_tell_itself_what_it_tells(monkeypatch, capsys) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with keep_printed():
        print("a", end="")
        print("b\n\nc")
        logging.getLogger("some.place").warning("careful")
    print("after")
    assert capsys.readouterr().out == "after\n"
