"""Changing a conversation afterwards, by facts: what does not count any more, what was never said, another name.

Nothing is rewritten. The facts made here are recorded like any others, and the fold knows what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aar.errors import InvalidMessage, SessionError
from aar.journal.state import RENAMED
from aar.journal.transcript import REWOUND, Transcript
from aar.messages.content import TextBlock
from aar.messages.events import (
    AssistantMessage,
    Compacted,
    Event,
    Recorded,
    SessionEvent,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

__all__ = [
    "LONGEST_NAME",
    "SNAPSHOT",
    "PastTurn",
    "dropping",
    "inserted",
    "past_turns",
    "renamed",
    "rewound_to",
    "standing",
]

LONGEST_NAME = 100  # characters

SNAPSHOT = "snapshot"
"""Where a `turn_started` fact names the state of the files before its turn, if somebody kept it."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A turn that a conversation can go back to.

    `before` counts the messages in front of it, `None` when they have been summarised since. `snapshot` names the
    files as they were then, empty where they were not kept.
    """

    said: str = ""
    before: int | None = None
    snapshot: str = ""
    timestamp: float = 0.0


def past_turns(records: Iterable[Recorded]) -> list[PastTurn]:
    """The turns whose prompts are part of the conversation, and those before a summary, oldest first."""
    turns: list[PastTurn] = []
    transcript = Transcript()
    for seq, _, event in records:
        if isinstance(event, TurnStarted):
            snapshot = str(event.data.get(SNAPSHOT) or "")
            turns.append(PastTurn("", len(transcript), snapshot, event.timestamp))
        elif isinstance(event, UserMessage) and turns and not turns[-1].said and event.data.get("kind") == "prompt":
            turns[-1] = replace(turns[-1], said=_typed(event))
        transcript.apply(event, seq=seq)
        if isinstance(event, Compacted):
            turns = [replace(turn, before=None) for turn in turns]
        elif _is_rewind(event):
            turns = [turn for turn in turns if turn.before is None or turn.before < len(transcript)]
    return turns


def standing(records: Sequence[Recorded]) -> Sequence[Recorded]:
    """The facts that count: without those of messages that were taken back, and without the taking back itself."""
    if not any(_is_rewind(record.event) for record in records):
        return records
    kept: list[tuple[int, Recorded]] = []  # beside each, in front of which message it stands
    transcript, places = Transcript(), dict[str, int]()  # of calls and turns, with which their ends go or stay
    for record in records:
        end = _end_of(record)
        place = len(transcript) if end is None else places.get(end, len(transcript))
        transcript.apply(record.event, seq=record.seq)
        if (beginning := _beginning_of(record)) is not None:
            places[beginning] = place
        if _is_rewind(record.event):
            kept = [(at, one) for at, one in kept if at < len(transcript)]
            continue
        if isinstance(record.event, Compacted):  # what a summary stands for is not taken back any more
            kept = [(-1, one) for _, one in kept]
        kept.append((place, record))
    return [record for _, record in kept]


def _beginning_of(record: Recorded) -> str | None:
    match record.event:
        case TurnStarted():
            return record.turn_id
        case ToolCall(tool_call_id=call_id):
            return call_id
    return None


def _end_of(record: Recorded) -> str | None:
    match record.event:
        case TurnEnded():
            return record.turn_id
        case ToolResult(tool_call_id=call_id):
            return call_id
    return None


def _is_rewind(event: Event) -> bool:
    return isinstance(event, SessionEvent) and event.action == REWOUND


def _typed(event: UserMessage) -> str:
    """What somebody typed, without what goes along in front of it."""
    last = event.parts[-1] if event.parts else None
    return last.text if isinstance(last, TextBlock) else str(event.data.get("said", event.content))


def rewound_to(transcript: Transcript, count: int) -> SessionEvent:
    """Go on from the first `count` messages, or fewer: a tool call is never parted from its result.

    Raises `SessionError` when that leaves nothing out.
    """
    messages = transcript.messages()
    if not 0 <= count < len(messages):
        raise SessionError(f"there are only {len(messages)} messages: nothing would be dropped")
    sizes = transcript.sizes()
    while count and sizes.is_joined(count):
        count -= 1
    return SessionEvent(action=REWOUND, data={"messages": count, "dropped": len(messages) - count})


def dropping(transcript: Transcript, number: int) -> SessionEvent:
    """Go on without the newest `number` messages, and a call whose result is among them. Raises `SessionError`."""
    if number < 1:
        raise SessionError("say how many messages are to be dropped: 1 or more")
    if not len(transcript):
        raise SessionError("there is nothing to drop: nothing has been said yet")
    return rewound_to(transcript, max(0, len(transcript) - number))


def inserted(transcript: Transcript, role: str, text: str) -> Event:
    """A message that nobody said. Raises `InvalidMessage` for another role than user and assistant, and no text."""
    if not text.strip():
        raise InvalidMessage("there is no text to insert")
    if role == "user":
        return UserMessage(content=text, data={"kind": "inserted"})
    if role != "assistant":
        raise InvalidMessage(f"the role is `user` or `assistant`, not {role!r}")
    if not len(transcript):
        raise InvalidMessage("a conversation begins with a message of the user: insert that first")
    return AssistantMessage(content=text, data={"inserted": True})


def renamed(name: str) -> SessionEvent:
    """Give a session this name, or take its name away with an empty one. Raises `InvalidMessage`."""
    name = " ".join(name.split())
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidMessage(f"a name has at most {LONGEST_NAME} characters, each of which can be shown")
    return SessionEvent(action=RENAMED, data={"name": name})
