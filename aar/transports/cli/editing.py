"""A line that is being typed: what each key does to it. Nothing here knows of a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from enum import Enum

__all__ = ["PASTE_BEGINS", "PASTE_ENDS", "EditedLine", "Pressed", "keys_in"]

PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"

_KEY = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # a key with a name: arrows, Delete, ...
    r"|\x1bO[A-Za-z]"  # the same from terminals in their other mode
    r"|\x1b[^\[O\x1b]"  # a letter with Alt
    r"|[^\x00-\x1f\x7f]+"  # text
    r"|[\x00-\x1f\x7f]"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_WORD_BEFORE = re.compile(r"\S+\s*\Z|\s+\Z")
_WORD_AFTER = re.compile(r"\s*\S+|\s+")


class Pressed(Enum):
    """What a key means beyond the line."""

    ENTER = "the line is finished"
    END = "Ctrl+D on an empty line"
    CLEAR = "Ctrl+L: the screen is to be cleared"


def keys_in(text: str) -> tuple[list[str], str]:
    """The keys that were pressed, runs of text as one, and the beginning of one that has not come in whole."""
    keys: list[str] = []
    at = 0
    while at < len(text):
        if _UNFINISHED.match(text, at):
            return keys, text[at:]
        found = _KEY.match(text, at)
        assert found is not None, "every character begins a key"
        keys.append(found[0])
        at = found.end()
    return keys, ""


class EditedLine:
    """`text`, and a `cursor` between its characters. Up and down go through `history`, oldest first."""

    def __init__(self, history: Sequence[str] = (), text: str = "") -> None:
        self.text = text
        self.cursor = len(text)
        self._versions = [*history, text]  # of every line that was looked at, as it was left
        self._at = len(history)
        self._pasted: str | None = None  # the key before, while the terminal hands over what was pasted

    def press(self, key: str) -> Pressed | None:
        """Do what this key stands for; keys without a meaning do nothing.

        What comes between `PASTE_BEGINS` and `PASTE_ENDS` is text, whatever the keys in it mean otherwise; escape
        sequences in it are left out.
        """
        if key in (PASTE_BEGINS, PASTE_ENDS):
            self._pasted = "" if key == PASTE_BEGINS else None
            return None
        if self._pasted is not None:
            self._paste(key)
            return None
        action = _ACTIONS.get(key)
        if key in ("\r", "\n"):
            return Pressed.ENTER
        if key == "\x04" and not self.text:
            return Pressed.END
        if key == "\x0c":
            return Pressed.CLEAR
        if action is not None:
            action(self)
        elif key == "\t" or (key[0] >= " " and key != "\x7f"):
            self._insert("".join(c for c in key if c == "\t" or unicodedata.category(c) != "Cc"))
        return None

    def _paste(self, key: str) -> None:
        if key in ("\r", "\n"):
            self._insert("\n" if (self._pasted, key) != ("\r", "\n") else "")
        elif key == "\t" or (key[0] >= " " and key != "\x7f"):
            self._insert("".join(c for c in key if c == "\t" or unicodedata.category(c) != "Cc"))
        self._pasted = key

    @property
    def is_pasting(self) -> bool:
        """Whether keys are text for now."""
        return self._pasted is not None

    def goes_back(self, key: str) -> bool:
        """Whether this key brings the line before."""
        return not self.is_pasting and _ACTIONS.get(key) is EditedLine.up

    def put_before(self, history: Sequence[str]) -> None:
        """Further lines, which are older than all others."""
        self._versions[:0] = history
        self._at += len(history)

    def put(self, start: int, text: str) -> None:
        """Let `text` stand in the place of what is between `start` and the cursor."""
        self.text = self.text[:start] + text + self.text[self.cursor :]
        self.cursor = start + len(text)

    def new_line(self) -> None:
        self._insert("\n")

    def _insert(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    # --- moving ---

    def left(self) -> None:
        self.cursor = self._before()

    def right(self) -> None:
        self.cursor = self._after()

    def home(self) -> None:
        self.cursor = 0

    def end(self) -> None:
        self.cursor = len(self.text)

    def word_left(self) -> None:
        found = _WORD_BEFORE.search(self.text[: self.cursor])
        self.cursor = found.start() if found else 0

    def word_right(self) -> None:
        found = _WORD_AFTER.match(self.text, self.cursor)
        self.cursor = found.end() if found else self.cursor

    def up(self) -> None:
        self._look_at(self._at - 1)

    def down(self) -> None:
        self._look_at(self._at + 1)

    def _look_at(self, place: int) -> None:
        if 0 <= place < len(self._versions):
            self._versions[self._at] = self.text
            self._at = place
            self.text = self._versions[place]
            self.end()

    # --- removing ---

    def backspace(self) -> None:
        self._remove(self._before(), self.cursor)

    def delete(self) -> None:
        self._remove(self.cursor, self._after())

    def to_start(self) -> None:
        self._remove(0, self.cursor)

    def to_end(self) -> None:
        self._remove(self.cursor, len(self.text))

    def word_before(self) -> None:
        stop = self.cursor
        self.word_left()
        self._remove(self.cursor, stop)

    def word_after(self) -> None:
        start = self.cursor
        self.word_right()
        self._remove(start, self.cursor)

    def _remove(self, start: int, stop: int) -> None:
        self.text = self.text[:start] + self.text[stop:]
        self.cursor = start

    # --- characters that stand above others go with them ---

    def _before(self) -> int:
        at = self.cursor
        while at > 0:
            at -= 1
            if not unicodedata.combining(self.text[at]):
                break
        return at

    def _after(self) -> int:
        at = min(self.cursor + 1, len(self.text))
        while at < len(self.text) and unicodedata.combining(self.text[at]):
            at += 1
        return at


_LETTERS: dict[str, Callable[[EditedLine], None]] = {
    "A": EditedLine.up,
    "B": EditedLine.down,
    "C": EditedLine.right,
    "D": EditedLine.left,
    "F": EditedLine.end,
    "H": EditedLine.home,
}
_ACTIONS: dict[str, Callable[[EditedLine], None]] = {
    "\x01": EditedLine.home,
    "\x02": EditedLine.left,
    "\x04": EditedLine.delete,
    "\x05": EditedLine.end,
    "\x06": EditedLine.right,
    "\x08": EditedLine.backspace,
    "\x7f": EditedLine.backspace,
    "\x0b": EditedLine.to_end,
    "\x0e": EditedLine.down,
    "\x10": EditedLine.up,
    "\x15": EditedLine.to_start,
    "\x17": EditedLine.word_before,
    "\x1b\x7f": EditedLine.word_before,
    "\x1b\x08": EditedLine.word_before,
    "\x1bd": EditedLine.word_after,
    "\x1bb": EditedLine.word_left,
    "\x1bf": EditedLine.word_right,
    "\x1b\r": EditedLine.new_line,
    "\x1b\n": EditedLine.new_line,
    "\x1b[3~": EditedLine.delete,
    "\x1b[1~": EditedLine.home,
    "\x1b[7~": EditedLine.home,
    "\x1b[4~": EditedLine.end,
    "\x1b[8~": EditedLine.end,
    "\x1b[1;5D": EditedLine.word_left,
    "\x1b[1;5C": EditedLine.word_right,
    "\x1b[1;3D": EditedLine.word_left,
    "\x1b[1;3C": EditedLine.word_right,
    **{f"\x1b{mode}{letter}": action for mode in "[O" for letter, action in _LETTERS.items()},
}
