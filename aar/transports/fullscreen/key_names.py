"""Names of keys: as people write them (`Ctrl+S`, `alt-enter`, `PageUp`), and as urwid does (`ctrl s`, `meta enter`)."""

from __future__ import annotations

import re
from string import ascii_lowercase

from aar.display import one_line

__all__ = ["key_of", "label_of"]

_OTHER_NAMES = {
    "control": "ctrl",
    "alt": "meta",
    "option": "meta",
    "return": "enter",
    "escape": "esc",
    "del": "delete",
    "ins": "insert",
    "pageup": "page up",
    "pgup": "page up",
    "pagedown": "page down",
    "pgdn": "page down",
}
_MODIFIERS = ("shift", "meta", "ctrl")  # in the order in which urwid names them
_LABELS = {"meta": "Alt", "esc": "Esc", "page up": "PageUp", "page down": "PageDown"}
_FURTHER = ("up", "down", "left", "right", "home", "end", "insert", "delete", "page up", "page down")
_FUNCTIONS = tuple(f"f{number}" for number in range(1, 13))
_SAME = {"i": "Tab", "m": "Enter", "j": "Enter", "h": "Backspace"}  # as Ctrl and this letter


def key_of(name: str) -> tuple[str, str]:
    """The name that urwid has for it, or an empty one and why it cannot be used."""
    words = re.sub(r"[+\s-]+", " ", name.strip().lower()).replace("page up", "pageup").replace("page down", "pagedown")
    parts = [_OTHER_NAMES.get(word, word) for word in words.split()]
    *before, base = parts or [""]
    modifiers = {part for part in before if part in _MODIFIERS}
    if len(modifiers) != len(before) or not _is_base(base):
        return "", _no_key(name)
    if problem := _refused(modifiers, base):
        return "", f"{one_line(name)} cannot be used: {problem}"
    return " ".join([*(one for one in _MODIFIERS if one in modifiers), base]), ""


def _is_base(base: str) -> bool:
    return base in (*_FURTHER, *_FUNCTIONS, "enter", "esc", "tab") or (len(base) == 1 and base.isprintable())


def _refused(modifiers: set[str], base: str) -> str:
    """Why not, or nothing. Most of it is what terminals cannot tell apart."""
    if base in (*_FURTHER, *_FUNCTIONS):
        return ""
    if len(base) > 1:
        known = {"enter": (set(), {"meta"}), "tab": (set(), {"shift"}), "esc": (set(),)}[base]
        return "" if modifiers in known else "terminals do not tell it from the key alone."
    if not modifiers:
        return "it is needed for typing. Add Ctrl or Alt."
    if "shift" in modifiers:
        return "terminals do not tell Shift with a letter from the letter."
    if "ctrl" not in modifiers:
        return ""
    if base not in ascii_lowercase:
        return "Ctrl goes with letters."
    if base in _SAME:
        return f"terminals send the same for {_SAME[base]}."
    return "the terminal makes a signal of it." if base in "cz" else ""


def _no_key(name: str) -> str:
    from difflib import get_close_matches

    known = [*_FURTHER, *_FUNCTIONS, "enter", "esc", "tab", "meta enter", "shift tab", "ctrl up", "ctrl down"]
    known += [f"{modifier} {letter}" for modifier in ("ctrl", "meta") for letter in ascii_lowercase]
    labels = {label_of(key).lower(): label_of(key) for key in known}
    close = get_close_matches(re.sub(r"[+\s-]+", "+", name.strip().lower()), labels, 1, cutoff=0.5)
    told = f"Did you mean {labels[close[0]]}?" if close else "Keys are written as Ctrl+S, Alt+Enter, F5, PageUp, Esc."
    return f"there is no key {one_line(name)}. {told}"


def label_of(key: str) -> str:
    """`Ctrl+S` for `ctrl s`."""
    *modifiers, base = key.replace("page ", "page_").split()
    base = base.replace("_", " ")
    return "+".join(_LABELS.get(part, part.capitalize()) for part in (*modifiers, base))
