"""Changing a conversation afterwards, by facts: what does not count any more, what was never said, another name.

Nothing is rewritten. The facts made here are recorded like any others, and the fold knows what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aar.errors import InvalidMessage, SessionError
from aar.journal.state import RENAMED
from aar.journal.transcript import REWOUND, Transcript
from aar.messages.content import TextBlock
from aar.messages.events import AssistantMessage, Compacted, Event, Recorded, SessionEvent, TurnStarted, UserMessage

__all__ = ["LONGEST_NAME", "SNAPSHOT", "PastTurn", "dropping", "inserted", "past_turns", "renamed", "rewound_to"]

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
        elif isinstance(event, SessionEvent) and event.action == REWOUND:
            turns = [turn for turn in turns if turn.before is None or turn.before < len(transcript)]
    return turns


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
