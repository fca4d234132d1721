"""The companion at the right of the header: it follows the session, moves, and minds the git folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from aar.companion.face import drawn
from aar.companion.git import count_dirty
from aar.companion.progress import Companion
from aar.display import one_line
from aar.messages.events import Recorded
from aar.transports.fullscreen.stage import Stage

__all__ = ["CompanionBadge"]


class CompanionBadge:
    """The part of the interface that draws it, as the theme says: `│ (^_^) [■■■■░░░░] lv.2 happy`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._frame = 0
        self._shown: str | None = None
        self.companion = self._restored()

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {}

    def notice(self, record: Recorded) -> None:
        """Facts and hints that are new: what was there before is known already."""
        if record.seq and record.seq <= self._known:
            return
        self.companion = self.companion.after(record.event)
        self._show()

    def reset(self) -> None:
        dirty = self.companion.dirty
        self.companion = self._restored().with_dirty(dirty)
        self._show()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._animate)
            nursery.start_soon(self._mind_git)

    def _restored(self) -> Companion:
        """With the progress of the session, at rest."""
        records = self._stage.handle.records()
        self._known = records[-1].seq if records else 0
        return Companion.resting((record.event for record in records), self._stage.handle.metadata)

    async def _animate(self) -> None:
        while True:
            self._show()
            await trio.sleep(self._stage.theme.fixed_layout.companion.animation_interval)
            self.companion = self.companion.ticked()
            self._frame += 1

    async def _mind_git(self) -> None:
        while True:
            settings = self._stage.theme.fixed_layout.companion
            if settings.enabled:
                dirty = await count_dirty(str(self._stage.handle.metadata.get("cwd", ".")))
                self.companion = self.companion.with_dirty(dirty)
            await trio.sleep(settings.git_poll_interval)

    def _show(self) -> None:
        settings = self._stage.theme.fixed_layout.companion
        text = (
            drawn(self.companion, settings.parts, name=one_line(settings.name), frame=self._frame)
            if settings.enabled
            else ""
        )
        if text != self._shown:
            self._shown = text
            self._stage.show_companion(f"│ {text}" if text else "")
            self._stage.redraw()
