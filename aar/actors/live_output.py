"""What a running tool says, from its task or thread to the readers of the session."""

from __future__ import annotations

import trio

from aar.actors.outbox import Outbox
from aar.actors.workbench import Progress
from aar.messages.events import ToolOutput

__all__ = ["LiveOutput"]

SHOW_EVERY = 0.03  # seconds between two pieces of live output


class LiveOutput:
    """What a running tool says, on its way to the readers. Bounded: the result holds what matters."""

    def __init__(self, call_id: str, outbox: Outbox, progress: Progress, limit: int) -> None:
        self._call_id = call_id
        self._outbox = outbox
        self._progress = progress
        self._left = limit
        self._waiting: list[str] = []
        self._is_showing = False
        self._scope: trio.CancelScope | None = None

    def __enter__(self) -> LiveOutput:
        return self

    def __exit__(self, *_: object) -> None:
        """The result comes next and says it all; an abandoned thread may go on talking to nobody."""
        self._left = 0
        if self._scope is not None:
            self._scope.cancel()

    def report(self, text: str) -> None:
        """From the tool's task or from its worker thread; never waits for a reader."""
        if trio.lowlevel.in_trio_task():
            self._take(text)
        else:
            trio.from_thread.run_sync(self._take, text)

    def _take(self, text: str) -> None:
        text = text[: self._left]
        if not text:
            return
        self._left -= len(text)
        said = self._progress.said
        said[self._call_id] = said.get(self._call_id, "") + text
        self._waiting.append(text)
        if not self._is_showing:
            self._is_showing = True
            self._scope = trio.CancelScope()
            self._outbox.tasks.start_soon(self._show, self._scope)

    async def _show(self, scope: trio.CancelScope) -> None:
        with scope:
            while self._waiting:
                text, self._waiting = "".join(self._waiting), []
                await self._outbox.put(ToolOutput(tool_call_id=self._call_id, text=text))
                await trio.sleep(SHOW_EVERY)
            self._is_showing = False
