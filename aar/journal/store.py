"""Where journals are kept: the promises that every store makes."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Awaitable, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from aar.messages.events import AgentState, Recorded

__all__ = [
    "SCHEMA_VERSION",
    "Header",
    "Kept",
    "LogStatistics",
    "Names",
    "Page",
    "SessionLog",
    "Store",
    "Stored",
    "StoredSession",
    "checked_id",
    "listing_entry",
]

SCHEMA_VERSION = 1

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_log = logging.getLogger(__name__)


def checked_id(session_id: str) -> str:
    """The id itself, which is safe as a file name. Raises `ValueError` for anything else."""
    if not _ID.fullmatch(session_id):
        raise ValueError(f"Invalid session_id: {session_id!r}. Use 1 to 128 letters, digits, '-' or '_'.")
    return session_id


@dataclass(frozen=True, slots=True)
class Header:
    """What a journal says about its session beside the events. The newest header of a journal counts."""

    session_id: str
    run_id: str = ""
    trace_id: str = ""
    state: AgentState = AgentState.IDLE
    step_count: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    total_cost: float = 0.0

    def to_json(self) -> bytes:
        """One line, without its newline. Lone surrogates stay escaped; JSON has no NaN, so it becomes `null`."""
        fields: dict[str, Any] = {
            "_meta": True,
            "schema_version": SCHEMA_VERSION,
            "session_id": self.session_id,
            "run_id": self.run_id,
            "trace_id": self.trace_id,
            "state": self.state.value,
            "step_count": self.step_count,
            "metadata": self.metadata,
            "total_input_tokens": self.total_input_tokens,
            "total_output_tokens": self.total_output_tokens,
            "total_cost": self.total_cost if math.isfinite(self.total_cost) else 0.0,
        }
        try:
            return json.dumps(fields, default=str, allow_nan=False).encode()
        except ValueError:
            return json.dumps(_finite(fields), default=str).encode()

    @classmethod
    def from_json(cls, data: bytes | str | dict[str, Any]) -> Header:
        """Absent fields get their defaults. Raises `ValueError` for a newer schema or fields that do not fit."""
        fields = data if isinstance(data, dict) else json.loads(data)
        _check_schema(fields)
        state = fields.get("state", "idle")
        return cls(
            session_id=str(fields.get("session_id") or ""),
            run_id=str(fields.get("run_id") or ""),
            trace_id=str(fields.get("trace_id") or ""),
            state=AgentState(state) if state in set(AgentState) else AgentState.IDLE,
            step_count=int(fields.get("step_count") or 0),
            metadata=dict(fields.get("metadata") or {}),
            total_input_tokens=int(fields.get("total_input_tokens") or 0),
            total_output_tokens=int(fields.get("total_output_tokens") or 0),
            total_cost=float(fields.get("total_cost") or 0.0),
        )


def _check_schema(fields: dict[str, Any]) -> None:
    version = fields.get("schema_version", 0)
    if not isinstance(version, int):
        raise ValueError(f"schema_version must be a whole number, not {version!r}")
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"Session {fields.get('session_id', '')!r} has schema_version {version}; this Aar reads up to "
            f"{SCHEMA_VERSION}. Please upgrade Aar to open it."
        )
    if version < SCHEMA_VERSION:
        _log.info("session %s has the old schema_version %d", fields.get("session_id", ""), version)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Stored:
    """A journal as it was read. `warnings` are for people: what was damaged, and what became of it."""

    header: Header
    records: list[Recorded] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def last_seq(self) -> int:
        """0 when there is no record yet."""
        return self.records[-1].seq if self.records else 0


class StoredSession(NamedTuple):
    """An entry of a listing. `updated_at` is Unix time in seconds; `name` is what somebody has named the session."""

    session_id: str
    cwd: str = ""
    title: str = ""
    updated_at: float = 0.0
    state: AgentState = AgentState.IDLE
    step_count: int = 0
    name: str = ""


def listing_entry(session_id: str, first: Header, last: Header, changed_at: float) -> StoredSession:
    """The entry of a session whose first and last headers are these; `changed_at` stands in for `updated_at`."""
    metadata = {**first.metadata, **last.metadata}
    updated_at = metadata.get("updated_at")
    return StoredSession(
        session_id=session_id,
        cwd=_text(metadata.get("cwd")),
        title=_text(metadata.get("title")) or session_id[:12],
        updated_at=_time(updated_at, changed_at),
        state=last.state,
        step_count=last.step_count,
        name=_text(metadata.get("name")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _time(value: Any, otherwise: float) -> float:
    """`value` when it is a time between 1970 and the year 9999."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 253_000_000_000:
        return otherwise
    return float(value)


Page = tuple[list[StoredSession], str]
Names = list[str]


class LogStatistics(NamedTuple):
    """What was written through one log since it was opened. `bytes` counts lines with their newlines."""

    appends: int = 0
    records: int = 0
    bytes: int = 0
    syncs: int = 0
    rewrites: int = 0


class Kept(list[Recorded]):
    """The records of an append that had nothing to wait for; awaiting them gives themselves."""

    def __await__(self) -> Generator[Any, None, Kept]:
        yield from ()
        return self


class SessionLog(Protocol):
    """One session's journal, open for its only writer. One call at a time."""

    @property
    def stored(self) -> Stored:
        """What the journal held when it was opened."""

    def append(
        self,
        expected_seq: int,
        records: Sequence[Recorded],
        *,
        header: Header | None = None,
        sync: bool = False,
    ) -> Awaitable[Sequence[Recorded]]:
        """Write these records, then the header, as one piece: all of it is kept, or nothing.

        `expected_seq` is the `seq` of the newest record that the caller knows, 0 for none. With `sync` it is on the
        disk when this is over. To be awaited at once: what comes as `Kept` is done, and anything else is neither
        cancelled nor waited for longer than `Journal` allows. Gives the records as they are kept: the same objects,
        except where a text cannot be stored (lone surrogates, which become U+FFFD) or a number cannot (NaN).

        Raises `SequenceConflict` when somebody else has written, `StoreUnavailable` when the store refuses; the
        caller may try the same records again after that.
        """

    async def rewrite(self, header: Header, records: Sequence[Recorded]) -> None:
        """Replace the whole journal. Whatever happens, the old or the new one is there. Raises as `append`."""

    def statistics(self) -> LogStatistics:
        """What was written through this log so far."""


class Store(Protocol):
    """Every method raises `ValueError` for an invalid session id."""

    def open(self, session_id: str, *, create: bool) -> AbstractAsyncContextManager[SessionLog]:
        """Take the session for writing, until the block is left.

        `create` allows a session that does not exist yet; one that exists is opened as it is. Raises
        `SessionNotFound`, `SessionInUse` (the text names the holder), `CorruptJournal`, `StoreUnavailable`.
        """

    async def load(self, session_id: str) -> Stored:
        """Read a session, held by somebody or not. Changes nothing. Raises `SessionNotFound`, `CorruptJournal`."""

    async def list(self, *, cwd: str | None = None, limit: int = 100, cursor: str = "") -> Page:
        """One page of sessions, newest first, and the cursor of the next page (empty at the end)."""

    async def delete(self, session_id: str) -> bool:
        """Remove a session. Answers whether there was one. Raises `SessionInUse`."""

    async def ids(self) -> Names:
        """The ids of all sessions, sorted."""
