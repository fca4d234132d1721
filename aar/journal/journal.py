"""The journal of one session: facts in order, live hints beside them, and readers that are never called back.

Only the session writes. A fact is stored first, then folded, then seen; the store and the memory cannot disagree.
A reader goes at its own pace: one that is slow gets the hints it missed merged into one, and every fact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple

import trio

from aar.errors import InvalidMessage, SessionClosed, StoreUnavailable
from aar.journal.state import Session, state_after
from aar.journal.store import Header, Kept, SessionLog
from aar.messages.events import (
    HINTS,
    AssistantMessage,
    Event,
    Recorded,
    StepRestarted,
    StreamChunk,
    ToolOutput,
    ToolResult,
    TurnEnded,
)

__all__ = ["Follower", "Journal", "JournalStatistics", "Journals", "merge_hints"]

WRITE_TIMEOUT = 30.0  # seconds a store may take for one append before the turn is told that it is unavailable

_CLOSES_HINTS = (AssistantMessage, ToolResult, TurnEnded)  # the facts that contain what hints had shown


class JournalStatistics(NamedTuple):
    """`seq` is the newest fact; `hints` wait for readers; `furthest_behind` counts items of the slowest paced one."""

    seq: int
    facts: int
    hints: int
    readers: int
    furthest_behind: int


class Journal:
    """Made by the session's actor over an open `SessionLog`; `session` is the fold of all its facts."""

    def __init__(self, log: SessionLog, session: Session, records: Sequence[Recorded] = ()) -> None:
        self.session = session
        self.records: list[Recorded] = list(records)
        self._log = log
        self._held: list[tuple[str, Event]] = []  # facts with their turn that go with the next append
        self._hints: list[Event] = []
        self._hint_epoch = 0
        self._readers: set[Follower] = set()
        self._paced: set[Follower] = set()
        self._writing = trio.Lock()
        self._changed = trio.Event()
        self._room = trio.Event()
        self.is_closed = False
        self.closed = trio.Event()
        self.guests = 0  # other processes that use the session now

    @property
    def seq(self) -> int:
        return self.session.seq

    # --- writing, for the session alone ---

    async def append(
        self, *events: Event, turn_id: str | None = None, sync: bool = False, header: bool = False
    ) -> list[Recorded]:
        """Store facts that arise together, then let them be seen. Cannot be cancelled once it has begun.

        `sync` also waits until they would survive a power cut; `header` adds the session's totals for quick
        listing. Raises `StoreUnavailable`, `SequenceConflict`; then nothing of it has happened.
        """
        _check_facts(events)
        await self._begin_writing()
        try:
            if self.is_closed:
                raise SessionClosed(f"session {self.session.session_id} is closed")
            held = len(self._held)
            turn = self.session.turn_id if turn_id is None else turn_id
            facts = [*self._held, *((turn, event) for event in events)]
            records = [Recorded(seq, turn, event) for seq, (turn, event) in enumerate(facts, self.session.seq + 1)]
            kept = await self._store(records, sync=sync, header=header)
            del self._held[:held]
            return kept[held:]
        finally:
            self._writing.release()

    def hold(self, *events: Event) -> None:
        """Facts that are first in the next append, for a writer who knows that others come right behind them.

        Until then nobody sees them, and nothing may depend on them. They wait for another append when one fails.
        """
        _check_facts(events)
        self._held.extend((self.session.turn_id, event) for event in events)

    async def flush(self) -> None:
        """Store what is held, if anything is. Raises as `append`."""
        if self._held:
            await self.append()

    async def _begin_writing(self) -> None:
        """Take the lock. A free one costs no trip through the scheduler: storing makes one anyway."""
        if self._writing.locked():
            await self._writing.acquire()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._writing.acquire_nowait()

    async def _store(self, records: Sequence[Recorded], *, sync: bool, header: bool) -> list[Recorded]:
        before = self.session.seq
        totals = self._header_with(records) if header else None
        appended = self._log.append(before, records, header=totals, sync=sync)
        if not isinstance(appended, Kept):  # a scope costs more than many a write
            with trio.move_on_after(WRITE_TIMEOUT, shield=True) as limit:
                records = await appended
            if limit.cancelled_caught:
                raise StoreUnavailable(f"the session store did not take a write within {WRITE_TIMEOUT:g} s")
        else:
            records = appended
        self.fold(records)
        return list(records)

    def fold(self, records: Sequence[Recorded]) -> None:
        """Take in facts that are stored, and let them be seen."""
        for record in records:
            self.session.apply(record.event, seq=record.seq, turn_id=record.turn_id)
        for reader in self._readers:
            reader.keep_unread_hints()
        self.records.extend(records)
        if any(isinstance(record.event, _CLOSES_HINTS) for record in records):
            self._hints.clear()
            self._hint_epoch += 1
        if records:
            self._publish(records)

    def _header_with(self, records: Sequence[Recorded]) -> Header:
        header = self.session.header()
        for record in records:
            if isinstance(record.event, TurnEnded):
                header = replace(header, state=state_after(record.event.stop))
        return header

    def hint(self, event: Event) -> None:
        """Show a live fragment. It is forgotten with the fact that contains it."""
        self._hints.append(event)
        self._publish([Recorded(0, self.session.turn_id, event)])

    async def room(self) -> None:
        """Wait while a paced reader is as far behind as it may be."""
        while any(len(reader.waiting) >= reader.pace for reader in self._paced):
            await self._room.wait()

    def refold(self) -> None:
        """Fold all facts anew: whatever a crash left in memory is gone, and only what was stored counts."""
        self._held.clear()
        trace, metadata = self.session.trace_id, dict(self.session.metadata)
        folded = Session(self.session.session_id, run_id=self.session.run_id, trace_id=trace, metadata=metadata)
        for record in self.records:
            folded.apply(record.event, seq=record.seq, turn_id=record.turn_id)
        folded.continue_totals(self.session.header())
        self.session = folded

    def close(self) -> None:
        """No more facts: readers end when they have read what there is."""
        self.is_closed = True
        self.closed.set()
        self._wake()

    def _publish(self, items: Sequence[Recorded]) -> None:
        for reader in self._paced:
            reader.waiting.extend(items)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # --- reading ---

    def follow(self, *, after: int = 0, pace: int = 0, every: float = 0.03) -> Follower:
        """Read all facts after `after`, then what happens from now on, until the session is closed.

        Use as `with journal.follow() as records: async for record in records: ...`. Hints come at most once per
        `every` seconds, merged. With a `pace`, the reader gets every single item, and the turn waits before its
        next one while this reader is `pace` items behind: for recorders and debuggers.
        """
        return Follower(self, after=after, pace=pace, every=every)

    def statistics(self) -> JournalStatistics:
        return JournalStatistics(
            seq=self.seq,
            facts=len(self.records),
            hints=len(self._hints),
            readers=len(self._readers),
            furthest_behind=max((len(reader.waiting) for reader in self._paced), default=0),
        )


class Follower:
    """One reader of a journal. `waiting` counts towards its pace; it stays empty without one."""

    def __init__(self, journal: Journal, *, after: int, pace: int, every: float) -> None:
        self.pace = pace
        self.waiting: deque[Recorded] = deque()
        self._journal = journal
        self._every = every
        self._next = _index_after(journal.records, after)
        self._epoch = -1
        self._seen_hints = 0
        self._ready: deque[Recorded] = deque()
        self._hints_not_before = float("-inf")

    def __enter__(self) -> Follower:
        self._journal._readers.add(self)
        if self.pace:
            self.waiting.extend(self._journal.records[self._next :])
            self._journal._paced.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._journal._readers.discard(self)
        self._journal._paced.discard(self)
        self.waiting.clear()
        self._make_room()

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Recorded:
        await trio.lowlevel.checkpoint()
        while True:
            record = self._paced_item() if self.pace else self._unpaced_item()
            if record is not None:
                return record
            if self._journal.is_closed and not self._unread_hints() and not self._ready:
                raise StopAsyncIteration
            await self._wait()

    def _paced_item(self) -> Recorded | None:
        if not self.waiting:
            return None
        record = self.waiting.popleft()
        self._make_room()
        return record

    def _make_room(self) -> None:
        self._journal._room.set()
        self._journal._room = trio.Event()

    def _unpaced_item(self) -> Recorded | None:
        journal = self._journal
        if self._ready:
            return self._ready.popleft()
        if self._next < len(journal.records):
            self._next += 1
            return journal.records[self._next - 1]
        if self._unread_hints() and trio.current_time() >= self._hints_not_before:
            self._take_hints()
            self._hints_not_before = trio.current_time() + self._every
            return self._ready.popleft()
        return None

    def keep_unread_hints(self) -> None:
        """A fact comes. A reader that has kept up gets the hints before it; one that is behind does without them."""
        if not self.pace and self._next == len(self._journal.records) and self._unread_hints():
            self._take_hints()

    def _take_hints(self) -> None:
        journal = self._journal
        hints = merge_hints(journal._hints[self._seen_hints :])
        self._seen_hints = len(journal._hints)
        self._ready.extend(Recorded(0, journal.session.turn_id, hint) for hint in hints)

    def _unread_hints(self) -> bool:
        journal = self._journal
        if self.pace:
            return False
        if self._epoch != journal._hint_epoch:
            self._epoch = journal._hint_epoch
            self._seen_hints = 0
        return self._seen_hints < len(journal._hints)

    async def _wait(self) -> None:
        deadline = self._hints_not_before if self._unread_hints() else float("inf")
        with trio.move_on_at(deadline):
            await self._journal._changed.wait()


def _check_facts(events: Sequence[Event]) -> None:
    if any(isinstance(event, HINTS) for event in events):
        raise InvalidMessage("hints are live only: they have no place in a journal")


def merge_hints(hints: Sequence[Event]) -> list[Event]:
    """The same fragments in fewer pieces. Never merges over a `finished` or a restarted step."""
    merged: list[Event] = []
    for hint in hints:
        last = merged[-1] if merged else None
        if isinstance(hint, StepRestarted):
            merged = [hint]
        elif isinstance(hint, StreamChunk) and isinstance(last, StreamChunk) and not last.finished:
            merged[-1] = _joined_chunks(last, hint)
        elif (
            isinstance(hint, ToolOutput)
            and isinstance(last, ToolOutput)
            and last.tool_call_id == hint.tool_call_id
            and not last.finished
        ):
            merged[-1] = last.model_copy(update={"text": last.text + hint.text, "finished": hint.finished})
        else:
            merged.append(hint)
    return merged


def _joined_chunks(first: StreamChunk, second: StreamChunk) -> StreamChunk:
    return first.model_copy(
        update={
            "text": first.text + second.text,
            "reasoning_text": first.reasoning_text + second.reasoning_text,
            "finished": second.finished,
        }
    )


def _index_after(records: Sequence[Recorded], seq: int) -> int:
    low, high = 0, len(records)
    while low < high:
        middle = (low + high) // 2
        if records[middle].seq <= seq:
            low = middle + 1
        else:
            high = middle
    return low


class Journals:
    """The open journals of a runtime by session id. `actors/sessions.py` writes it; clients look."""

    def __init__(self) -> None:
        self._open: dict[str, Journal] = {}

    def add(self, journal: Journal) -> None:
        self._open[journal.session.session_id] = journal

    def remove(self, journal: Journal) -> None:
        self._open.pop(journal.session.session_id, None)

    def find(self, session_id: str) -> Journal | None:
        return self._open.get(session_id)
