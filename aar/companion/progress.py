"""What the companion has seen and how it feels: frozen data, and a fold over events and ticks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    ReasoningBlock,
    StreamChunk,
    ToolCall,
    TurnEnded,
)

__all__ = ["BASELINE", "LEVELS", "Companion", "Mood", "level_of"]

Mood = Literal["happy", "sleeping", "focused", "thinking", "excited", "stressed", "level_up"]

LEVELS = (0, 5, 15, 30, 50)  # tool calls at which levels 1 to 5 begin
TICK = 0.4  # seconds, for what is read from a journal
CELEBRATION = 8  # ticks
RECENT = 200  # events that a mood may come from
SLEEPS_AFTER = 60  # ticks in which nothing happens
MANY_DIRTY_FILES = 5
BASELINE = "companion_baseline"  # in a session's metadata: what was there before its first fact


@dataclass(frozen=True, slots=True)
class Companion:
    """`steps` are tool calls. `quiet` counts ticks since something happened, `joy` those left of a celebration.

    `doing` is the mood of the work at hand, `None` while there is none. `dirty` is the number of changed files in the
    git folder, `None` when it is not known.
    """

    steps: int = 0
    errors: int = 0
    doing: Mood | None = None
    quiet: int = 0
    joy: int = 0
    dirty: int | None = None

    @property
    def level(self) -> int:
        """From 1 to 5."""
        return level_of(self.steps)

    @property
    def xp(self) -> float:
        """How much of this level is done, from 0 to 1. The last level is done from the start."""
        if self.level == len(LEVELS):
            return 1.0
        begin, end = LEVELS[self.level - 1], LEVELS[self.level]
        return (self.steps - begin) / (end - begin)

    @property
    def mood(self) -> Mood:
        """A new level is celebrated whatever else happens."""
        if self.joy:
            return "level_up"
        if self.quiet > SLEEPS_AFTER:
            return "sleeping"
        if self.doing is not None:
            return self.doing
        if not self.dirty:
            return "happy"
        return "stressed" if self.dirty >= MANY_DIRTY_FILES else "focused"

    def after(self, event: Event) -> Companion:
        """What it is once this has happened. Any event wakes it."""
        match event:
            case ToolCall():
                more = self.steps + 1
                joy = CELEBRATION if level_of(more) > self.level else self.joy
                return replace(self, steps=more, doing="focused", quiet=0, joy=joy)
            case ErrorEvent():
                return replace(self, errors=self.errors + 1, doing="stressed", quiet=0)
            case TurnEnded():
                return replace(self, doing=None, quiet=0)
            case StreamChunk(text="", reasoning_text="") | AssistantMessage(content=""):
                return self.busy(self.doing)
            case StreamChunk(text="") | ReasoningBlock():
                return self.busy("thinking")
            case StreamChunk() | AssistantMessage():
                return self.busy("excited")
        return self.busy(self.doing)

    def busy(self, doing: Mood | None) -> Companion:
        return self if (doing, 0) == (self.doing, self.quiet) else replace(self, doing=doing, quiet=0)

    def ticked(self, count: int = 1) -> Companion:
        """So many intervals of the animation later."""
        return replace(self, quiet=self.quiet + count, joy=max(0, self.joy - count))

    def with_dirty(self, count: int | None) -> Companion:
        """It has looked at the git folder, which wakes nobody."""
        return replace(self, dirty=count)

    def as_baseline(self) -> dict[str, int]:
        """What a session that continues this one keeps in its metadata as `companion_baseline`."""
        return {"steps": self.steps, "errors": self.errors}

    @classmethod
    def of(cls, events: Sequence[Event], metadata: Mapping[str, Any] | None = None) -> Companion:
        """As it is right after these events of a session, on top of the baseline in its metadata."""
        companion = cls.resting(events[:-RECENT], metadata)
        then = 0.0
        for event in events[-RECENT:]:
            if count := int((event.timestamp - then) / TICK):
                companion = companion.ticked(max(0, count))
            companion, then = companion.after(event), event.timestamp
        return companion

    @classmethod
    def resting(cls, events: Iterable[Event], metadata: Mapping[str, Any] | None = None) -> Companion:
        """With the progress of these events, and nothing going on: as when an old session is opened."""
        steps, errors = _baseline((metadata or {}).get(BASELINE))
        for event in events:
            steps += isinstance(event, ToolCall)
            errors += isinstance(event, ErrorEvent)
        return cls(steps, errors)


def level_of(steps: int) -> int:
    """The level, from 1, of so many tool calls."""
    return sum(begin <= steps for begin in LEVELS)


def _baseline(told: object) -> tuple[int, int]:
    """Steps and errors. What makes no sense counts as nothing: metadata may be anybody's."""
    if not isinstance(told, Mapping):
        return _count(told), 0
    return _count(told.get("steps")), _count(told.get("errors"))


def _count(told: object) -> int:
    return max(0, told) if isinstance(told, int) and not isinstance(told, bool) else 0
