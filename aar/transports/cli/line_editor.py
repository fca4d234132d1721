"""Lines typed at a terminal with a history: the arrow keys work, and what was said before comes back.

While a line is typed the terminal hands over every key and does not echo. It is as before whenever this is not waiting
for a key: after the line, after a cancel, and while the program is stopped with Ctrl+Z.
"""

from __future__ import annotations

import contextlib
import signal
import termios
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import trio

from aar.transports.cli.editing import EditedLine, Pressed, keys_in
from aar.transports.cli.lines import Lines, has_terminal
from aar.transports.program.screen import Screen
from aar.transports.program.signals import obey
from aar.transports.terminal.completing import Completion, common_beginning

__all__ = ["LineEditor"]

_KEPT = 1_000  # lines of history
_SHOWN_CHOICES = 40  # of what may follow
_LOCAL, _CHARACTERS = 3, 6  # places among the attributes of a terminal
_MARKS_PASTES, _MARKS_NO_PASTES = "\x1b[?2004h", "\x1b[?2004l"
_SIGNALS = (signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP, signal.SIGQUIT)


Completer = Callable[[str], Awaitable[Completion | None]]
"""What may follow the text before the cursor, for the Tab key."""

Older = Callable[[], Awaitable[Sequence[str]]]
"""Lines from before the history, oldest first: asked for when somebody goes back for the first time."""


class LineEditor:
    """For a terminal that can move its cursor. The history lives as long as this object and is written nowhere."""

    def __init__(
        self,
        lines: Lines,
        screen: Screen,
        history: Sequence[str] = (),
        completer: Completer | None = None,
        older: Older | None = None,
    ) -> None:
        self._completer = completer
        self._older = older
        self._lines = lines
        self._screen = screen
        self._history: list[str] = []
        self._draft = ""  # of a line whose reader was cancelled; it is there again for the next one
        for text in history:
            self._remember(text)

    async def read(self, prompt: str, *, styled: str = "") -> str | None:
        """The next line; `None` for Ctrl+D on an empty one and at the end of the input.

        A line that was typed before, while the terminal echoed it, is taken as it is. `styled` is the prompt as it is
        written, with codes that take no room.
        """
        if self._lines.has_typed_line():
            await self._screen.tell(styled or prompt)
            text = await self._lines.read()
        else:
            text = await self._edited(prompt, styled or prompt)
        if text is not None:
            self._remember(text)
        return text

    def _remember(self, text: str) -> None:
        """Lines that are empty, or the same as the last one, are not worth a key."""
        if text.strip() and self._history[-1:] != [text]:
            self._history = [*self._history[1 - _KEPT :], text]

    async def _edited(self, prompt: str, styled: str) -> str | None:
        line = EditedLine(self._history, self._draft)
        self._draft = ""
        drawing = _Drawing(self._screen, prompt, styled, line)
        mode = _KeyMode(self._lines.descriptor, self._screen)
        end = None
        try:
            with mode.on(), trio.open_signal_receiver(*_SIGNALS) as signals:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_watch, signals, mode, drawing)
                    end = await self._until_end(line, drawing)
                    nursery.cancel_scope.cancel()
        finally:
            if end is None:
                self._draft = line.text
                drawing.leave_nowait()
        await drawing.finish(newline=end is Pressed.ENTER)
        return line.text if end is Pressed.ENTER else None

    async def _until_end(self, line: EditedLine, drawing: _Drawing) -> Pressed:
        begun = ""
        await drawing.draw()
        while text := await self._lines.read_typed():
            keys, begun = keys_in(begun + text)
            for place, key in enumerate(keys):
                if key == "\t" and not line.is_pasting and await self._complete(line, drawing):
                    continue
                if self._older is not None and line.goes_back(key):
                    await self._look_further_back(line, self._older)
                pressed = line.press(key)
                if pressed in (Pressed.ENTER, Pressed.END):
                    self._lines.put_back("".join(keys[place + 1 :]) + begun)
                    await drawing.draw()
                    return pressed
                if pressed is Pressed.CLEAR:
                    await drawing.clear()
            await drawing.draw()
        return Pressed.END

    async def _look_further_back(self, line: EditedLine, older: Older) -> None:
        known = set(self._history)
        found = [text for text in await older() if text not in known][-_KEPT:]
        self._older = None
        self._history = [*found, *self._history][-_KEPT:]
        line.put_before(found)

    async def _complete(self, line: EditedLine, drawing: _Drawing) -> bool:
        """Add what all choices have in common, or show them. Whether there was any."""
        if self._completer is None:
            return False
        found = await self._completer(line.text[: line.cursor])
        if found is None:
            return False
        added = common_beginning(found.choices)
        if len(added) > line.cursor - found.start or len(found.choices) == 1:
            line.put(found.start, added)
        else:
            more = ["..."] if len(found.choices) > _SHOWN_CHOICES else []
            await drawing.show("  ".join([*found.choices[:_SHOWN_CHOICES], *more]))
        return True


async def _watch(signals: AsyncIterator[int], mode: _KeyMode, drawing: _Drawing) -> None:
    """A window of another size, Ctrl+Z and the return from it."""
    async for number in signals:
        if number in (signal.SIGTSTP, signal.SIGQUIT):
            mode.restore()
            obey(number)
        mode.set()
        await drawing.draw()


class _KeyMode:
    """Every key at once and no echo; the terminal marks what is pasted. Ctrl+C stays a signal."""

    def __init__(self, descriptor: int, screen: Screen) -> None:
        self._descriptor = descriptor
        self._screen = screen
        self._before: list[Any] | None = None

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        with contextlib.suppress(termios.error):  # the terminal is gone; reading will say so
            self._before = termios.tcgetattr(self._descriptor)
        self.set()
        try:
            yield
        finally:
            self.restore()

    def set(self) -> None:
        if self._before is not None:
            attributes = [*self._before]
            attributes[_LOCAL] &= ~(termios.ICANON | termios.ECHO)
            attributes[_CHARACTERS] = [*attributes[_CHARACTERS]]
            attributes[_CHARACTERS][termios.VMIN] = 1
            attributes[_CHARACTERS][termios.VTIME] = 0
            self._apply(attributes, _MARKS_PASTES)

    def restore(self) -> None:
        if self._before is not None:
            self._apply(self._before, _MARKS_NO_PASTES)

    def _apply(self, attributes: list[Any], codes: str) -> None:
        if has_terminal(self._descriptor):
            self._screen.set_nowait(codes)
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSANOW, attributes)


class _Drawing:
    """The prompt and the line on the screen, over as many rows as they need."""

    def __init__(self, screen: Screen, prompt: str, styled: str, line: EditedLine) -> None:
        self._screen = screen
        self._prompt = prompt
        self._styled = styled
        self._line = line
        self._shown = prompt  # up to the cursor, as it was drawn last
        self._rows_below = 0

    async def draw(self) -> None:
        width = self._screen.columns
        before = self._prompt + self._line.text[: self._line.cursor].replace("\t", " ")
        whole = self._prompt + self._line.text.replace("\t", " ")
        before, whole = _cropped(before, whole, width, self._screen.rows)
        last, column = _place(whole, width)
        row, at = _place(before, width)
        styled = whole.replace(self._prompt, self._styled, 1) if whole.startswith(self._prompt) else whole
        codes = f"{_up(_place(self._shown, width)[0])}\r\x1b[J{styled}"
        if last and not column and not whole.endswith("\n"):
            codes += "\n"  # the terminal waits for one more character before it wraps
        codes += f"{_up(last - row)}\r" + (f"\x1b[{at}C" if at else "") if (row, at) != (last, column) else ""
        self._shown, self._rows_below = before, last - row
        await self._screen.draw(codes, whole)

    async def show(self, text: str) -> None:
        """Something below the line, which is drawn anew below that."""
        await self.finish(newline=True)
        await self._screen.tell(f"{text}\n")
        self._shown, self._rows_below = "", 0

    async def clear(self) -> None:
        self._shown = self._prompt
        await self._screen.draw("\x1b[H\x1b[2J", self._prompt)

    async def finish(self, *, newline: bool) -> None:
        """Put the cursor behind the line, or below it."""
        down = f"\x1b[{self._rows_below}B" if self._rows_below else ""
        if down or newline:
            await self._screen.draw(down + ("\n" if newline else ""), "")

    def leave_nowait(self) -> None:
        """Below the line without waiting, for whoever writes a last word."""
        if self._rows_below:
            further = f"\x1b[{self._rows_below - 1}B" if self._rows_below > 1 else ""
            self._screen.tell_nowait(f"{further}\n")


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows else ""


def _place(text: str, width: int) -> tuple[int, int]:
    """Row and column of the cursor after this text, from the row in which it begins."""
    rows = _rows(text, width)
    column = sum(map(_columns, rows[-1]))
    return (len(rows), 0) if column == width else (len(rows) - 1, column)


def _rows(text: str, width: int) -> list[str]:
    """The rows that this text takes, the last of which may be empty. Quick where every character has one column."""
    rows: list[str] = []
    for line in text.split("\n"):
        if line.isascii():
            rows += [line[at : at + width] for at in range(0, len(line) or 1, width)]
        else:
            rows += _folded(line, width)
    return rows


def _folded(line: str, width: int) -> list[str]:
    rows, column = [""], 0
    for character in line:
        wide = _columns(character)
        if column + wide > width:
            rows.append("")
            column = 0
        rows[-1] += character
        column += wide
    return rows


def _cropped(before: str, whole: str, width: int, height: int) -> tuple[str, str]:
    """What is drawn up to the cursor, and in all: no more rows than there are, or they could not be drawn anew."""
    rows, above = _rows(whole, width), len(_rows(before, width)) - 1
    room = max(height - 1, 1)
    if len(rows) <= room:
        return before, whole
    first = max(0, min(above - room // 2, len(rows) - room))
    return "\n".join(_rows(before, width)[first:]), "\n".join(rows[first : first + room])


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
