"""Copying the block that was clicked to the clipboard of the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from aar.messages.events import Recorded
from aar.transports.fullscreen.stage import Stage
from aar.transports.terminal.clipboard import copied

__all__ = ["Copying"]


class Copying:
    """The part of the interface that copies the block that was clicked."""

    def __init__(self, stage: Stage, environ: Mapping[str, str] = os.environ) -> None:
        self._stage = stage
        self._environ = environ

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {"copy": self.copy}

    def copy(self) -> None:
        copy = copied(self._stage.selected_text(), self._environ)
        if copy.codes:
            self._stage.send_codes(copy.codes)
        self._stage.tell(copy.message)

    def notice(self, record: Recorded) -> None:
        """What a session does changes nothing here."""

    def reset(self) -> None:
        """What is selected is the chat's affair."""

    async def run(self) -> None:
        """Nothing."""
