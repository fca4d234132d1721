"""A copy of a journal that another process writes: readers follow it as they follow any other."""

from __future__ import annotations

from collections.abc import Sequence

from aar.errors import SessionInUse
from aar.journal.journal import Journal
from aar.journal.state import Session
from aar.journal.store import Header
from aar.messages.events import Event, Recorded

__all__ = ["Replica"]


class Replica(Journal):
    """What the owner has told so far. It can be read, and nobody writes to it but the connection."""

    def __init__(self, header: Header, after: int = 0) -> None:
        fold = Session(
            header.session_id, run_id=header.run_id, trace_id=header.trace_id, metadata=dict(header.metadata)
        )
        fold.seq = after
        super().__init__(None, fold)  # type: ignore[arg-type]  # there is no file behind it

    async def append(
        self, *events: Event, turn_id: str | None = None, sync: bool = False, header: bool = False
    ) -> list[Recorded]:
        raise SessionInUse("only the owner of a session writes its journal")

    async def receive(self, records: Sequence[Recorded]) -> None:
        """Facts in order, and hints, whose `seq` is 0. Waits for readers that asked for a pace: the connection waits
        then, and the owner's turn does not."""
        for record in records:
            await self.room()
            if record.seq:
                self.fold([record])
            else:
                self.hint(record.event)
