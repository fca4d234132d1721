"""Finding sessions in a folder without reading what was said in them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from aar.journal.folder import Folder
from aar.journal.store import Header, Page, StoredSession, checked_id, listing_entry

__all__ = ["SUFFIX", "list_page", "session_ids"]

SUFFIX = ".jsonl"
_TAIL = 8 * 1024
_LONGEST_HEADER = 256 * 1024


class _Place(NamedTuple):
    """Where a file stands in a listing: newest first, then by name."""

    age: int
    session_id: str


def session_ids(folder: int) -> Iterator[str]:
    """The ids of the journals in this folder, in no order."""
    for name in os.listdir(folder):
        stem, suffix = os.path.splitext(name)
        if suffix == SUFFIX:
            try:
                yield checked_id(stem)
            except ValueError:
                continue


def list_page(folder: Folder, cwd: str | None, limit: int, cursor: str) -> Page:
    """See `Store.list`. Reads the first line and the last 8 KiB of as many files as the page needs."""
    try:
        with folder.opened() as opened:
            return _page(folder, opened, cwd, limit, _after(cursor))
    except FileNotFoundError:
        return [], ""


def _page(folder: Folder, opened: int, cwd: str | None, limit: int, after: _Place | None) -> Page:
    found: list[tuple[_Place, StoredSession]] = []
    for place in sorted(_places(opened)):
        if after is not None and place <= after:
            continue
        entry = _entry(folder, opened, place)
        if entry is None or (cwd is not None and entry.cwd != cwd):
            continue
        if len(found) == limit:
            last = found[-1][0] if found else place
            return [entry for _, entry in found], f"{-last.age}.{last.session_id}"
        found.append((place, entry))
    return [entry for _, entry in found], ""


def _after(cursor: str) -> _Place | None:
    if not cursor:
        return None
    changed, _, session_id = cursor.partition(".")
    if not changed.isdigit():
        raise ValueError(f"Invalid cursor: {cursor!r}. Use the one that came with the page before.")
    return _Place(-int(changed), checked_id(session_id))


def _places(folder: int) -> Iterator[_Place]:
    for session_id in session_ids(folder):
        try:
            found = os.stat(session_id + SUFFIX, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(found.st_mode):
            yield _Place(-found.st_mtime_ns, session_id)


def _entry(folder: Folder, opened: int, place: _Place) -> StoredSession | None:
    try:
        with folder.file(place.session_id + SUFFIX, os.O_RDONLY, opened) as file:
            first = _first_header(file)
            last = _last_header(file)
    except OSError:
        return None
    first = first or last or Header(place.session_id)
    return listing_entry(place.session_id, first, last or first, -place.age / 1e9)


def _first_header(file: int) -> Header | None:
    head = os.pread(file, _TAIL, 0)
    if b"\n" not in head and len(head) == _TAIL:
        head = os.pread(file, _LONGEST_HEADER, 0)
    return _as_header(head.partition(b"\n")[0])


def _last_header(file: int) -> Header | None:
    size = os.fstat(file).st_size
    lines = os.pread(file, _TAIL, max(0, size - _TAIL)).split(b"\n")
    for line in reversed(lines if size <= _TAIL else lines[1:]):
        header = _as_header(line)
        if header is not None:
            return header
    return None


def _as_header(line: bytes) -> Header | None:
    """A header that can be shown; one that a newer Aar has written is shown as far as it is understood."""
    if b'"_meta"' not in line:
        return None
    try:
        fields = json.loads(line)
        if fields.get("_meta") is True:
            return Header.from_json({**fields, "schema_version": 1})
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None  # whatever this file says, the others are listed
    return None
