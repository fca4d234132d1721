"""The keys of the full-screen interface: one table, from which the footer is written, too."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BINDINGS", "Binding", "bound", "hints"]


class Binding(NamedTuple):
    """`key` as urwid names it; `label` stands in the footer unless it is empty.

    One that works `everywhere` comes before whatever is open; the others wait until a modal or a question is done.
    """

    key: str
    label: str
    action: str
    everywhere: bool = False


BINDINGS = (
    Binding("ctrl s", "Ctrl+S send", "send"),
    Binding("ctrl x", "Ctrl+X cancel", "cancel", everywhere=True),
    Binding("ctrl g", "Ctrl+G logs", "logs", everywhere=True),
    Binding("ctrl k", "Ctrl+K think", "think", everywhere=True),
    Binding("ctrl t", "Ctrl+T theme", "theme"),
    Binding("ctrl l", "Ctrl+L clear", "clear"),
    Binding("ctrl q", "Ctrl+Q exit", "quit", everywhere=True),
    Binding("ctrl up", "", "history_previous"),
    Binding("ctrl down", "", "history_next"),
    Binding("page up", "", "page_up"),
    Binding("page down", "", "page_down"),
    Binding("ctrl y", "", "copy"),
    Binding("ctrl o", "", "pager"),
)

_BY_KEY = {binding.key: binding for binding in BINDINGS}


def bound(key: str) -> Binding | None:
    """What this key stands for."""
    return _BY_KEY.get(key)


def hints() -> str:
    """The keys for the footer."""
    return "  ".join(binding.label for binding in BINDINGS if binding.label)
