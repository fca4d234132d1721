"""Writing one journal file: appended to, never trusted blindly after a failure."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from aar.errors import CorruptJournal, SequenceConflict, SessionClosed, StoreUnavailable
from aar.journal.batching import Batching, Piece
from aar.journal.folder import Folder, read_all, unavailable, write_all
from aar.journal.lease import Lease
from aar.journal.lines import encode_record
from aar.journal.listing import SUFFIX
from aar.journal.reading import parse_journal
from aar.journal.store import Header, Kept, LogStatistics, Stored
from aar.messages.events import Recorded

__all__ = ["JsonlLog", "Threads"]

_SHORT = 64 * 1024
_SYNCS_AT_ONCE = 4  # a disk takes many syncs in one go, but each thread costs as much as a sync of a fast disk
_log = logging.getLogger(__name__)


class Threads:
    """The worker threads of a store: its own, so that its files wait for nobody else's work."""

    def __init__(self, limit: int) -> None:
        self.limiter = trio.CapacityLimiter(limit)
        self.writing = Batching(limit, glances=True)
        self.syncing = Batching(limit, side_by_side=_SYNCS_AT_ONCE, gathers=True)


class _Job:
    """One piece of work in a thread. Nobody waits for it any more once it is `abandoned`."""

    abandoned = False


class JsonlLog:
    """A `SessionLog` over one file, held by a lease.

    The file is opened afresh for each append, by name in its folder: a file that somebody moved or removed is
    noticed, and a thousand idle sessions hold no descriptors but their leases. What this log has promised is its
    first `_size` bytes; an append counts only once its caller has heard of it.
    """

    def __init__(
        self,
        folder: Folder,
        stored: Stored,
        file: os.stat_result | None,
        lease: Lease,
        threads: Threads,
    ) -> None:
        self.stored = stored
        self._id = stored.header.session_id
        self._name = self._id + SUFFIX
        self._folder = folder
        self._lease = lease
        self._threads = threads
        self._seq = stored.last_seq
        self._size = file.st_size if file else 0
        self._inode = file.st_ino if file else None
        self._is_new = file is None
        self._working = threading.Lock()
        self._has_rest = False  # bytes after `_size` may be there: of a write that failed or was abandoned
        self._is_doubtful = False  # a sync failed: the system may have dropped what it had taken
        self._is_closed = False
        self._counts = LogStatistics()

    @property
    def path(self) -> Path:
        return self._folder.path / self._name

    def append(
        self,
        expected_seq: int,
        records: Sequence[Recorded],
        *,
        header: Header | None = None,
        sync: bool = False,
    ) -> Awaitable[Sequence[Recorded]]:
        self._check_free()
        if expected_seq != self._seq:
            raise SequenceConflict(
                f"{self.path} is at {self._seq}, not at {expected_seq}: somebody else has written it."
            )
        encoded = [encode_record(record) for record in records]
        data = self._lines([line for _, line in encoded], header)
        kept = Kept(record for record, _ in encoded)
        if sync or len(data) > _SHORT:
            return self._append_in_thread(kept, data, sync)
        job = _Job()
        piece = self._threads.writing.start(lambda: self._run(job, lambda: self._append(data, False)), owner=self._id)
        if not piece.is_done:
            return self._append_later(piece, job, kept, len(data))
        piece.result()
        self._has_appended(kept, len(data))
        return kept

    async def _append_in_thread(self, kept: Kept, data: bytes, sync: bool) -> Kept:
        shared = self._threads.syncing if len(data) <= _SHORT else None
        await self._in_thread(lambda: self._append(data, sync), shared)
        self._has_appended(kept, len(data), sync)
        return kept

    async def _append_later(self, piece: Piece, job: _Job, kept: Kept, size: int) -> Kept:
        with self._abandoning(job):
            await piece.wait()
        self._has_appended(kept, size)
        return kept

    def _has_appended(self, kept: Kept, size: int, sync: bool = False) -> None:
        self._size += size
        self._seq = kept[-1].seq if kept else self._seq
        self._count(len(kept), size, sync)

    async def rewrite(self, header: Header, records: Sequence[Recorded]) -> None:
        self._check_free()
        data = b"".join([header.to_json(), b"\n", *(encode_record(record)[1] for record in records)])
        seq = records[-1].seq if records else 0
        await self._in_thread(lambda: self._replace(data, seq))
        self._counts = self._counts._replace(rewrites=self._counts.rewrites + 1)

    def statistics(self) -> LogStatistics:
        return self._counts

    async def close(self) -> None:
        """Let go of the session; a write that nobody waits for any more lets go of it when it ends."""
        await trio.to_thread.run_sync(self.close_here, abandon_on_cancel=True, limiter=self._threads.limiter)

    def close_here(self) -> None:
        """The same from a worker thread."""
        self._is_closed = True
        self._release()

    # --- in the trio thread ---------------------------------------------------------------------

    def _lines(self, lines: list[bytes], header: Header | None) -> bytes:
        """Events, then the header; in a new file the header comes first."""
        if self._size == 0:
            return b"".join([(header or self.stored.header).to_json(), b"\n", *lines])
        return b"".join([*lines, header.to_json(), b"\n"] if header else lines)

    def _check_free(self) -> None:
        if self._is_closed:
            raise SessionClosed(f"The journal {self.path} is closed.")
        if self._working.locked():
            raise StoreUnavailable(f"Cannot write {self.path}: an earlier write has not come back. Check the disk.")

    async def _in_thread(self, work: Callable[[], None], shared: Batching | None = None) -> None:
        """Short work shares threads with that of other sessions; a big write gets its own."""
        job = _Job()
        with self._abandoning(job):
            if shared is not None:
                await shared.run(lambda: self._run(job, work), owner=self._id)
            else:
                await trio.to_thread.run_sync(
                    self._run, job, work, abandon_on_cancel=True, limiter=self._threads.limiter
                )

    @contextmanager
    def _abandoning(self, job: _Job) -> Iterator[None]:
        try:
            yield
        except trio.Cancelled:
            job.abandoned = True
            self._has_rest = True
            raise

    def _count(self, records: int, size: int, sync: bool) -> None:
        counts = self._counts
        self._counts = LogStatistics(
            counts.appends + 1, counts.records + records, counts.bytes + size, counts.syncs + sync, counts.rewrites
        )

    # --- in a worker thread ---------------------------------------------------------------------

    def _run(self, job: _Job, work: Callable[[], None]) -> None:
        try:
            with self._working:
                try:
                    if not job.abandoned:
                        work()
                finally:
                    if job.abandoned:
                        self._has_rest = True  # whatever it wrote was given up meanwhile: cut it off
        except StoreUnavailable:
            raise
        except OSError as error:
            raise unavailable("write", self.path, error) from error
        finally:
            if self._is_closed:
                self._release()

    def _append(self, data: bytes, sync: bool) -> None:
        if self._has_rest or self._is_doubtful or self._inode is None or (sync and self._is_new):
            with self._folder.opened() as folder:
                self._recover(folder)
                self._write(data, folder, sync)
            return
        if sync:  # nearly always there is nothing to mend, and so it takes as few calls of the system as can be
            self._require_lease(None)
        self._write(data, None, sync)

    def _write(self, data: bytes, folder: int | None, sync: bool) -> None:
        file = self._open(folder)
        try:
            write_all(file, data)
            if sync:
                self._sync(file, folder)
        except OSError:
            self._has_rest = True
            os.ftruncate(file, self._size)
            self._has_rest = False
            raise
        finally:
            os.close(file)

    def _sync(self, file: int, folder: int | None) -> None:
        try:
            os.fdatasync(file)
            if self._is_new and folder is not None:
                os.fsync(folder)
                self._is_new = False
        except OSError:
            self._is_doubtful = True
            raise

    def _replace(self, data: bytes, seq: int) -> None:
        with self._folder.opened() as folder:
            self._require_lease(folder)
            self._inode = self._folder.replace(self._name, data, folder).st_ino
            self._size, self._seq = len(data), seq
            self._has_rest = self._is_doubtful = False
            os.fsync(folder)
            self._is_new = False

    def _open(self, folder: int | None) -> int:
        """The file, at the length we left it. Raises `SequenceConflict` when somebody else has been there."""
        create = os.O_CREAT | os.O_EXCL if self._inode is None else 0
        try:
            file, found = self._folder.open_file(self._name, os.O_WRONLY | os.O_APPEND | create, folder)
        except FileExistsError as error:
            raise SequenceConflict(f"{self.path} was made by somebody else. Load the session again.") from error
        except FileNotFoundError as error:
            raise StoreUnavailable(f"{self.path} was removed or renamed while its session was open.") from error
        self._inode = self._inode or found.st_ino
        if found.st_ino != self._inode or found.st_size != self._size:
            os.close(file)
            raise SequenceConflict(f"{self.path} was changed by somebody else. Load the session again.")
        return file

    def _recover(self, folder: int) -> None:
        """After a failure: cut off what was never promised, and after a failed sync write everything anew."""
        self._require_lease(folder)
        if self._inode is None:
            return
        if self._is_doubtful:
            self._write_anew(folder)
        elif self._has_rest:
            with self._folder.file(self._name, os.O_WRONLY, folder) as file:
                found = os.fstat(file)
                if found.st_ino == self._inode and found.st_size > self._size:
                    os.ftruncate(file, self._size)
        self._has_rest = False

    def _require_lease(self, folder: int | None) -> None:
        """Without it, what stands behind our own lines may be the work of whoever has the session now."""
        if not self._lease.is_held(self._folder.status(self._lease.name, folder)):
            raise StoreUnavailable(f"{self.path}: its lock file was removed, so others may write this session.")

    def _write_anew(self, folder: int) -> None:
        """A failed sync may be forgotten by the system while the disk holds nothing: only a new copy is sure."""
        with self._folder.file(self._name, os.O_RDONLY, folder) as file:
            data = read_all(file, self._size)
        if len(data) < self._size or parse_journal(data, self._id, str(self.path)).torn:
            raise StoreUnavailable(f"{self.path} lost lines that had been written: a sync failed. Check the disk.")
        self._inode = self._folder.replace(self._name, data, folder).st_ino
        os.fsync(folder)
        self._is_doubtful = False

    def _release(self) -> None:
        if self._working.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._working.release()

    def _let_go(self) -> None:
        try:
            with self._folder.opened() as folder:
                try:
                    self._recover(folder)
                finally:
                    self._lease.release(folder)
        except (OSError, CorruptJournal) as error:
            _log.warning("closing %s: %s", self.path, error)
            self._lease.release(None)
