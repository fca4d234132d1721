"""Changing what a session says, and what it did to the files: taken back, put in, named, written out.

Facts are made from what is known when they are asked for, and refused when more has been said by then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, NamedTuple

from aar.errors import SessionError
from aar.handle import SessionHandle
from aar.journal.revision import PastTurn, dropping, inserted, past_turns, renamed, rewound_to
from aar.journal.views import Messages
from aar.messages.events import SessionEvent
from aar.snapshots import Change, Snapshots

__all__ = ["PastTurn", "Undone", "drop", "exported", "insert", "rename", "turns_of", "undo"]

What = Literal["both", "files", "messages"]


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
    return await _rewound(handle, dropping(handle.snapshot().transcript, number), handle.seq)


async def _rewound(handle: SessionHandle, fact: SessionEvent, seq: int) -> int:
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


def turns_of(handle: SessionHandle) -> list[PastTurn]:
    """The turns that can be taken back, newest first."""
    return past_turns(handle.records())[::-1]


async def undo(handle: SessionHandle, home: Path, number: int, what: What = "both") -> Undone:
    """Go back to before the newest turn (1), the one before it (2), and so on.

    Files go first: where they cannot be brought back, the messages stay. Raises `SessionError` when there is no such
    turn or one is running, `StoreUnavailable` when the files are not kept.
    """
    seq, turns = handle.seq, turns_of(handle)
    if (await handle.status()).turn_id:
        raise SessionError("a turn is running: wait for its end, or cancel it, before you take something back")
    if not 1 <= number <= len(turns):
        raise SessionError(f"there are {len(turns)} turns to take back, and none with the number {number}")
    done = Undone(turns[number - 1])
    if what != "messages":
        done = await _files_of(handle, home, done, is_wanted=what == "files")
    if what != "files":
        done = await _messages_of(handle, seq, done)
    return done


async def _files_of(handle: SessionHandle, home: Path, done: Undone, *, is_wanted: bool) -> Undone:
    if not done.turn.snapshot:
        if is_wanted:
            raise SessionError("the files were not kept before that turn: `file_snapshots` in the settings keeps them")
        return done
    snapshots = Snapshots(home, handle.cwd)
    before, changes = await snapshots.bring_back(handle.session_id, done.turn.snapshot)
    return done._replace(before=before, files=tuple(sorted(changes, key=lambda change: change.path)))


async def _messages_of(handle: SessionHandle, seq: int, done: Undone) -> Undone:
    if done.turn.before is None:
        raise SessionError("that turn has been summarised since: its messages cannot be taken back")
    fact = rewound_to(handle.snapshot().transcript, done.turn.before)
    return done._replace(messages=await _rewound(handle, fact, seq))


def exported(handle: SessionHandle, *, as_json: bool = False) -> str:
    """The conversation for people, or for programs."""
    messages = Messages.of(handle.snapshot())
    if not as_json:
        return messages.for_export()
    return json.dumps(messages.for_structured_export(), ensure_ascii=False, indent=2) + "\n"
