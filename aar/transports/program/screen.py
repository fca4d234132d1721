"""Standard output and standard error of one process, written without ever holding the event loop up.

Answers go to standard output, everything else to standard error. On a terminal a status line may stand below what was
written; it is gone before anything else appears.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
from collections.abc import Mapping

import trio

from aar.display import plain
from aar.errors import ClientGone

__all__ = ["Screen"]

_CLEAR = "\r\x1b[K"
_DEFAULT_WIDTH, _DEFAULT_HEIGHT = 80, 24
_LEFT = (errno.EPIPE, errno.ECONNRESET)


class Screen:
    """Use from one Trio run. `is_live`: standard error is a terminal that can show a status line."""

    def __init__(self, *, out: int = 1, err: int = 2, environ: Mapping[str, str] = os.environ) -> None:
        self._out = out
        self._err = err
        self._lock = trio.Lock()
        self._threads = {out: trio.CapacityLimiter(1), err: trio.CapacityLimiter(1)}
        self._status = ""
        self._err_is_gone = False
        self.out_is_terminal = os.isatty(out)
        self.err_is_terminal = os.isatty(err)
        share_lines = self.out_is_terminal and self.err_is_terminal
        self._tails = {out: "", err: ""}  # what stands on the last line of each, without a newline
        self._out_lines = err if share_lines else out
        is_smart = environ.get("TERM", "") not in ("", "dumb")
        self.is_live = self.err_is_terminal and is_smart
        self.has_colour = is_smart and not environ.get("NO_COLOR")

    @property
    def width(self) -> int:
        """Columns to lay text out for: those of the terminal, and never less than 20."""
        return max(self.columns, 20)

    @property
    def columns(self) -> int:
        """Columns of the terminal; 80 where there is none, or one that does not know."""
        return self._size()[0] or _DEFAULT_WIDTH

    @property
    def rows(self) -> int:
        """Rows of the terminal; 24 where there is none, or one that does not know."""
        return self._size()[1] or _DEFAULT_HEIGHT

    def _size(self) -> tuple[int, int]:
        for descriptor in (self._out, self._err):
            with contextlib.suppress(OSError):
                return os.get_terminal_size(descriptor)
        return 0, 0

    async def say(self, text: str) -> None:
        """Write to standard output. Raises `ClientGone` when its reader has left, `OSError` for a disk that is full."""
        async with self._lock:
            await self._clear_status()
            self._remember(self._out_lines, text)
            try:
                await self._write(self._out, text)
            except OSError as error:
                if error.errno in _LEFT or (self.out_is_terminal and error.errno == errno.EIO):
                    raise ClientGone(f"standard output: {error.strerror or error}") from error
                raise OSError(error.errno, error.strerror, "standard output") from error

    async def tell(self, text: str) -> None:
        """Write to standard error. Nobody reading it is no reason to stop."""
        async with self._lock:
            await self._clear_status()
            self._remember(self._err, text)
            await self._write_err(text)

    async def draw(self, codes: str, line: str) -> None:
        """Write to standard error as it is. Afterwards `line` is what stands on its last line."""
        async with self._lock:
            await self._clear_status()
            self._tails[self._err] = line
            await self._write_err(codes)

    def tell_nowait(self, text: str) -> None:
        """A last word on standard error when everything else is cancelled. Dropped if it would have to wait."""
        if self._can_write_now():
            clear = _CLEAR if self._status else "\n" if self._tail else ""
            self._status = self._tails[self._err] = ""
            with contextlib.suppress(OSError):
                os.write(self._err, (clear + text).encode(_encoding(), errors="replace"))

    def set_nowait(self, codes: str) -> None:
        """Send codes that change how the terminal of standard error works, and draw nothing. Dropped as above."""
        if self._can_write_now():
            with contextlib.suppress(OSError):
                os.write(self._err, codes.encode())

    def _can_write_now(self) -> bool:
        ready = select.poll()
        ready.register(self._err, select.POLLOUT)
        return any(state & select.POLLOUT for _, state in ready.poll(0))

    async def start_line(self) -> None:
        """End the line that is open on standard error, which may be that of an answer on the same terminal."""
        if self._tail:
            await self.tell("\n")

    def ends_with(self, line: str) -> bool:
        """Whether this is what stands open on the last line of standard error."""
        return self._tail == line

    def typed_newline(self) -> None:
        """Somebody at the terminal has pressed Enter: the line that was open is not any more."""
        self._tails[self._err] = ""

    def echoed_interrupt(self) -> None:
        """Somebody at the terminal has pressed Ctrl+C, and it shows that where the cursor was."""
        if self.err_is_terminal and not self._status:
            self._tails[self._err] += "^C"

    async def status(self, text: str) -> None:
        """Show a status line, or none for an empty text. Does nothing without a terminal."""
        if not self.is_live:
            return
        async with self._lock:
            if text and len(self._tail) < self.width and self._tail.isascii():
                text = text[: self.width - 1]
                lead = "" if self._status or not self._tail else "\n"
                self._status = text
                await self._write_err(
                    f"{lead}{_CLEAR}\x1b[2m{text}\x1b[0m\r" if self.has_colour else f"{_CLEAR}{text}\r"
                )
            elif not text:
                await self._clear_status()

    async def _clear_status(self) -> None:
        if self._status:
            self._status = ""
            back = f"\x1b[A\x1b[{len(self._tail)}C" if self._tail else ""
            await self._write_err(_CLEAR + back)

    def _remember(self, descriptor: int, text: str) -> None:
        *lines, last = plain(text).split("\n")
        self._tails[descriptor] = last if lines else self._tails[descriptor] + last

    @property
    def _tail(self) -> str:
        """The open line of standard error, which is that of standard output, too, on one terminal."""
        return self._tails[self._err]

    async def _write_err(self, text: str) -> None:
        if self._err_is_gone:
            return
        try:
            await self._write(self._err, text)
        except OSError:
            self._err_is_gone = True

    async def _write(self, descriptor: int, text: str) -> None:
        """In a thread: a full pipe, a stopped terminal or a slow disk must not keep a cancel from being heard."""
        data = text.encode(_encoding(), errors="replace")
        limiter = self._threads[descriptor]
        await trio.to_thread.run_sync(_write_all, descriptor, data, abandon_on_cancel=True, limiter=limiter)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # somebody who shares this terminal or pipe made it so
            waiting = select.poll()
            waiting.register(descriptor, select.POLLOUT)
            waiting.poll(1000)
