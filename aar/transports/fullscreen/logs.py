"""The log while the full-screen interface runs: kept in memory, and shown when it is asked for.

Whatever thread writes a record only adds lines to a list of fixed length. Nobody is woken by it: the viewer looks
while it is open.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, NamedTuple

import trio
import urwid

from aar.logs import RedactingFormatter
from aar.messages.events import Recorded
from aar.transports.fullscreen.stage import Stage

__all__ = ["KEPT_LINES", "LogBuffer", "LogLine", "LogViewer", "Logs", "keep_logs"]

KEPT_LINES = 2000
LOOKS = 0.2  # seconds between two looks of an open viewer
WIDTH, HEIGHT = 92, 82  # per cent of the screen

_QUIET = ("aar.transports.fullscreen", "urwid")  # they tell of each frame and, what is nobody's business, each key
_FORMAT = "%(asctime)s  %(levelname)s  %(name)s: %(message)s"


class LogLine(NamedTuple):
    level: int
    text: str


class LogBuffer(logging.Handler):
    """The last 2000 lines, without keys. `written` counts all there ever were."""

    def __init__(self) -> None:
        super().__init__()
        formatter = RedactingFormatter(_FORMAT)
        formatter.datefmt = "%H:%M:%S"
        self.setFormatter(formatter)
        self.written = 0
        self._lines: deque[LogLine] = deque(maxlen=KEPT_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """In any thread. Tracebacks are there at DEBUG, as on standard error."""
        try:
            if record.exc_info and logging.getLogger().level > logging.DEBUG:
                record = copy(record)
                record.exc_info = record.exc_text = None
            lines = self.format(record).split("\n")
        except (
            Exception
        ):  # a wall: an argument that cannot be shown; standard error, where logging says so, is not ours
            lines = [f"{record.levelname}  {record.name}: a record that cannot be shown"]
        self._lines.extend(LogLine(record.levelno, line.expandtabs(4)) for line in lines)
        self.written += len(lines)

    def lines(self) -> tuple[int, list[LogLine]]:
        """How many were ever written, and those of them that are kept, the oldest first."""
        self.acquire()
        try:
            return self.written, list(self._lines)
        finally:
            self.release()


@contextmanager
def keep_logs(buffer: LogBuffer) -> Iterator[None]:
    """Inside this block records go into `buffer` and none to the terminal. Log files get theirs as before."""
    root = logging.getLogger()
    silenced = [handler for handler in root.handlers if _writes_to_the_terminal(handler)]
    if isinstance(buffer.formatter, RedactingFormatter):
        for handler in root.handlers:
            if isinstance(handler.formatter, RedactingFormatter):
                buffer.formatter.secrets |= handler.formatter.secrets
    for handler in silenced:
        root.removeHandler(handler)
    root.addHandler(buffer)
    logging.captureWarnings(True)
    levels = {name: logging.getLogger(name).level for name in _QUIET}
    for name, level in levels.items():
        logging.getLogger(name).setLevel(max(logging.INFO, level, root.level))
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        logging.captureWarnings(False)
        root.removeHandler(buffer)
        for handler in silenced:
            root.addHandler(handler)


def _writes_to_the_terminal(handler: logging.Handler) -> bool:
    ends = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    if not isinstance(handler, logging.StreamHandler) or isinstance(handler, logging.FileHandler):
        return False
    return any(handler.stream is end for end in ends) or _is_a_terminal(handler.stream)


def _is_a_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # none, or closed
        return False


class LogViewer(urwid.WidgetWrap[urwid.Widget]):
    """A box of lines. It stays at the newest one unless somebody has moved up."""

    def __init__(self, buffer: LogBuffer) -> None:
        self._buffer = buffer
        self._walker = _Lines()
        self._list = urwid.ListBox(self._walker)
        self._head = urwid.Text("", wrap="clip")
        self._size = (80, 10)  # of the list, when it was drawn last
        super().__init__(urwid.Frame(self._list, header=urwid.AttrMap(self._head, "modal.title"), focus_part="body"))
        self.look()

    def look(self) -> bool:
        """Take in what was written since the last look. Answers whether there is anything new."""
        if self._buffer.written == self._walker.written and self._head.text:
            return False
        follows = "bottom" in self._list.ends_visible(self._size)
        self._walker.take(*self._buffer.lines(), follows=follows)
        level = logging.getLevelName(logging.getLogger().level)
        shown = len(self._walker.kept)
        self._head.set_text(f"Log: {shown} line{'s' if shown != 1 else ''}, {level} and above    Esc closes")
        return True

    def selectable(self) -> bool:
        return True

    def render(self, size: Any, focus: bool = False) -> urwid.Canvas:
        self._size = (size[0], max(1, size[1] - 1))
        return super().render(size, focus)

    def keypress(self, size: Any, key: str) -> str | None:
        """What moves nothing is given back."""
        inner = (size[0], max(1, size[1] - 1))
        if key in ("home", "g"):
            self._walker.go(first=True)
            return None
        if key in ("end", "G"):
            self._walker.go(first=False)
            return None
        return self._list.keypress(inner, key)

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        keys = {4: "up", 5: "down"}
        if event == "mouse press" and button in keys:
            for _ in range(3):
                self.keypress(size, keys[button])
            return True
        return False


class _Lines(urwid.ListWalker[int, Any]):
    """Lines by their number among all that were ever written, so that a place stays the same while more are added."""

    def __init__(self) -> None:
        self.written = 0
        self.kept: list[LogLine] = []
        self.focus = 0

    @property
    def first(self) -> int:
        return self.written - len(self.kept)

    def take(self, written: int, kept: list[LogLine], *, follows: bool) -> None:
        self.written, self.kept = written, kept
        self.focus = self.written - 1 if follows else max(self.focus, self.first)
        self._modified()

    def go(self, *, first: bool) -> None:
        self.set_focus(self.first if first else self.written - 1)

    # --- what a ListBox asks ---

    def __getitem__(self, place: int) -> urwid.Widget:
        if not self.first <= place < self.written:
            raise IndexError(place)
        line = self.kept[place - self.first]
        style = (
            "error.text" if line.level >= logging.ERROR else "usage.warning" if line.level >= logging.WARNING else None
        )
        text = urwid.Text(line.text)
        return urwid.AttrMap(text, style) if style else text

    def next_position(self, place: int) -> int:
        if place + 1 >= self.written:
            raise IndexError
        return place + 1

    def prev_position(self, place: int) -> int:
        if place <= self.first:
            raise IndexError
        return place - 1

    def set_focus(self, place: int) -> None:
        self.focus = place
        self._modified()


class Logs:
    """The part of the interface that opens and closes the viewer."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._buffer = LogBuffer()
        self._viewer: LogViewer | None = None

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {"logs": self.toggle}

    def toggle(self) -> None:
        if self._viewer is not None and self._stage.modal is self._viewer:
            self._stage.close_modal()
            return
        self._viewer = LogViewer(self._buffer)
        self._stage.open_modal(self._viewer, width=WIDTH, height=HEIGHT)
        self._stage.start(self._follow, self._viewer)

    async def _follow(self, viewer: LogViewer) -> None:
        """While it is open."""
        while self._stage.modal is viewer:
            if viewer.look():
                self._stage.redraw()
            await trio.sleep(LOOKS)

    def notice(self, record: Recorded) -> None:
        """What a session does is not the log's affair."""

    def reset(self) -> None:
        """The log is that of the program."""

    async def run(self) -> None:
        with keep_logs(self._buffer):
            await trio.sleep_forever()
