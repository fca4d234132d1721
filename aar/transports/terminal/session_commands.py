"""Slash commands that change or repeat what a session says: taken back, put in, named, written out, typed again."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from pathlib import Path
from typing import cast

import trio

from aar.conditions import Condition, parse_condition
from aar.directives import ended_well
from aar.errors import InvalidMessage, StoreUnavailable, ToolError
from aar.messages.events import AssistantMessage
from aar.messages.kinds import bookmark
from aar.revising import PastTurn, Undone, What, drop, exported, insert, redo, rename, turns_of, undo
from aar.session_facts import facts_of
from aar.transports.program.home import home_folder
from aar.transports.terminal.approval_commands import APPROVALS
from aar.transports.terminal.clipboard import copied
from aar.transports.terminal.skill_commands import SKILL
from aar.transports.terminal.slash import Inputs, Reply, SlashCommand, SlashCommands, Table

__all__ = ["SESSION", "words_of"]

ROUNDS = 10  # of an `/until` that says nothing else
MOST_ROUNDS = 100
SHOWN_TURNS = 20
SHOWN_FILES = 20
PREVIEW = 60  # characters of what was said


def words_of(text: str) -> list[str]:
    """What was typed behind a command, as a shell would split it; at white space where its quotes do not match."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _path(here: SlashCommands, text: str) -> Path:
    return Path(here.handle.cwd, os.path.expanduser(text))


# --- taken back, put in -----------------------------------------------------------------------


async def _drop(here: SlashCommands, rest: str) -> Reply:
    words = words_of(rest) or ["1"]
    if len(words) != 1 or not words[0].isdecimal():
        return Reply(problem="Usage: /drop N, with the number of messages")
    gone = await drop(here.handle, int(words[0][:9]))
    return Reply(text=f"{_counted(gone, 'message')} dropped: the model does not see them any more.")


async def _insert(here: SlashCommands, rest: str) -> Reply:
    role, _, text = rest.partition(" ")
    if not text.strip():
        return Reply(problem="Usage: /insert user TEXT or /insert assistant TEXT")
    await insert(here.handle, role.lower(), text.strip())
    return Reply(text=f"Inserted as a message of the {role.lower()}.")


async def _undo(here: SlashCommands, rest: str) -> Reply:
    words = words_of(rest)
    if not words:
        return Reply(table=_turns(turns_of(here.handle)))
    number, what = words[0], words[1] if len(words) > 1 else "both"
    if len(words) > 2 or not number.isdecimal() or what not in ("both", "files", "messages"):
        return Reply(problem="Usage: /undo, then /undo N [files|messages|both]")
    done = await undo(here.handle, home_folder(), int(number[:9]), cast("What", what))
    return Reply(text="\n".join(_told(done, what)))


async def _redo(here: SlashCommands, rest: str) -> Reply:
    if rest:
        return Reply(problem="Usage: /redo")
    return Reply(text="\n".join(_told_files(await redo(here.handle, home_folder()))))


def _turns(turns: Sequence[PastTurn]) -> Table:
    rows = [
        (str(number), f"{datetime.fromtimestamp(turn.timestamp):%H:%M}", _what_of(turn), _preview(turn.said))
        for number, turn in enumerate(turns[:SHOWN_TURNS], 1)
    ]
    return Table("Turns that /undo N takes back, with all after them", ("N", "at", "what", "said"), tuple(rows))


def _what_of(turn: PastTurn) -> str:
    return (
        ", ".join((*(["files"] if turn.snapshot else []), *(["messages"] if turn.before is not None else [])))
        or "nothing"
    )


def _told(done: Undone, what: str) -> list[str]:
    lines = [f"Back to before: {_preview(done.turn.said)}"]
    if what != "files":
        lines.append(f"{_counted(done.messages, 'message')} dropped.")
    if done.before:
        lines += _told_files(done)
    elif what == "both":
        lines.append("No file was brought back, since none were kept (`file_snapshots` in the settings keeps them).")
    return lines


def _told_files(done: Undone) -> list[str]:
    lines = [f"{_counted(len(done.files), 'file')} brought back."]
    lines += [f"  {change.what}: {change.path}" for change in done.files[:SHOWN_FILES]]
    lines += [f"  ... and {len(done.files) - SHOWN_FILES} more"] if len(done.files) > SHOWN_FILES else []
    lines += ["/redo makes the files what they were."] if done.files else []
    return lines


def _preview(text: str) -> str:
    line = " ".join(text.split()) or "[multimodal]"
    return line if len(line) <= PREVIEW else f"{line[: PREVIEW - 1]}…"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# --- named, written out -----------------------------------------------------------------------


async def _rename(here: SlashCommands, rest: str) -> Reply:
    name = await rename(here.handle, rest)
    return Reply(text=f"This session is named {name}." if name else "This session has no name any more.")


async def _export(here: SlashCommands, rest: str) -> Reply:
    words = words_of(rest)
    if len(words) != 1:
        return Reply(problem="Usage: /export FILE or /export clipboard")
    if words[0] == "clipboard":
        return _copied(here)
    path = _path(here, words[0])
    text = exported(here.handle, as_json=path.suffix.lower() == ".json")
    await trio.to_thread.run_sync(_write_new, path, text, abandon_on_cancel=True)
    return Reply(text=f"Written: {path}")


def _copied(here: SlashCommands) -> Reply:
    events = [record.event for record in here.handle.records()]
    answers = [event.content for event in events if isinstance(event, AssistantMessage) and event.content.strip()]
    if not answers:
        return Reply(problem="There is no answer yet.")
    copy = copied(answers[-1], os.environ)
    return Reply(text=copy.message, codes=copy.codes)


def _write_new(path: Path, text: str) -> None:
    """For its owner only, as the sessions are."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror or error}. Name another file.") from error


# --- conditions -------------------------------------------------------------------------------


async def _assert(here: SlashCommands, rest: str) -> Reply:
    if not rest:
        return Reply(problem="Usage: /assert CONDITION, as in /assert exists:README.md and not tool_errors_gt:0")
    word, more = _first_word(rest)
    condition = parse_condition(rest if more else word)
    if await _holds(here, condition):
        return Reply(text=f"It holds: {condition.text}")
    return Reply(problem=f"It does not hold: {condition.text}")


async def _until(here: SlashCommands, rest: str) -> Reply:
    most = ROUNDS
    if rest.startswith("--max "):
        number, _, rest = rest[6:].strip().partition(" ")
        most = int(number[:9]) if number.isdecimal() else 0
    text, prompt = _first_word(rest.strip())
    if not prompt or not 1 <= most <= MOST_ROUNDS:
        return Reply(problem=f"Usage: /until [--max 1..{MOST_ROUNDS}] 'CONDITION' PROMPT")
    return Reply(inputs=Inputs(_rounds(here, parse_condition(text), prompt, most), are_typed=True))


def _first_word(text: str) -> tuple[str, str]:
    """The first word, which may be quoted, and what follows as it was typed."""
    quote = text[:1]
    if quote in ("'", '"') and (end := text.find(quote, 1)) > 0:
        return text[1:end], text[end + 1 :].strip()
    word, _, rest = text.partition(" ")
    return word, rest.strip()


async def _rounds(here: SlashCommands, condition: Condition, prompt: str, most: int) -> AsyncGenerator[str, None]:
    """The prompt, as long as it does not hold. Looked at before the first round, too."""
    for done in range(most):
        if await _holds(here, condition, iteration=done):
            return
        yield prompt
    if not await _holds(here, condition, iteration=most):
        raise InvalidMessage(f"after {_counted(most, 'round')} this does not hold: {condition.text}")


async def _holds(here: SlashCommands, condition: Condition, *, iteration: int = 0) -> bool:
    handle = here.handle

    async def exists(path: str) -> bool:
        return await trio.to_thread.run_sync(os.path.lexists, _path(here, path), abandon_on_cancel=True)

    async def runs_well(command: str) -> bool:
        try:
            said = await handle.run_shell(command)
        except ToolError as error:
            raise InvalidMessage(f"bash:{command}: {error}") from error
        return ended_well(said)

    facts = facts_of(handle.snapshot(), here.config, iteration=iteration)
    return await condition.holds(facts, exists=exists, bash=runs_well)


# --- typed again ------------------------------------------------------------------------------


async def _replay(here: SlashCommands, rest: str) -> Reply:
    words = words_of(rest)
    if len(words) not in (1, 2) or not "".join(words[1:] or ["1"]).isdecimal():
        return Reply(problem="Usage: /replay FILE [START], with the number of the first item")
    from aar.transports.terminal.replaying import read_inputs

    start = int(words[1][:9]) if len(words) == 2 else 1
    inputs = await trio.to_thread.run_sync(read_inputs, _path(here, words[0]))
    if not 1 <= start <= len(inputs):
        return Reply(problem=f"{words[0]} has {_counted(len(inputs), 'item')}: there is no number {start}.")
    return Reply(inputs=Inputs(_each(inputs[start - 1 :]), are_typed=False))


async def _each(inputs: Sequence[str]) -> AsyncGenerator[str, None]:
    for one in inputs:
        yield one


async def _bookmark(here: SlashCommands, rest: str) -> Reply:
    if not rest.strip():
        return Reply(problem="Usage: /bookmark LABEL")
    label = " ".join(rest.split())
    await here.handle.adopt([bookmark(label)])
    return Reply(text=f"There is a bookmark now: {label}")


SESSION = (
    SlashCommand(("undo",), "[N [files|messages]]", "Show the turns; with a number, take them back.", _undo),
    SlashCommand(("redo",), "", "Make the files what they were before the last /undo.", _redo),
    SlashCommand(("drop",), "N", "Take back the newest messages.", _drop),
    SlashCommand(("insert",), "ROLE TEXT", "Put in a message of the user or the assistant.", _insert),
    SlashCommand(("assert",), "CONDITION", "Say whether a condition holds.", _assert),
    SlashCommand(("until",), "[--max N] 'CONDITION' PROMPT", "Say it again until a condition holds.", _until),
    SlashCommand(("replay",), "FILE [START]", "Take what stands in a file as if it were typed.", _replay),
    SlashCommand(("export",), "FILE|clipboard", "Write the conversation to a file, or copy the answer.", _export),
    SlashCommand(("rename",), "[NAME]", "Name this session.", _rename),
    SlashCommand(("bookmark",), "LABEL", "Put a divider with a label into the conversation.", _bookmark),
    *APPROVALS,
    SKILL,
)
"""For every interface in a terminal."""
