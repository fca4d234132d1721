"""Service: what is said in a session, written along into a file that its settings name."""

from __future__ import annotations

import logging
import os

import trio

from aar.actors.additions import Observer
from aar.journal.journal import Journal
from aar.journal.views import Messages
from aar.safety.display import plain

__all__ = ["mirror_of"]

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

LAST_WORDS = 2.0  # seconds for what is recorded while everything ends

logger = logging.getLogger(__name__)


def mirror_of(journal: Journal, path: str, after: int) -> Observer:
    """Follows the journal after this fact, and appends the conversation to the file, as it is exported.

    A relative path starts at the session's folder. The file has no escape sequences, and is made for its owner alone;
    no link at its place is followed. Where it cannot be written that is logged, and the session goes on without it.
    """
    file = os.path.join(str(journal.session.metadata["cwd"]), os.path.expanduser(path))
    return Observer(f"mirror:{journal.session.session_id}", _Mirror(journal, file, after).follow)


class _Mirror:
    def __init__(self, journal: Journal, file: str, after: int) -> None:
        self._journal = journal
        self._file = file
        self._written = after

    async def follow(self) -> None:
        try:
            await self._read_on()
        except trio.Cancelled:  # everything ends: the last facts are about to be recorded
            with trio.move_on_after(LAST_WORDS, shield=True):
                await self._read_on()
            raise

    async def _read_on(self) -> None:
        """Until the journal is closed, or the file cannot be written."""
        try:
            with self._journal.follow(after=self._written) as records:
                async for record in records:
                    if record.seq:
                        await self._write(Messages([record.event]).for_export())
                        self._written = record.seq
        except OSError as error:
            logger.error("transcript_file: %s: %s", self._file, error.strerror or error)

    async def _write(self, text: str) -> None:
        """A write that has begun is not cut, or its end would be written twice."""
        if text:
            with trio.move_on_after(LAST_WORDS, shield=True):
                await trio.to_thread.run_sync(_append, self._file, plain(text), abandon_on_cancel=True)


def _append(file: str, text: str) -> None:
    descriptor = os.open(file, _FLAGS, 0o600)
    try:
        begun = "\n" if os.fstat(descriptor).st_size else ""
        data = (begun + text).encode("utf-8", errors="replace")
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)
