"""The terminal that the full-screen interface takes for itself, and gives back whatever happens."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import termios
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import trio
import urwid
from urwid.display import raw

from aar.errors import ClientGone
from aar.transports.program.signals import obey

__all__ = ["PASTE_LIMIT", "Surface", "Terminal", "take_pastes"]

PASTE_LIMIT = 1_000_000
"""Bytes of one paste that are kept."""

RESTORE_TIMEOUT = 2.0  # seconds that a terminal may take to accept what gives it back
_PIECE = 512  # bytes that a terminal which is ready takes without blocking
_BEGIN, _END = b"\x1b[200~", b"\x1b[201~"
_GONE = (errno.EIO, errno.EPIPE, errno.ENXIO)


class Surface(Protocol):
    """What the interface needs of a terminal. `pastes` holds a text for each key `end paste`, oldest first."""

    screen: urwid.display.BaseScreen
    pastes: deque[str]

    async def send(self) -> None:
        """Hand over what was drawn. Raises `ClientGone` when there is no terminal any more."""

    def send_codes(self, codes: str) -> None:
        """Escape sequences that go out with the next frame."""

    def restore(self) -> None:
        """Give the terminal back, now, without the event loop. Once more does nothing."""

    async def watch(self, loop: urwid.MainLoop, redraw: Callable[[], None]) -> None:
        """Follow what happens to the terminal: another size, Ctrl+Z and the way back."""


class Terminal:
    """Standard input and standard output. What is drawn is written by a thread: a terminal may stand still."""

    def __init__(self, read: int = 0, write: int = 1) -> None:
        """Other descriptors than those of the standard streams are for tests."""
        urwid.set_encoding("utf-8")  # as `_Sheet` writes it; in others urwid lays out signs that it cannot draw
        self.pastes: deque[str] = deque(maxlen=100)
        self._sheet = _Sheet(write)
        self.screen: urwid.display.BaseScreen = _Screen(_Sheet(read), self._sheet, self.pastes)
        self._writing = trio.CapacityLimiter(1)

    async def send(self) -> None:
        data = self._sheet.take()
        if not data:
            return
        try:
            await trio.to_thread.run_sync(
                _write_all, self._sheet.descriptor, data, abandon_on_cancel=True, limiter=self._writing
            )
        except OSError as error:
            if error.errno in _GONE:
                raise ClientGone("the terminal is gone") from error
            raise

    def send_codes(self, codes: str) -> None:
        self._sheet.write(codes)

    def restore(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # of a terminal that is gone
            if self.screen.started:
                self.screen.stop()
        _write_while_ready(self._sheet.descriptor, self._sheet.take())

    async def watch(self, loop: urwid.MainLoop, redraw: Callable[[], None]) -> None:
        was_here = False  # when the program was stopped: then it comes back where it was
        with trio.open_signal_receiver(signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT) as signals:
            async for number in signals:
                if number == signal.SIGTSTP:
                    self._step_aside(loop, obey)
                    was_here = True
                elif number == signal.SIGCONT and not was_here:
                    self._step_aside(loop)  # whoever stopped us may have changed the terminal
                else:
                    was_here = was_here and number != signal.SIGCONT
                self.screen.clear()
                loop.screen_size = None
                redraw()

    def _step_aside(self, loop: urwid.MainLoop, stop: Callable[[int], None] | None = None) -> None:
        with loop.paused():
            _write_while_ready(self._sheet.descriptor, self._sheet.take())
            if stop is not None:
                stop(signal.SIGTSTP)


class _Sheet:
    """Takes what urwid writes until it is sent."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._texts: list[str] = []

    def fileno(self) -> int:
        return self.descriptor

    def write(self, data: str, /) -> None:
        self._texts.append(data)

    def flush(self) -> None:
        """It is sent between two frames."""

    def take(self) -> bytes:
        texts, self._texts = self._texts, []
        return "".join(texts).encode("utf-8", errors="replace")


class _Screen(raw.Screen):
    """Signals are not urwid's to take, Ctrl+S and Ctrl+Q are keys, and a paste is one text."""

    def __init__(self, source: _Sheet, sheet: _Sheet, pastes: deque[str]) -> None:
        super().__init__(input=source, output=sheet, bracketed_paste_mode=True, focus_reporting=False)
        self._pastes = pastes
        self._paste: bytearray | None = None  # what has come in of one

    def signal_init(self) -> None:
        """`Terminal.watch` has them."""

    def signal_restore(self) -> None:
        """None were taken."""

    def _start(self, alternate_buffer: bool = True, *args: Any, **kwargs: Any) -> None:
        super()._start(alternate_buffer, *args, **kwargs)
        fd = self._input_fileno()
        self.tty_signal_keys(quit="undefined", fileno=fd)
        assert fd is not None, "it was opened with one"
        settings = termios.tcgetattr(fd)
        settings[0] &= ~termios.IXON  # this, too, sets free what a Ctrl+S that was typed too early has stopped
        termios.tcsetattr(fd, termios.TCSANOW, settings)

    def _stop(self) -> None:
        """Without waiting until the terminal has taken what was written: one that stands still never does."""
        settings, self._old_termios_settings = self._old_termios_settings, None
        self._old_signal_keys = None  # they are among the settings
        super()._stop()
        fd = self._input_fileno()
        if settings is not None and fd is not None:
            with contextlib.suppress(termios.error):  # it is gone
                termios.tcsetattr(fd, termios.TCSANOW, settings)
                termios.tcflush(fd, termios.TCIFLUSH)  # what the mouse did meanwhile is nothing for the shell

    def get_available_raw_input(self) -> list[int]:
        try:
            codes = super().get_available_raw_input()
        except (RuntimeError, OSError) as error:  # the end of the input, as urwid tells it
            raise ClientGone("the terminal is gone") from error
        left, texts, self._paste = take_pastes(bytes(codes), self._paste)
        self._pastes.extend(texts)
        return list(left)


def take_pastes(data: bytes, begun: bytearray | None) -> tuple[bytes, list[str], bytearray | None]:
    """What was typed, with the empty marks of each paste; the texts that were pasted; and one that goes on.

    `begun` is that of the call before. A paste is one text whatever is in it: it must not pass for keys.
    """
    typed, texts = bytearray(), list[str]()
    while data:
        if begun is None:
            before, mark, data = data.partition(_BEGIN)
            typed += before
            begun = bytearray() if mark else None
            continue
        begun += data
        data = b""
        end = begun.find(_END)
        if end >= 0:
            typed += _BEGIN + _END
            data = bytes(begun[end + len(_END) :])
            texts.append(bytes(begun[: min(end, PASTE_LIMIT)]).decode("utf-8", errors="replace"))
            begun = None
        elif len(begun) > 2 * PASTE_LIMIT:  # what is beyond the limit is not kept; the end is still looked for
            del begun[PASTE_LIMIT : -len(_END)]
    return bytes(typed), texts, begun


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # somebody who shares this terminal made it so
            _is_ready(descriptor, 1.0)


def _write_while_ready(descriptor: int, data: bytes) -> None:
    """As much as the terminal takes in time. Nobody can be told if it does not."""
    deadline = time.monotonic() + RESTORE_TIMEOUT
    left = memoryview(data)
    with contextlib.suppress(OSError):
        while left and _is_ready(descriptor, deadline - time.monotonic()):
            left = left[os.write(descriptor, left[:_PIECE]) :]


def _is_ready(descriptor: int, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    return any(state & select.POLLOUT for _, state in waiting.poll(max(0.0, seconds) * 1000))
