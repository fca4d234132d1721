"""Where people type: a few lines with numbers, a cursor, and pastes that are one text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import urwid

from aar.display import plain

__all__ = ["LONG_PASTE", "Input"]

LONG_PASTE = 5_000
"""Characters of a paste from which on a mark stands for it: what is edited is laid out as a whole with every key."""

NUMBERS = 4  # columns
PLACEHOLDER = "Type a message. Ctrl+S sends it, Enter begins a new line."


class Input(urwid.Widget):
    """A box widget. `asked_for_file` takes an `@` at the beginning of a word; it inserts what it stands for.

    `hint` stands there as long as nothing else does.
    """

    _sizing = frozenset([urwid.BOX])
    _selectable = True

    def __init__(
        self, pastes: deque[str], asked_for_file: Callable[[], None] | None = None, hint: str = PLACEHOLDER
    ) -> None:
        super().__init__()
        self._hint = hint
        self._edit = _Edit(multiline=True)
        self._pastes = pastes
        self._asked_for_file = asked_for_file
        self._long: dict[str, str] = {}  # marks, and the pastes they stand for
        self._first = 0  # the line at the top
        self._width = 80

    # --- its text ---

    @property
    def text(self) -> str:
        """As it stands there, with marks."""
        return str(self._edit.edit_text)

    def set_text(self, text: str) -> None:
        self._edit.set_edit_text(text)
        self._edit.set_edit_pos(len(text))
        self._invalidate()

    def take(self) -> str:
        """The whole text, with what was pasted; it is empty afterwards."""
        text = self.text
        for mark, pasted in self._long.items():
            text = text.replace(mark, pasted)
        self._long.clear()
        self.set_text("")
        return text

    def insert(self, text: str) -> None:
        self._edit.insert_text(text)
        self._invalidate()

    def paste(self, text: str) -> None:
        """Insert what somebody pasted, without escape sequences; a mark for what is long."""
        clean = plain(text)
        if len(clean) <= LONG_PASTE:
            self.insert(clean)
            return
        lines = clean.count("\n") + 1
        mark = f"[Pasted {len(self._long) + 1}: {len(clean)} characters, {lines} lines]"
        self._long[mark] = clean
        self.insert(mark)

    # --- keys and drawing ---

    def keypress(self, size: Any, key: str) -> str | None:
        self._width = self._inner(size[0])
        if key == "begin paste":
            return None
        if key == "end paste":
            self.paste(self._pastes.popleft() if self._pastes else "")
            return None
        if key == "@" and self._asked_for_file is not None and self._begins_word():
            self._asked_for_file()
            return None
        unused: str | None = self._edit.keypress((self._width,), key)
        self._invalidate()
        return unused

    def _begins_word(self) -> bool:
        return not self.text[: self._edit.edit_pos][-1:].strip()

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        """A click puts the cursor there."""
        self._width = self._inner(size[0])
        if event != "mouse press" or button != 1 or col < NUMBERS:
            return False
        taken = self._edit.mouse_event((self._width,), event, button, col - NUMBERS, row + self._first, focus)
        self._invalidate()
        return taken

    def get_cursor_coords(self, size: Any) -> tuple[int, int] | None:
        found = self._edit.get_cursor_coords((self._inner(size[0]),))
        return None if found is None else (found[0] + NUMBERS, found[1] - self._first)

    def render(self, size: Any, focus: bool = False) -> urwid.Canvas:
        columns, rows = size
        if columns <= NUMBERS + 1 or rows < 1:
            return urwid.SolidCanvas(" ", columns, rows)
        inner = self._inner(columns)
        text = urwid.CompositeCanvas(self._drawn(inner, focus))
        cursor = self._edit.get_cursor_coords((inner,))
        self._scroll_to(cursor[1] if cursor else 0, rows, text.rows())
        shown = min(rows, text.rows() - self._first)
        text.trim(self._first, shown)
        numbers = urwid.CompositeCanvas(self._numbers(inner, shown))
        joined = urwid.CompositeCanvas(
            urwid.CanvasJoin([(numbers, None, False, NUMBERS), (text, None, True, columns - NUMBERS)])
        )
        joined.pad_trim_top_bottom(0, rows - shown)
        joined.fill_attr("input")
        return joined

    def _drawn(self, inner: int, focus: bool) -> urwid.Canvas:
        if self.text:
            return self._edit.render((inner,), focus=focus)
        hint = urwid.CompositeCanvas(urwid.Text(("input.placeholder", self._hint), wrap="clip").render((inner,)))
        hint.cursor = (0, 0) if focus else None
        return hint

    def _inner(self, columns: int) -> int:
        return max(1, columns - NUMBERS)

    def _scroll_to(self, row: int, rows: int, total: int) -> None:
        self._first = min(self._first, row, max(0, total - rows))
        self._first = max(self._first, row - rows + 1)

    def _numbers(self, inner: int, shown: int) -> urwid.Canvas:
        """A number before each line that somebody has begun; none before what is only folded."""
        lines: list[str] = []
        number, text = 0, self.text
        for segments in self._edit.get_line_translation(inner):
            at = next((segment[1] for segment in segments if segment[1] is not None), 0)
            begins = at == 0 or text[at - 1 : at] == "\n"
            number += begins
            lines.append(f"{number:>{NUMBERS - 1}}" if begins else "")
        shown_lines = lines[self._first : self._first + shown]
        return urwid.Text(("input.number", "\n".join(shown_lines)), wrap="clip").render((NUMBERS,))


class _Edit(urwid.Edit):
    """Tabs are kept, and shown as a sign that is one column wide."""

    def get_text(self) -> tuple[Any, list[tuple[Any, int]]]:
        text, attributes = super().get_text()
        return text.replace("\t", "⇥"), attributes  # type: ignore[arg-type]  # text in, text out
