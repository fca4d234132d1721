"""An extension that reads along: its own service, at its own pace, which nothing waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from aar.journal.journal import Journal
from aar.messages.events import AssistantMessage, ErrorEvent, Recorded, SessionEvent, StreamChunk

__all__ = ["OBSERVED", "observe"]

OBSERVED = ("session_start", "session_end", "assistant_message", "stream_chunk", "error")
LAST_WORDS = 2.0  # seconds for what is left when everything is told to end

_OPENINGS = ("started", "resumed", "forked")
_EVENTS = {AssistantMessage: "assistant_message", StreamChunk: "stream_chunk", ErrorEvent: "error"}

Tell = Callable[[str, Any], Awaitable[None]]


async def observe(journal: Journal, events: frozenset[str], tell: Tell) -> None:
    """Tell what happens from the newest opening of the session on, until its journal is closed.

    Slow readers get fragments of text merged, and every fact. When this is cancelled, it goes on for a moment with what
    is left; in any case the last thing told is the end of the session.
    """
    reading = trio.CancelScope(shield=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read, journal, events, tell, reading, nursery.cancel_scope)
        try:
            await trio.sleep_forever()
        finally:
            reading.deadline = trio.current_time() + LAST_WORDS


async def _read(
    journal: Journal, events: frozenset[str], tell: Tell, reading: trio.CancelScope, all_done: trio.CancelScope
) -> None:
    with reading:
        opening = _opening(journal)
        with journal.follow(after=opening.seq) as records:
            if "session_start" in events:
                await tell("session_start", opening.event)
            async for record in records:
                event = _EVENTS.get(type(record.event))
                if event in events and record.turn_id:  # what belongs to no turn was copied from elsewhere
                    await tell(event, record.event)
    with trio.move_on_after(LAST_WORDS, shield=True):
        if "session_end" in events:
            await tell("session_end", SessionEvent(action="ended", data={"session_id": journal.session.session_id}))
    all_done.cancel()


def _opening(journal: Journal) -> Recorded:
    for record in reversed(journal.records):
        if isinstance(record.event, SessionEvent) and record.event.action in _OPENINGS:
            return record
    return Recorded(journal.seq, "", SessionEvent(action="started"))
