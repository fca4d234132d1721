"""What the parts of the full-screen interface are, and what they may ask of the whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import urwid

from aar.handle import SessionHandle
from aar.messages.events import Recorded
from aar.messages.settings import AgentConfig
from aar.messages.themes import Theme

__all__ = ["Bar", "Part", "Stage"]


class Bar(urwid.WidgetWrap[urwid.Widget]):
    """A flow widget that makes do with the lines that there are."""

    def fit(self, columns: int, rows: int) -> int:
        """Take at most so many lines, where that is possible. Gives how many it takes."""
        raise NotImplementedError


class Stage(Protocol):
    """The interface as its parts see it. Nothing here waits; all of it is called from Trio's thread alone.

    `handle`, `config` and `theme` are those of now: Ctrl+L brings another session, Ctrl+T another theme.
    """

    @property
    def handle(self) -> SessionHandle: ...
    @property
    def config(self) -> AgentConfig: ...
    @property
    def theme(self) -> Theme: ...

    def redraw(self) -> None:
        """Something has changed that is to be seen. Cheap: frames are drawn at most twenty times a second."""

    def start(self, work: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run this beside the interface until it ends or is closed. An `AarError` is shown, others end the program."""

    def tell(self, text: str, style: str = "dim") -> None:
        """Lines in the chat area, which are not part of the session. Made harmless here."""

    def insert(self, text: str) -> None:
        """Put text where the cursor is in the input."""

    def open_modal(self, widget: urwid.Widget, *, width: int = 80, height: int = 70) -> None:
        """Show a box widget over everything, in per cent of the screen. It gets all keys; Esc that it leaves closes it.

        Another one that is open gives way.
        """

    def close_modal(self) -> None: ...
    @property
    def modal(self) -> urwid.Widget | None: ...

    def show_bar(self, widget: Bar | None) -> None:
        """Show a widget below the chat area, or none. It gets the keys first; those it returns go to the input."""

    def show_companion(self, markup: Any) -> None:
        """What stands at the right of the header; `""` for nothing."""

    def selected_text(self) -> str:
        """The whole text of the block that was clicked last, made harmless; empty when there is none."""

    def send_codes(self, codes: str) -> None:
        """Escape sequences for the terminal, beside what is drawn: for the clipboard."""


class Part(Protocol):
    """Something that stands beside the chat: it sees every record, and its actions are there for keys.

    `run` is cancelled at the end; it may return at once.
    """

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]: ...
    def notice(self, record: Recorded) -> None: ...
    def reset(self) -> None:
        """Another session takes the place of this one."""

    async def run(self) -> None: ...
