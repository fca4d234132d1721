"""Picking a file by typing a part of its name: the files below the working folder, found in a thread."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import trio
import urwid

from aar.attachments import file_tokens
from aar.directives import find_directives
from aar.display import visible
from aar.errors import InvalidMessage
from aar.messages.events import Recorded
from aar.transports.fullscreen.stage import Stage

__all__ = ["MOST_FILES", "SHOWN", "FilePicker", "FoundFiles", "Picking", "find_files", "word_for"]

MOST_FILES = 500  # that are collected
SHOWN = 80  # of those that match
MOST_ENTRIES = 50_000  # that are looked at
SKIPPED = frozenset({"venv", "__pycache__", "node_modules", "dist"})  # and all that begin with a dot
WIDTH, HEIGHT = 80, 70  # per cent of the screen

_DIRECTIVE = re.compile(r"(Image|File|Path)\[")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tiff", ".pdf")


class FoundFiles(NamedTuple):
    """`names` are relative and sorted. `is_cut`: there are more."""

    names: tuple[str, ...] = ()
    is_cut: bool = False


def find_files(cwd: str, *, most: int = MOST_FILES, entries: int = MOST_ENTRIES) -> FoundFiles:
    """Files below `cwd`, those that are nearest to it first, until there are enough. Blocking.

    Links to folders are not followed, and what cannot be read is passed over.
    """
    found: list[str] = []
    folders = deque([""])
    while folders:
        prefix = folders.popleft()
        for name, is_folder in _entries(os.path.join(cwd, prefix), entries):
            entries -= 1
            if is_folder:
                folders.append(f"{prefix}{name}/")
            elif len(found) < most:
                found.append(prefix + name)
            else:
                return FoundFiles(tuple(sorted(found)), is_cut=True)
        if entries <= 0:
            break
    return FoundFiles(tuple(sorted(found)), is_cut=bool(folders))


def _entries(folder: str, most: int) -> list[tuple[str, bool]]:
    """Names that can be typed, sorted, and whether each is a folder to look into."""
    known: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as there:
            for entry, _ in zip(there, range(most), strict=False):
                if entry.name != visible(entry.name) or not entry.name.isprintable():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if not (entry.name.startswith(".") or entry.name in SKIPPED):
                        known.append((entry.name, True))
                elif entry.is_file():
                    known.append((entry.name, False))
    except OSError:
        pass  # what was listed until then
    return sorted(known)


def word_for(name: str, kind: str = "") -> str:
    """What is typed for this file and for nothing else: `@name`, or `@File[my notes]`. Empty when nothing is.

    With a `kind` it is a directive of that kind: empty for `Image` and what is no picture. A file may be called
    `Bash[...].txt`, and must not become a command by being picked.
    """
    is_picture = name.lower().endswith(_PICTURES)
    if kind == "Image" and not is_picture:
        return ""
    name = f"./{name}" if name.startswith("~") else name
    if not kind and "[" not in name and file_tokens(f"@{name}") == [name]:
        return f"@{name}"
    word = f"@{kind or ('Image' if is_picture else 'File')}[{name}]"
    try:
        arguments = [one.argument for one in find_directives(word)]
    except InvalidMessage:
        return ""
    return word if arguments == [name] and "$" not in name else ""


class FilePicker(urwid.WidgetWrap[urwid.Widget]):
    """A box with a filter and a list. `pick` gets the word for what was picked, or `leave` what was typed until Esc.

    The filter may begin a directive: after `Image[` only pictures are listed, and what is picked is one.
    """

    def __init__(self, pick: Callable[[str], None], leave: Callable[[str], None]) -> None:
        self._pick = pick
        self._leave = leave
        self._files = FoundFiles()
        self.shown: Sequence[str] = ()
        self._filter = urwid.Edit(("modal.title", "File: "), wrap="clip")
        self._note = urwid.Text(("dim", "Looking for files ..."), wrap="clip")
        self._walker = urwid.SimpleListWalker[Any]([])
        self._list = urwid.ListBox(self._walker)
        self._frame = urwid.Frame(self._list, header=self._filter, footer=self._note, focus_part="header")
        super().__init__(self._frame)

    def show(self, files: FoundFiles) -> None:
        """Here they are."""
        self._files = files
        self._refresh()

    def _refresh(self) -> None:
        kind, wanted = self._asked
        matching = [name for name in self._files.names if wanted in name.casefold() and word_for(name, kind)]
        self.shown = matching[:SHOWN]
        self._walker[:] = [urwid.AttrMap(_Row(name, self._pick_name), "path", "selected") for name in self.shown]
        if self.shown:
            self._walker.set_focus(0)
        self._note.set_text(("dim", self._said(len(matching))))

    @property
    def _asked(self) -> tuple[str, str]:
        """The kind of a directive, or none, and what names have in them."""
        begun = _DIRECTIVE.match(self._filter.edit_text)
        return (begun[1] if begun else "", self._filter.edit_text[begun.end() if begun else 0 :].casefold())

    def _pick_name(self, name: str) -> None:
        self._pick(word_for(name, self._asked[0]))

    def _said(self, matching: int) -> str:
        if not self._files.names:
            return "No files here.    Esc closes"
        more = "" if matching <= SHOWN else f", the first {SHOWN} are shown"
        cut = f" (of the first {len(self._files.names)} files)" if self._files.is_cut else ""
        return f"{matching} file{'s' if matching != 1 else ''}{more}{cut}    Down, Enter picks, Esc closes"

    # --- keys and the mouse ---

    def selectable(self) -> bool:
        return True

    def keypress(self, size: Any, key: str) -> str | None:
        is_in_list = self._frame.focus_position == "body"
        if key == "esc":
            self._leave(self._filter.edit_text)
            return None
        if key == "enter":
            self._picked(self._walker.focus if is_in_list else 0)
            return None
        if key == "down" and not is_in_list:
            if self.shown:
                self._frame.focus_position = "body"
            return None
        if key == "up" and is_in_list and self._walker.focus == 0:
            self._frame.focus_position = "header"
            return None
        unused = self._frame.keypress(size, key)
        if unused is not None and is_in_list and (len(key) == 1 or key == "backspace"):
            self._frame.focus_position = "header"  # who types on changes the filter
            unused = self._frame.keypress(size, key)
        if not is_in_list or self._frame.focus_position == "header":
            self._refresh()
            typed = self._filter.edit_text
            if typed == "Bash[" or (key == " " and not self.shown):  # no file is meant
                self._leave(typed)
        return unused

    def _picked(self, place: int) -> None:
        if place < len(self.shown):
            self._pick_name(self.shown[place])

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        if event == "mouse press" and button in (4, 5) and self.shown:
            self._frame.focus_position = "body"
            self._list.keypress((size[0], max(1, size[1] - 2)), "up" if button == 4 else "down")
            return True
        return self._frame.mouse_event(size, event, button, col, row, focus)


class _Row(urwid.Text):
    """A name that can be chosen, also by a click."""

    _selectable = True

    def __init__(self, name: str, pick: Callable[[str], None]) -> None:
        super().__init__(name, wrap="ellipsis")
        self._name = name
        self._pick = pick

    def keypress(self, size: Any, key: str) -> str | None:
        return key

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        if event == "mouse press" and button == 1:
            self._pick(self._name)
        return True


class Picking:
    """The part of the interface that opens the picker and puts what names the file into the input."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._limiter = trio.CapacityLimiter(2)  # looks that nobody wants any more keep their place until they end

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {"files": self.open}

    def open(self) -> None:
        picker = FilePicker(self._picked, self._left)
        self._stage.open_modal(picker, width=WIDTH, height=HEIGHT)
        self._stage.start(self._look, picker)

    def _picked(self, word: str) -> None:
        self._stage.close_modal()
        self._stage.insert(f"{word} ")

    def _left(self, typed: str) -> None:
        """Then it is no file that was meant: what was typed stands where it would have stood."""
        self._stage.close_modal()
        self._stage.insert(f"@{typed}")

    async def _look(self, picker: FilePicker) -> None:
        cwd = str(self._stage.handle.metadata.get("cwd", "."))
        picker.show(await trio.to_thread.run_sync(_look_in, cwd, abandon_on_cancel=True, limiter=self._limiter))
        self._stage.redraw()

    def notice(self, record: Recorded) -> None:
        """What a session does changes no list that is open."""

    def reset(self) -> None:
        """The next list is that of the next session."""

    async def run(self) -> None:
        """Nothing."""


def _look_in(cwd: str) -> FoundFiles:
    found = find_files(cwd)
    return found._replace(names=tuple(name for name in found.names if word_for(name)))
