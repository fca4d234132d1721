"""The log while the full-screen interface runs: kept, bounded, seen live, and never on the terminal."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterator

import pytest
import trio
from urwid.testing import render_text

from aar.logs import configure_logging
from aar.transports.fullscreen.logs import KEPT_LINES, LogBuffer, Logs, LogViewer, keep_logs

SIZE = (60, 6)
log = logging.getLogger("some.place")


@pytest.fixture(autouse=True)
def root() -> Iterator[logging.Logger]:
    """The root logger, given back as it was."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    logger.setLevel(logging.INFO)
    yield logger
    for handler in {*logger.handlers} - {*handlers}:
        handler.close()
    logger.handlers[:] = handlers
    logger.setLevel(level)


def texts(buffer: LogBuffer) -> list[str]:
    """Without the time."""
    return [line.text.partition("  ")[2] for line in buffer.lines()[1]]


@pytest.mark.covers("FTUI-11")
def test_records_go_into_the_buffer_and_none_to_the_terminal(root, monkeypatch, tmp_path) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    configure_logging("INFO", tmp_path / "aar.log", secrets=["hunter2"])
    buffer = LogBuffer()
    with keep_logs(buffer):
        log.warning("the password is hunter2")
        log.info("two\nlines \x1b[31m")
        log.debug("nobody wants to know")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old", stacklevel=1)
    assert texts(buffer)[:2] == [
        "WARNING  some.place: the password is [redacted]",
        "INFO  some.place: two\\nlines \\x1b[31m",
    ]
    assert "UserWarning: old" in texts(buffer)[2]
    assert terminal.getvalue() == ""
    log.warning("and now")
    assert terminal.getvalue() == "WARNING some.place: and now\n"
    assert "the password is [redacted]" in (tmp_path / "aar.log").read_text()
    assert buffer not in root.handlers


@pytest.mark.covers("FTUI-11")
def test_lines_have_time_level_and_name() -> None:
    buffer = LogBuffer()
    record = log.makeRecord("some.place", logging.ERROR, "f.py", 1, "it %s", ("broke",), None)
    record.created = 0.0
    buffer.handle(record)
    clock = buffer.lines()[1][0].text
    assert clock[8:] == "  ERROR  some.place: it broke"
    assert [len(part) for part in clock[:8].split(":")] == [2, 2, 2]


@pytest.mark.covers("FTUI-11")
def test_the_last_two_thousand_lines_are_kept() -> None:
    buffer = LogBuffer()
    with keep_logs(buffer):
        for number in range(KEPT_LINES + 5):
            log.info("%d", number)
    assert buffer.written == KEPT_LINES + 5
    assert texts(buffer) == [f"INFO  some.place: {number}" for number in range(5, KEPT_LINES + 5)]


def test_frames_and_keys_are_not_told_of_not_even_to_those_who_look_for_mistakes(root) -> None:
    root.setLevel("DEBUG")
    buffer = LogBuffer()
    with keep_logs(buffer):
        logging.getLogger("aar.transports.fullscreen.terminal._Screen.draw_screen").debug("drawing")
        logging.getLogger("urwid.event_loop.main_loop.MainLoop").debug("keys=['s', 'e', 'c']")
        log.debug("work")
    assert texts(buffer) == ["DEBUG  some.place: work"]


def test_a_record_that_cannot_be_shown_breaks_nothing(capsys) -> None:
    buffer = LogBuffer()
    buffer.handle(log.makeRecord("some.place", logging.INFO, "f.py", 1, "%d", ("no number",), None))
    assert [line.text for line in buffer.lines()[1]] == ["INFO  some.place: a record that cannot be shown"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("level", "count"), [("INFO", 1), ("DEBUG", 4)])
def test_people_see_a_traceback_only_when_they_look_for_mistakes(root, level, count) -> None:
    root.setLevel(level)
    buffer = LogBuffer()
    with keep_logs(buffer):
        try:
            raise KeyError("x")
        except KeyError:
            log.exception("it broke")
    assert len(buffer.lines()[1]) >= count
    assert (len(buffer.lines()[1]) > 1) == (level == "DEBUG")


async def test_any_thread_may_write(root) -> None:
    buffer = LogBuffer()
    with keep_logs(buffer):
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(trio.to_thread.run_sync, lambda number=number: [log.info("%d", number)] * 1)
    assert sorted(texts(buffer)) == [f"INFO  some.place: {number}" for number in range(4)]


def seen(viewer: LogViewer) -> list[str]:
    return [line.rpartition(" ")[2] for line in render_text(viewer, SIZE, focus=True, strip=True)[1:]]


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def test_the_viewer_stays_at_the_newest_line_unless_somebody_moved_up() -> None:
    buffer = LogBuffer()
    with keep_logs(buffer):
        viewer = LogViewer(buffer)
        for number in range(10):
            log.info("%d", number)
        assert viewer.look()
        assert seen(viewer) == numbers(5, 9)
        log.info("10")
        assert viewer.look()
        assert not viewer.look()
        assert seen(viewer) == numbers(6, 10)
        viewer.keypress(SIZE, "up")
        log.info("11")
        viewer.look()
        assert seen(viewer) == numbers(5, 9)
        viewer.keypress(SIZE, "end")
        assert seen(viewer) == numbers(7, 11)
        viewer.mouse_event(SIZE, "mouse press", 4, 0, 0, True)
        assert seen(viewer) == numbers(4, 8)
        viewer.keypress(SIZE, "page down")
        log.info("12")
        viewer.look()
        assert seen(viewer) == numbers(8, 12)
        viewer.keypress(SIZE, "home")
        assert seen(viewer) == numbers(0, 4)


def test_a_viewer_that_looks_at_lines_that_are_gone_shows_the_oldest_there_are() -> None:
    buffer = LogBuffer()
    with keep_logs(buffer):
        viewer = LogViewer(buffer)
        for number in range(10):
            log.info("%d", number)
        viewer.look()
        seen(viewer)
        viewer.keypress(SIZE, "home")
        for number in range(10, KEPT_LINES + 20):
            log.info("%d", number)
        viewer.look()
        assert seen(viewer) == numbers(20, 24)


@pytest.mark.covers("FTUI-11")
async def test_the_viewer_opens_is_live_and_closes(scene, nursery, autojump_clock) -> None:
    logs = Logs(scene)
    nursery.start_soon(logs.run)
    await trio.testing.wait_all_tasks_blocked()
    log.info("0")
    logs.actions["logs"]()
    viewer = scene.modal
    assert isinstance(viewer, LogViewer)
    assert seen(viewer)[:1] == ["0"]
    log.info("1")
    await trio.sleep(1)
    assert (seen(viewer)[:2], scene.redraws) == (["0", "1"], 1)
    logs.toggle()
    assert scene.modal is None
    logs.toggle()
    scene.close_modal()  # by Esc
    await trio.sleep(1)
    logs.toggle()
    assert isinstance(scene.modal, LogViewer)
    nursery.cancel_scope.cancel()
