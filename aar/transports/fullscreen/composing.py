"""What is being typed, and what was typed before: in this session, and in others, of which there is a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aar.transports.fullscreen.history import History
from aar.transports.fullscreen.input import Input
from aar.transports.fullscreen.stage import Stage
from aar.transports.terminal.history_file import HistoryFile

__all__ = ["Composing"]


class Composing:
    """Goes through the history in the place of the input. Without `file` it knows of this session alone."""

    def __init__(self, stage: Stage, field: Input, file: HistoryFile | None) -> None:
        self._stage = stage
        self._field = field
        self._file = file
        self._history = History()

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {
            "newline": lambda: self._field.insert("\n"),
            "history_previous": lambda: self._recall(self._history.previous(self._field.text)),
            "history_next": lambda: self._recall(self._history.next()),
        }

    async def look_further_back(self) -> None:
        """Bring in what was typed in other sessions."""
        if self._file is not None:
            self._history.add_older(await self._file.read())

    def remember(self, text: str) -> None:
        """This was said in the session."""
        self._history.add(text)

    def take(self) -> str:
        """What was typed, without blanks around it; it is remembered, and the input is empty."""
        typed = self._field.take()
        text = typed.strip()
        if text:
            self._history.add(text)
            if self._file is not None:
                self._stage.start(self._file.add, typed.rstrip())
        return text

    def clear(self) -> bool:
        """Throw away what is in the input. Whether there was anything; the history has it."""
        thrown_away = self._field.take()
        self._history.add(thrown_away.strip())
        return bool(thrown_away)

    def _recall(self, text: str | None) -> None:
        if text is not None:
            self._field.set_text(text)
