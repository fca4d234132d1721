"""From the bytes of a journal to its records: what is whole, what was cut, and what is damaged."""

from __future__ import annotations

from dataclasses import dataclass, field

from aar.errors import CorruptJournal, MessageError
from aar.journal.lines import Damaged, Line, read_line
from aar.journal.store import SCHEMA_VERSION, Header
from aar.messages.events import HINTS, Recorded

__all__ = ["Parsed", "parse_journal"]


@dataclass(slots=True)
class Parsed:
    """`whole` bytes at the start are fine; `torn` is the bad last line after them, if there is one."""

    header: Header
    records: list[Recorded] = field(default_factory=list)
    whole: int = 0
    torn: bytes = b""
    is_checked: bool = False


def parse_journal(data: bytes, session_id: str, name: str) -> Parsed:
    """Read all lines of a journal; `name` is how the file is called in errors.

    A last line that was cut or changed is left out. Raises `CorruptJournal` for damage before it and for events of
    an unknown kind, `ValueError` for a journal that a newer Aar has written.
    """
    parsed = Parsed(Header(session_id))
    at = 0
    for number, raw in enumerate(data.split(b"\n"), start=1):
        text = raw.strip()
        if text:
            try:
                _take(parsed, read_line(text), session_id)
            except Damaged as error:
                if data[at + len(raw) :].strip():
                    raise _corrupt(name, number, str(error)) from error
                parsed.torn = data[at:]
                return parsed
            except MessageError as error:
                raise _corrupt(name, number, str(error)) from error
            except _Misplaced as error:
                raise _corrupt(name, number, str(error)) from error
        at += len(raw) + 1
        parsed.whole = min(at, len(data))
    return parsed


class _Misplaced(Exception):
    """A whole line that cannot stand where it does."""


def _take(parsed: Parsed, line: Line, session_id: str) -> None:
    if line.header is not None:
        parsed.header = _header(line.header, session_id)
        return
    if line.event is None or isinstance(line.event, HINTS):
        return
    if parsed.is_checked and not line.is_checked:
        raise Damaged("the checksum is missing")
    parsed.is_checked = line.is_checked
    last = parsed.records[-1].seq if parsed.records else 0
    if line.seq and last and line.seq != last + 1:
        raise _Misplaced(f"number {line.seq} follows number {last}")
    parsed.records.append(Recorded(line.seq or last + 1, line.turn_id, line.event))


def _header(fields: dict[str, object], session_id: str) -> Header:
    version = fields.get("schema_version", 0)
    is_newer = isinstance(version, int) and version > SCHEMA_VERSION
    try:
        return Header.from_json({**fields, "session_id": session_id})
    except (TypeError, ValueError, OverflowError) as error:
        if is_newer:
            raise
        raise _Misplaced(f"the header does not fit: {error}") from error


def _corrupt(name: str, number: int, why: str) -> CorruptJournal:
    return CorruptJournal(
        f"{name}:{number}: {why}. Nothing was changed. To go on with what stands before it: "
        f"head -n {number - 1} {name} > NEW-ID.jsonl in the same folder, and resume NEW-ID."
    )
