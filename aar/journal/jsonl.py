"""One file of JSON lines per session, in one folder."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import trio

from aar.errors import SequenceConflict, SessionNotFound, StoreUnavailable
from aar.journal.folder import Folder, read_all, unavailable, write_all
from aar.journal.jsonl_log import JsonlLog, Threads
from aar.journal.lease import Lease, take_lease
from aar.journal.listing import SUFFIX, list_page, session_ids
from aar.journal.reading import Parsed, parse_journal
from aar.journal.store import Header, Names, Page, SessionLog, Stored, checked_id
from aar.messages.events import ErrorEvent, Event, Recorded, ToolCall

__all__ = ["JsonlStore", "OnPrune", "companion_baseline"]

OnPrune = Callable[[Sequence[Event], MutableMapping[str, Any]], None]
T = TypeVar("T")

_CLOSE_TIMEOUT = 5.0
_THREADS = 40


class JsonlStore:
    """A folder of journals, `<session_id>.jsonl` each. Nothing is created before the first session is opened."""

    def __init__(self, directory: str | Path) -> None:
        self._folder = Folder(Path(os.path.abspath(Path(directory).expanduser())))
        self._threads = Threads(_THREADS)

    @property
    def directory(self) -> Path:
        return self._folder.path

    def path_of(self, session_id: str) -> Path:
        """Where a session's journal is, or would be."""
        return self.directory / (checked_id(session_id) + SUFFIX)

    @asynccontextmanager
    async def open(self, session_id: str, *, create: bool) -> AsyncIterator[SessionLog]:
        """See `Store.open`. A torn last line is cut off here and kept beside the journal."""
        opening = _Opening()
        log: JsonlLog | None = None
        try:
            log = await self._in_thread(lambda: opening.finish(self._open(checked_id(session_id), create)))
            yield log
        finally:
            log = log or opening.leave()
            if log is not None:
                with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                    await log.close()

    async def load(self, session_id: str) -> Stored:
        return await self._in_thread(self._load, checked_id(session_id))

    async def list(self, *, cwd: str | None = None, limit: int = 100, cursor: str = "") -> Page:
        return await self._in_thread(list_page, self._folder, cwd, limit, cursor)

    async def delete(self, session_id: str) -> bool:
        return await self._in_thread(self._delete, checked_id(session_id))

    async def ids(self) -> Names:
        return await self._in_thread(self._ids)

    async def save(self, header: Header, records: Sequence[Recorded]) -> Path:
        """Append those of a session's records that are missing, and its header. Raises `SequenceConflict`."""
        async with self.open(header.session_id, create=True) as log:
            last = log.stored.last_seq
            missing = [record for record in records if record.seq > last]
            if missing and last and missing[0].seq != last + 1:
                raise SequenceConflict(f"Session {header.session_id} is stored up to {last}; {last + 1} is missing.")
            await log.append(last, missing, header=header, sync=True)
        return self.path_of(header.session_id)

    async def compact(self, session_id: str, max_events: int = 200, on_prune: OnPrune | None = None) -> Stored:
        """Keep the newest `max_events` events of a session, for good, and write its journal anew.

        `on_prune(pruned_events, metadata)` is called before, when there is something to prune; it may change the
        metadata. `companion_baseline` is such a function.
        """
        if max_events < 1:
            raise ValueError(f"max_events must be 1 or more, not {max_events}")
        async with self.open(session_id, create=False) as log:
            stored = log.stored
            metadata = dict(stored.header.metadata)
            pruned = stored.records[:-max_events]
            if pruned and on_prune is not None:
                on_prune([record.event for record in pruned], metadata)
            kept = Stored(replace(stored.header, metadata=metadata), stored.records[-max_events:], stored.warnings)
            await log.rewrite(kept.header, kept.records)
        return kept

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        def run() -> T:
            try:
                return work(*arguments)
            except (StoreUnavailable, SessionNotFound):
                raise
            except OSError as error:
                raise unavailable("use", self.directory, error) from error

        return await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._threads.limiter)

    # --- in a worker thread ---------------------------------------------------------------------

    def _open(self, session_id: str, create: bool) -> JsonlLog:
        if create:
            self._folder.prepare()
        elif not self._exists(session_id):
            raise SessionNotFound(f"Session not found: {session_id}")
        with self._folder.opened() as folder:
            lease = take_lease(session_id, folder)
            try:
                return self._opened(session_id, lease, folder, create)
            except BaseException:
                lease.release(folder)
                raise

    def _opened(self, session_id: str, lease: Lease, folder: int, create: bool) -> JsonlLog:
        name = session_id + SUFFIX
        try:
            with self._folder.file(name, os.O_RDWR, folder) as file:
                _make_private(file)
                data = read_all(file)
                parsed = parse_journal(data, session_id, str(self.path_of(session_id)))
                warnings = self._mend(file, folder, session_id, data, parsed)
                stored = Stored(parsed.header, parsed.records, warnings)
                return JsonlLog(self._folder, stored, os.fstat(file), lease, self._threads)
        except FileNotFoundError as error:
            if not create:
                raise SessionNotFound(f"Session not found: {session_id}") from error
            return JsonlLog(self._folder, Stored(Header(session_id)), None, lease, self._threads)

    def _mend(self, file: int, folder: int, session_id: str, data: bytes, parsed: Parsed) -> Names:
        """Make the file end with a whole line. Answers with what there is to tell."""
        if not parsed.torn:
            if data and not data.endswith(b"\n"):
                os.pwrite(file, b"\n", len(data))
            return []
        aside = self._put_aside(session_id, parsed.torn, folder)
        os.ftruncate(file, parsed.whole)
        os.fsync(file)
        return [f"The last line of {self.path_of(session_id)} was cut or damaged. It is kept as {aside}."]

    def _put_aside(self, session_id: str, torn: bytes, folder: int) -> str:
        number = 1
        while True:
            name = f"{session_id}{SUFFIX}.torn-{number}"
            try:
                with self._folder.file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder) as file:
                    write_all(file, torn)
                    os.fsync(file)
                    return name
            except FileExistsError:
                number += 1

    def _load(self, session_id: str) -> Stored:
        path = self.path_of(session_id)
        try:
            data = self._folder.read(path.name)
        except FileNotFoundError as error:
            raise SessionNotFound(f"Session not found: {session_id}") from error
        parsed = parse_journal(data, session_id, str(path))
        warnings = [f"The last line of {path} is cut or damaged and was left out."] if parsed.torn else []
        return Stored(parsed.header, parsed.records, warnings)

    def _exists(self, session_id: str) -> bool:
        return os.path.lexists(self.path_of(session_id))

    def _delete(self, session_id: str) -> bool:
        if not self._exists(session_id):
            return False
        with self._folder.opened() as folder:
            lease = take_lease(session_id, folder)
            try:
                found = self._folder.remove(session_id + SUFFIX, folder)
                for name in os.listdir(folder):
                    if name.startswith(f"{session_id}{SUFFIX}."):
                        self._folder.remove(name, folder)
                os.fsync(folder)
                return found
            finally:
                lease.release(folder)

    def _ids(self) -> Names:
        try:
            with self._folder.opened() as folder:
                return sorted(session_ids(folder))
        except FileNotFoundError:
            return []


def _make_private(file: int) -> None:
    """A journal that came from elsewhere may be open to others; what is going to be said is not for them."""
    found = os.fstat(file)
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        with suppress(OSError):  # file systems without such modes
            os.fchmod(file, 0o600)


class _Opening:
    """A log on its way out of a thread that may have been left behind: one of the two sides closes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._log: JsonlLog | None = None
        self._is_left = False

    def finish(self, log: JsonlLog) -> JsonlLog:
        with self._lock:
            self._log = log
            if self._is_left:
                log.close_here()
            return log

    def leave(self) -> JsonlLog | None:
        with self._lock:
            self._is_left = True
            return self._log


def companion_baseline(pruned: Sequence[Event], metadata: MutableMapping[str, Any]) -> None:
    """Add the tool calls and errors among pruned events to `metadata["companion_baseline"]`."""
    before = metadata.get("companion_baseline") or {}
    metadata["companion_baseline"] = {
        "steps": before.get("steps", 0) + sum(isinstance(event, ToolCall) for event in pruned),
        "errors": before.get("errors", 0) + sum(isinstance(event, ErrorEvent) for event in pruned),
    }
