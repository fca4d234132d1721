"""The panel with what the model thinks, step by step. It stays for the session."""

from __future__ import annotations

from typing import Any

import urwid

from aar.messages.events import AssistantMessage, ProviderMeta, ReasoningBlock, Recorded, StepRestarted, StreamChunk
from aar.transports.fullscreen.blocks import Growing, Lines
from aar.transports.fullscreen.viewport import Viewport

__all__ = ["Thinking"]

LIMIT = 500
"""Steps whose thoughts are kept."""


class Thinking(urwid.WidgetWrap[urwid.Widget]):
    """A box widget; it scrolls by itself."""

    def __init__(self) -> None:
        self._view = Viewport()
        self._steps = 0  # that the model has answered
        self._was_counted = False  # the one that runs among them
        self._open: Growing | None = None
        self._heard = 0  # characters of this step as they came: what is shown has others
        super().__init__(urwid.AttrMap(self._view, "thinking"))

    def notice(self, record: Recorded) -> None:
        match record.event:
            case StreamChunk(reasoning_text=text) if text:
                self._think(text)
            case StepRestarted():
                self._forget_step()
            case ReasoningBlock(content=whole):
                self._think(whole[self._heard :])
            case ProviderMeta():
                self._steps += 1
                self._was_counted = True
            case AssistantMessage():
                self._open, self._heard, self._was_counted = None, 0, False

    def clear(self) -> None:
        self._view.clear()
        self._steps, self._heard, self._open, self._was_counted = 0, 0, None, False

    def texts(self) -> list[str]:
        return [text for text in self._view.texts() if text]

    def _think(self, text: str) -> None:
        self._heard += len(text)
        if not text.strip() and self._open is None:
            return
        if self._open is None:
            step = self._steps + (not self._was_counted)
            self._open = Growing("thinking")
            self._view.blocks += [Lines(f"── thinking (step {step}) ──", "thinking.title", gap=0), self._open]
            if len(self._view.blocks) > 2 * LIMIT:
                self._view.drop_first(2)
        self._open.feed(text)
        self._view.changed()

    def _forget_step(self) -> None:
        self._heard = 0
        if self._open is not None:
            self._open = None
            del self._view.blocks[-2:]
            self._view.changed()

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        return self._view.mouse_event(size, event, button, col, row, focus)
