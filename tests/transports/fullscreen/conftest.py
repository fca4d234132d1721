"""A stage for one part of the full-screen interface: it notes what the part asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import urwid

from aar.client import SessionHandle
from aar.messages.settings import AgentConfig
from aar.messages.themes import Theme


class Scene:
    """What `Stage` promises, over a session that a test has opened, or none."""

    def __init__(self) -> None:
        self.handle: SessionHandle = None  # type: ignore[assignment]
        self.config = AgentConfig()
        self.theme = Theme(name="test")
        self.nursery: trio.Nursery | None = None
        self.modal: urwid.Widget | None = None
        self.bar: Any = None
        self.companion: Any = ""
        self.selected = ""
        self.told: list[str] = []
        self.inserted: list[str] = []
        self.codes: list[str] = []
        self.redraws = 0

    def redraw(self) -> None:
        self.redraws += 1

    def start(self, work: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        assert self.nursery is not None
        self.nursery.start_soon(work, *arguments)

    def tell(self, text: str, style: str = "dim") -> None:
        self.told.append(text)

    def insert(self, text: str) -> None:
        self.inserted.append(text)

    def open_modal(self, widget: urwid.Widget, *, width: int = 80, height: int = 70) -> None:
        self.modal = widget

    def close_modal(self) -> None:
        self.modal = None

    def show_bar(self, widget: urwid.Widget | None) -> None:
        self.bar = widget

    def show_companion(self, markup: Any) -> None:
        self.companion = markup

    def selected_text(self) -> str:
        return self.selected

    def send_codes(self, codes: str) -> None:
        self.codes.append(codes)


@pytest.fixture
def scene(nursery: trio.Nursery) -> Scene:
    scene = Scene()
    scene.nursery = nursery
    return scene
