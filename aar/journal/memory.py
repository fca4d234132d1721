"""A store that forgets everything with the process, and that can be told to fail."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from aar.errors import SequenceConflict, SessionInUse, SessionNotFound
from aar.journal.lines import encode_record
from aar.journal.store import (
    Header,
    Kept,
    LogStatistics,
    Names,
    Page,
    SessionLog,
    Stored,
    checked_id,
    listing_entry,
)
from aar.messages.events import Recorded

__all__ = ["Fault", "MemoryStore"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one append: it waits `delay` seconds, then fails with `error` if there is one."""

    error: Exception | None = None
    delay: float = 0.0

    async def happen(self) -> None:
        await trio.sleep(self.delay)
        if self.error is not None:
            raise self.error


@dataclass(slots=True)
class _Kept:
    first: Header
    header: Header
    records: list[Recorded] = field(default_factory=list)
    changed_at: float = 0.0
    change: int = 0


class MemoryStore:
    """Keeps journals in memory.

    `faults` maps the number of an append or rewrite, counted over the whole store from 1, to what happens to it.
    A failed append keeps nothing.
    """

    def __init__(self, *, faults: Mapping[int, Fault] | None = None) -> None:
        self._sessions: dict[str, _Kept] = {}
        self._held: set[str] = set()
        self._faults = dict(faults or {})
        self._writes = 0

    @asynccontextmanager
    async def open(self, session_id: str, *, create: bool) -> AsyncIterator[SessionLog]:
        checked_id(session_id)
        await trio.lowlevel.checkpoint()
        if session_id in self._held:
            raise SessionInUse(f"Session {session_id} is open in this process (pid {os.getpid()}).")
        if session_id not in self._sessions and not create:
            raise SessionNotFound(f"Session not found: {session_id}")
        self._held.add(session_id)
        try:
            yield _MemoryLog(self, session_id)
        finally:
            self._held.discard(session_id)

    async def load(self, session_id: str) -> Stored:
        checked_id(session_id)
        await trio.lowlevel.checkpoint()
        kept = self._sessions.get(session_id)
        if kept is None:
            raise SessionNotFound(f"Session not found: {session_id}")
        return Stored(kept.header, list(kept.records))

    async def list(self, *, cwd: str | None = None, limit: int = 100, cursor: str = "") -> Page:
        await trio.lowlevel.checkpoint()
        before = int(cursor) if cursor else self._writes + 1
        newest = sorted(self._sessions.items(), key=lambda item: -item[1].change)
        found = [
            (kept.change, listing_entry(session_id, kept.first, kept.header, kept.changed_at))
            for session_id, kept in newest
            if kept.change < before
        ]
        found = [item for item in found if cwd is None or item[1].cwd == cwd]
        page = found[:limit]
        return [entry for _, entry in page], str(page[-1][0]) if len(found) > limit and page else ""

    async def delete(self, session_id: str) -> bool:
        checked_id(session_id)
        await trio.lowlevel.checkpoint()
        if session_id in self._held:
            raise SessionInUse(f"Session {session_id} is open in this process (pid {os.getpid()}).")
        return self._sessions.pop(session_id, None) is not None

    async def ids(self) -> Names:
        await trio.lowlevel.checkpoint()
        return sorted(self._sessions)

    def _stored(self, session_id: str) -> Stored:
        kept = self._sessions.get(session_id)
        return Stored(Header(session_id)) if kept is None else Stored(kept.header, [*kept.records])

    def _next_fault(self) -> Fault | None:
        self._writes += 1
        return self._faults.get(self._writes)

    def _kept(self, session_id: str, header: Header | None) -> _Kept:
        kept = self._sessions.get(session_id)
        if kept is None:
            first = header or Header(session_id)
            kept = self._sessions[session_id] = _Kept(first, first)
        kept.header = header or kept.header
        kept.changed_at = time.time()
        kept.change = self._writes
        return kept


class _MemoryLog:
    """A `SessionLog` over the records of one session."""

    def __init__(self, store: MemoryStore, session_id: str) -> None:
        self._store = store
        self._id = session_id
        self.stored = store._stored(session_id)
        self._seq = self.stored.last_seq
        self._counts = LogStatistics()

    def append(
        self,
        expected_seq: int,
        records: Sequence[Recorded],
        *,
        header: Header | None = None,
        sync: bool = False,
    ) -> Awaitable[Sequence[Recorded]]:
        fault = self._store._next_fault()
        if fault is None and not sync:
            return self._append(expected_seq, records, header, sync)
        return self._append_after(fault, expected_seq, records, header, sync)

    async def _append_after(
        self, fault: Fault | None, expected_seq: int, records: Sequence[Recorded], header: Header | None, sync: bool
    ) -> Kept:
        await (fault or Fault()).happen()
        return self._append(expected_seq, records, header, sync)

    def _append(self, expected_seq: int, records: Sequence[Recorded], header: Header | None, sync: bool) -> Kept:
        if expected_seq != self._seq:
            raise SequenceConflict(
                f"Session {self._id} is at {self._seq}, not at {expected_seq}: somebody else has written it."
            )
        encoded = [encode_record(record) for record in records]
        kept = Kept(record for record, _ in encoded)
        self._store._kept(self._id, header).records.extend(kept)
        self._seq = kept[-1].seq if kept else self._seq
        self._count(len(kept), sum(len(line) for _, line in encoded), sync)
        return kept

    async def rewrite(self, header: Header, records: Sequence[Recorded]) -> None:
        await trio.lowlevel.checkpoint()
        fault = self._store._next_fault()
        if fault is not None:
            await fault.happen()
        kept = self._store._kept(self._id, header)
        kept.first = header
        kept.records = list(records)
        self._seq = records[-1].seq if records else 0
        self._counts = self._counts._replace(rewrites=self._counts.rewrites + 1)

    def statistics(self) -> LogStatistics:
        return self._counts

    def _count(self, records: int, size: int, sync: bool) -> None:
        counts = self._counts
        self._counts = LogStatistics(
            counts.appends + 1, counts.records + records, counts.bytes + size, counts.syncs + sync, counts.rewrites
        )
