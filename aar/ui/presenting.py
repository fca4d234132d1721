"""An interface as six functions, one for each tag: none can be forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Protocol, assert_never

from aar.ui.events import Tag, UiEvent

__all__ = ["Interface", "present"]


class Interface(Protocol):
    """What shows a session to somebody."""

    async def on_message(self, event: UiEvent) -> None: ...
    async def on_status(self, event: UiEvent) -> None: ...
    async def on_tool(self, event: UiEvent) -> None: ...
    async def on_dialog(self, event: UiEvent) -> None: ...
    async def on_session(self, event: UiEvent) -> None: ...
    async def on_control(self, event: UiEvent) -> None: ...


async def present(events: AsyncIterable[UiEvent], interface: Interface) -> None:
    """Hand each event to where it belongs, until there are no more."""
    async for event in events:
        match event.tag:
            case Tag.MESSAGE:
                await interface.on_message(event)
            case Tag.STATUS:
                await interface.on_status(event)
            case Tag.TOOL:
                await interface.on_tool(event)
            case Tag.DIALOG:
                await interface.on_dialog(event)
            case Tag.SESSION:
                await interface.on_session(event)
            case Tag.CONTROL:
                await interface.on_control(event)
            case _:
                assert_never(event.tag)
