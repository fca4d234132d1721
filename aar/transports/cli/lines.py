"""Lines of standard input, without holding up the event loop and without changing how the terminal works.

The terminal stays in the mode it is in: in its line mode it edits the line itself, and there is nothing to restore.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import termios

import trio

__all__ = ["Lines", "has_terminal"]

_CHUNK = 65_536
_LOOKS_EVERY = 0.3


def has_terminal(descriptor: int) -> bool:
    """Whether the terminal is ours: a program in the background would be stopped for reading or changing it."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True


class Lines:
    """A reader of one descriptor, terminal, pipe or file; one call at a time."""

    def __init__(self, descriptor: int = 0) -> None:
        self.descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._is_polled = True
        self.is_terminal = os.isatty(descriptor)
        self.is_at_end = False

    async def read(self) -> str | None:
        """The next line without its end; `None` at the end of the input."""
        while "\n" not in self._text and not self.is_at_end:
            await self._read_more()
        line, end, rest = self._text.partition("\n")
        self._text = rest
        if end or line:
            return line.removesuffix("\r")
        if self.is_terminal:
            self.is_at_end = False  # Ctrl+D ends one reading of a terminal, not the terminal
        return None

    async def read_all(self) -> str:
        """Everything up to the end of the input."""
        while not self.is_at_end:
            await self._read_more()
        text, self._text = self._text, ""
        return text

    # --- for an editor, which gets every key ---

    def has_typed_line(self) -> bool:
        """Whether a line, or Ctrl+D, was typed while the terminal was in its line mode, and nobody has read it."""
        if self._text or not self.is_terminal:
            return False
        ready = select.poll()
        ready.register(self.descriptor, select.POLLIN)
        return bool(ready.poll(0))

    async def read_typed(self) -> str:
        """What was typed since; empty only at the end of the input."""
        while not self._text and not self.is_at_end:
            await self._read_more()
        text, self._text = self._text, ""
        return text

    def put_back(self, text: str) -> None:
        """Let the next call read this again."""
        self._text = text + self._text

    # --- for a question ---

    @property
    def is_in_background(self) -> bool:
        return self.is_terminal and not has_terminal(self.descriptor)

    async def in_foreground(self) -> None:
        """Wait until the shell has given us the terminal (back)."""
        while self.is_in_background:  # noqa: ASYNC110 (the kernel tells nobody)
            await trio.sleep(_LOOKS_EVERY)

    def forget(self) -> None:
        """Drop what was typed ahead: an answer must come after its question."""
        self._text = ""
        if self.is_terminal:
            self.is_at_end = False  # the task may have been typed, up to Ctrl+D; the answer is still to come
            with contextlib.suppress(termios.error):  # the terminal is gone; reading will say so
                termios.tcflush(self.descriptor, termios.TCIFLUSH)

    async def _read_more(self) -> None:
        data = await self._read_bytes()
        self.is_at_end = not data
        self._text += self._decoder.decode(data, final=not data)

    async def _read_bytes(self) -> bytes:
        """Nothing, too, for an input that cannot be read (any more)."""
        try:
            if self._is_polled:
                await trio.lowlevel.wait_readable(self.descriptor)
                return os.read(self.descriptor, _CHUNK)
        except PermissionError:
            self._is_polled = False  # a regular file: always ready, so the kernel does not watch it
        except BlockingIOError:
            return await self._read_bytes()
        except OSError:
            return b""
        try:
            return await trio.to_thread.run_sync(os.read, self.descriptor, _CHUNK, abandon_on_cancel=True)
        except OSError:
            return b""
