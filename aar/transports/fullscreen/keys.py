"""The keys of the full-screen interface: one table of what it does, and for each keymap the keys of that.

The settings `tui.keymap` and `tui.keys` say which hold. The footer is written from the same table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aar.display import one_line
from aar.messages.settings import TuiConfig
from aar.transports.fullscreen.key_names import key_of, label_of

__all__ = ["ACTIONS", "KEYMAPS", "Action", "Binding", "Keys"]


class Action(NamedTuple):
    """`word` stands in the footer behind its key. One that works `everywhere` comes before whatever is open."""

    word: str = ""
    everywhere: bool = False


class Binding(NamedTuple):
    """`key` as urwid names it. With `after_input` it is for the input, and an action where that has no use for it."""

    key: str
    action: str
    everywhere: bool = False
    after_input: bool = False


ACTIONS: Mapping[str, Action] = {
    "send": Action("send"),
    "newline": Action(),
    "cancel": Action("cancel", everywhere=True),
    "logs": Action("logs", everywhere=True),
    "think": Action("think", everywhere=True),
    "theme": Action("theme"),
    "clear": Action("clear"),
    "quit": Action("exit", everywhere=True),
    "history_previous": Action(),
    "history_next": Action(),
    "page_up": Action(),
    "page_down": Action(),
    "copy": Action(),
    "pager": Action(),
    "files": Action(),
    "next_agent": Action(),
    "next_mode": Action(),
}

_DEFAULT = {
    "send": "ctrl s",
    "newline": "enter",
    "cancel": "ctrl x",
    "logs": "ctrl g",
    "think": "ctrl k",
    "theme": "ctrl t",
    "clear": "ctrl l",
    "quit": "ctrl q",
    "history_previous": "ctrl up",
    "history_next": "ctrl down",
    "page_up": "page up",
    "page_down": "page down",
    "copy": "ctrl y",
    "pager": "ctrl o",
}
_ENTER = {
    **_DEFAULT,
    "send": "enter",
    "newline": "meta enter",
    "cancel": "esc",
    "think": "ctrl t",
    "theme": "ctrl k",
    "history_previous": "up",
    "history_next": "down",
    "next_agent": "shift tab",
    "next_mode": "tab",
}
KEYMAPS: Mapping[str, Mapping[str, str]] = {"default": _DEFAULT, "enter": _ENTER}
"""What is to be done, and its key as urwid names it."""

_INTERRUPTS = {"enter": ("copy", "clear", "cancel")}
_MOVES = ("up", "down", "left", "right", "home", "end")  # in the input, as long as it has where to


class Keys:
    """The keys that hold. `problems` are sentences about those of the settings that do not.

    `interrupts` is what Ctrl+C does: the first of these that there is something to do for.
    """

    def __init__(self, tui: TuiConfig | None = None) -> None:
        tui = tui or TuiConfig()
        self.problems: list[str] = []
        self.interrupts = _INTERRUPTS.get(tui.keymap, ("cancel",))
        self._keys = self._merged(KEYMAPS[tui.keymap], dict(self._wanted(tui.keys)))
        self._by_key = {key: _binding(key, action) for action, key in self._keys.items() if key}

    def _wanted(self, setting: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Of the settings those that can be done; an empty key is none."""
        for action, name in setting.items():
            if action.startswith("_"):
                continue
            key, problem = key_of(name) if name.strip() else ("", "")
            if action not in ACTIONS:
                self.problems.append(f"tui.keys: {_unknown(action)}")
            elif problem:
                self.problems.append(f"tui.keys.{action}: {problem}")
            else:
                yield action, key

    def _merged(self, usual: Mapping[str, str], wanted: dict[str, str]) -> dict[str, str]:
        """A key that was asked for is taken from what it usually does; asked for twice it goes to the first."""
        users: dict[str, str] = {}
        for action, key in list(wanted.items()):
            if key and key in users:
                self.problems.append(
                    f"tui.keys: {label_of(key)} is to be two things. It is {users[key]}, not {action}."
                )
                del wanted[action]
            else:
                users[key] = action
        keys = {**usual, **wanted}
        for action, key in usual.items():
            other = users.get(key, action)
            if action not in wanted and other != action:
                keys[action] = ""
                self.problems.append(
                    f'tui.keys: {label_of(key)} is {other} now, and {action} has no key. Give it one there, or "".'
                )
        return keys

    @property
    def bindings(self) -> tuple[Binding, ...]:
        return tuple(self._by_key.values())

    def bound(self, key: str) -> Binding | None:
        """What this key stands for."""
        return self._by_key.get(key)

    def label(self, action: str) -> str:
        """The key of an action for people; empty where it has none."""
        key = self._keys.get(action, "")
        return label_of(key) if key else ""

    def how_to(self, *sentences: str) -> list[str]:
        """Those sentences whose keys there are, as `{send} sends`, with the key in its place."""
        labels = {action: self.label(action) for action in ACTIONS}
        return [
            told.format(**labels) for told in sentences if all(labels[name] for name in re.findall(r"{(\w+)}", told))
        ]

    def hint(self) -> str:
        """What stands in the input as long as nothing else does."""
        told = ", ".join(self.how_to("{send} sends it", "{newline} begins a new line"))
        return f"Type a message. {told}." if told else "Type a message."

    def hints(self) -> str:
        """The keys for the footer."""
        return "  ".join(
            f"{self.label(name)} {one.word}" for name, one in ACTIONS.items() if one.word and self.label(name)
        )


def _binding(key: str, action: str) -> Binding:
    """Keys that everything has a use for come after what is open, whatever they stand for."""
    everywhere = ACTIONS[action].everywhere and key.startswith(("ctrl ", "meta ", "shift ", "f"))
    return Binding(key, action, everywhere, after_input=key in _MOVES or (key, action) == ("enter", "newline"))


def _unknown(action: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(action.lower().replace("-", "_"), ACTIONS, 1)
    told = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(ACTIONS)}."
    return f"{one_line(action)} is nothing that a key could do. {told}"
