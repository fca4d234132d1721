"""Changing what a session says, and what it did to the files: taken back, put in, named, written out.

Facts are made from what is known when they are asked for, and refused when more has been said by then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, NamedTuple

from aar.errors import SessionError
from aar.handle import SessionHandle
from aar.journal.revision import SNAPSHOT, PastTurn, dropping, inserted, past_turns, renamed, rewound_to, standing
from aar.journal.views import Messages
from aar.messages.events import Event, Notice, Recorded
from aar.snapshots import Change, Snapshots

__all__ = [
    "PastTurn",
    "Undone",
    "What",
    "drop",
    "exported",
    "insert",
    "redo",
    "rename",
    "shown_records",
    "turns_of",
    "undo",
]

What = Literal["both", "files", "messages"]

_NAMED = 10  # files in the fact about them


class Undone(NamedTuple):
    """What was taken back: how many messages, and what became of which files, in the order of their names.

    `before` names the snapshot of the files as they were until then, empty where no file was looked at.
    """

    turn: PastTurn
    messages: int = 0
    files: tuple[Change, ...] = ()
    before: str = ""


async def drop(handle: SessionHandle, number: int) -> int:
    """Go on without the newest messages, and the calls of results among them; gives how many. Raises `SessionError`."""
    seq, fact = handle.seq, dropping(handle.snapshot().transcript, number)
    await handle.adopt([fact], after_seq=seq)
    return int(fact.data["dropped"])


async def insert(handle: SessionHandle, role: str, text: str) -> None:
    """Let the conversation have a message that nobody said. Raises `InvalidMessage`, `SessionError`."""
    seq = handle.seq
    await handle.adopt([inserted(handle.snapshot().transcript, role, text)], after_seq=seq)


async def rename(handle: SessionHandle, name: str) -> str:
    """Name a session, or take its name away with an empty one; gives the name. Raises `InvalidMessage`."""
    fact = renamed(name)
    await handle.adopt([fact])
    return str(fact.data["name"])


def shown_records(handle: SessionHandle, *, after: int = 0) -> list[Recorded]:
    """The facts so far, without what was taken back: for whoever tells a conversation from its beginning."""
    return [record for record in standing(handle.records()) if record.seq > after]


def turns_of(handle: SessionHandle) -> list[PastTurn]:
    """The turns that can be taken back, newest first."""
    return past_turns(handle.records())[::-1]


async def undo(handle: SessionHandle, home: Path, number: int, what: What = "both") -> Undone:
    """Go back to before the newest turn (1), the one before it (2), and so on.

    Where the files cannot be brought back, the messages stay. Raises `SessionError` when there is no such
    turn or one is running, `StoreUnavailable` when the files are not kept.
    """
    seq, turns = handle.seq, turns_of(handle)
    await _check_idle(handle)
    if not 1 <= number <= len(turns):
        raise SessionError(f"there are {len(turns)} turns to take back, and none with the number {number}")
    done, facts = Undone(turns[number - 1]), list[Event]()
    if what != "files":
        done, facts = _without_messages(handle, done)
    if what != "messages" and (done.turn.snapshot or what == "files"):
        done = await _with_files(handle, home, done)
    await _record(handle, done, facts, seq)
    return done


async def redo(handle: SessionHandle, home: Path) -> Undone:
    """Make the files what they were before the newest undo that changed some, or redo. Raises as `undo`."""
    events = [record.event for record in handle.records()]
    kept = [str(event.data[SNAPSHOT]) for event in events if isinstance(event, Notice) and SNAPSHOT in event.data]
    if not kept:
        raise SessionError("no files were brought back in this session")
    seq = handle.seq
    await _check_idle(handle)
    done = await _with_files(handle, home, Undone(PastTurn(snapshot=kept[-1])))
    await _record(handle, done, [], seq)
    return done


async def _check_idle(handle: SessionHandle) -> None:
    if (await handle.status()).turn_id:
        raise SessionError("a turn is running: wait for its end, or cancel it, before you take something back")


def _without_messages(handle: SessionHandle, done: Undone) -> tuple[Undone, list[Event]]:
    if done.turn.before is None:
        raise SessionError("that turn has been summarised since: its messages cannot be taken back")
    fact = rewound_to(handle.snapshot().transcript, done.turn.before)
    return done._replace(messages=int(fact.data["dropped"])), [fact]


async def _with_files(handle: SessionHandle, home: Path, done: Undone) -> Undone:
    if not done.turn.snapshot:
        raise SessionError("the files were not kept before that turn: `file_snapshots` in the settings keeps them")
    before, changes = await Snapshots(home, handle.cwd).bring_back(handle.session_id, done.turn.snapshot)
    return done._replace(before=before, files=tuple(sorted(changes, key=lambda change: change.path)))


async def _record(handle: SessionHandle, done: Undone, facts: list[Event], seq: int) -> None:
    """What was done to the files is on record, also when something was said meanwhile and the messages stay."""
    notices: list[Event] = []
    if done.files:
        text = f"Files were brought back: {', '.join(change.path for change in done.files[:_NAMED])}"
        more = f" and {len(done.files) - _NAMED} more" if len(done.files) > _NAMED else ""
        notices = [Notice(kind="files", text=text + more, data={SNAPSHOT: done.before})]
    try:
        if facts or notices:
            await handle.adopt([*notices, *facts], after_seq=seq)
    except SessionError:
        if notices:
            await handle.adopt(notices)
        raise


def exported(handle: SessionHandle, *, as_json: bool = False) -> str:
    """The conversation for people, or for programs."""
    messages = Messages.of(handle.snapshot())
    if not as_json:
        return messages.for_export()
    return json.dumps(messages.for_structured_export(), ensure_ascii=False, indent=2) + "\n"
