"""A terminal of the operating system: one that stands still, and one that goes away."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import termios
import tty
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import trio
import urwid

from aar.errors import ClientGone
from aar.transports.fullscreen import terminal as module
from aar.transports.fullscreen.terminal import Terminal


class Pair(NamedTuple):
    """The two ends of a terminal."""

    far: int
    near: int


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    far, near = pty.openpty()
    tty.setcbreak(near)
    attributes = termios.tcgetattr(near)
    monkeypatch.setattr(module, "RESTORE_TIMEOUT", 0.05)
    yield Pair(far, near)
    assert termios.tcgetattr(near) == attributes
    os.close(near)
    os.close(far)


def fill(descriptor: int) -> None:
    """Write until the terminal takes no more."""
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    os.set_blocking(descriptor, False)
    while ready.poll(20):  # the system moves what is written along, which takes a moment
        with contextlib.suppress(BlockingIOError):
            os.write(descriptor, b"x" * 100)
    os.set_blocking(descriptor, True)


async def test_a_terminal_that_stands_still_keeps_nobody_from_leaving(pair) -> None:
    terminal = Terminal(pair.near, pair.near)
    terminal.screen.start()
    fill(pair.near)
    terminal.send_codes("more")
    with trio.move_on_after(0.05) as waiting:
        await terminal.send()
    assert waiting.cancelled_caught
    terminal.restore()  # at once
    terminal.restore()
    os.read(pair.far, 65_536)  # lets the thread that still writes end


async def test_what_is_drawn_is_sent_in_order_and_the_way_back_comes_last(pair) -> None:
    terminal = Terminal(pair.near, pair.near)
    terminal.screen.start()
    terminal.send_codes("one")
    terminal.send_codes("two")
    await terminal.send()
    terminal.restore()
    seen = ""
    while "\x1b[?25h" not in seen:
        seen += os.read(pair.far, 65_536).decode()
    assert seen.index("\x1b[?1049h") < seen.index("onetwo") < seen.index("\x1b[?1049l")


async def test_the_end_of_the_input_is_told_as_a_client_that_is_gone(pair, monkeypatch) -> None:
    terminal = Terminal(pair.near, pair.near)
    terminal.screen.start()
    os.write(pair.far, b"a\x1b[200~\x1b[31mb")
    assert terminal.screen.get_available_raw_input() == [ord("a")]
    os.write(pair.far, b"c\x1b[201~d")
    assert bytes(terminal.screen.get_available_raw_input()) == b"\x1b[200~\x1b[201~d"
    assert list(terminal.pastes) == ["\x1b[31mbc"]

    def gone(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", gone)
    os.write(pair.far, b"e")
    with pytest.raises(ClientGone):
        terminal.screen.get_available_raw_input()
    monkeypatch.undo()
    terminal.screen.stop()


async def test_a_ctrl_s_that_was_typed_before_the_screen_was_there_stops_nothing(pair) -> None:
    ready = select.poll()
    ready.register(pair.near, select.POLLOUT)
    os.write(pair.far, b"\x13")  # the terminal stops what is written from here on
    while ready.poll(20):
        await trio.lowlevel.checkpoint()
    terminal = Terminal(pair.near, pair.near)
    terminal.screen.start()
    os.write(pair.far, b"\x13")  # a key by now
    terminal.send_codes("seen")
    with trio.fail_after(5):
        await terminal.send()
        await trio.lowlevel.wait_readable(pair.near)
    assert terminal.screen.get_available_raw_input() == [0x13]
    terminal.restore()
    assert b"seen" in os.read(pair.far, 65_536)


def test_what_is_drawn_is_utf_8_whatever_the_locale_says(pair) -> None:
    urwid.set_encoding("ascii")
    Terminal(pair.near, pair.near)
    canvas = urwid.Text("漢 é 👩‍👩‍👧 שלום").render((6,))
    assert next(iter(canvas.content()))[0][2].decode().startswith("漢 é")
