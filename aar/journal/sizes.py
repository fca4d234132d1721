"""How big messages are, roughly: what trimming counts in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aar.messages.provider import NeutralMessage

__all__ = ["CHARACTERS_PER_TOKEN", "Sizes", "answers_calls", "character_count", "estimate_token_count"]

CHARACTERS_PER_TOKEN = 4


def character_count(message: NeutralMessage) -> int:
    """Characters of the text, or of `text`, `content` and `input` of each block; media count nothing."""
    content = message["content"]
    if isinstance(content, str):
        return len(content)
    return sum(_length(block.get(key, "")) for block in content for key in ("text", "content", "input"))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(str(value))


def estimate_token_count(messages: Iterable[NeutralMessage]) -> int:
    """Characters of all messages, divided by four, rounded down."""
    return sum(map(character_count, messages)) // CHARACTERS_PER_TOKEN


def answers_calls(message: NeutralMessage) -> bool:
    """Whether the message holds tool results, and so means nothing without the message before it."""
    content = message["content"]
    return not isinstance(content, str) and any(block.get("type") == "tool_result" for block in content)


class Sizes:
    """The sizes of messages in a row, so that any stretch of them is measured in one subtraction.

    `ends[i]` counts the characters up to and with message `i`; `joined[i]` says that message `i` must stay with the
    one before it. Both may be shared with a longer row that goes on growing: only `count` of them are looked at.
    """

    __slots__ = ("_count", "_ends", "_joined", "_tail", "_tail_ends")

    def __init__(
        self, ends: Sequence[int] = (), joined: Sequence[bool] = (), tail: Sequence[NeutralMessage] = ()
    ) -> None:
        self._ends = ends
        self._joined = joined
        self._count = len(ends)
        self._tail = tail
        self._tail_ends: list[int] = []
        total = ends[-1] if ends else 0
        for message in tail:
            total += character_count(message)
            self._tail_ends.append(total)

    def __len__(self) -> int:
        return self._count + len(self._tail)

    @property
    def total(self) -> int:
        return self.before(len(self))

    def before(self, index: int) -> int:
        """Characters of the messages in front of `index`."""
        if index == 0:
            return 0
        if index <= self._count:
            return self._ends[index - 1]
        return self._tail_ends[index - self._count - 1]

    def is_joined(self, index: int) -> bool:
        if index < self._count:
            return self._joined[index]
        return answers_calls(self._tail[index - self._count])

    def first_fitting(self, characters: int, start: int = 0) -> int:
        """The first message from which all the rest has at most so many characters; at least the last pair."""
        end = len(self)
        index = _first(start, end - 1, lambda at: self.total - self.before(at) <= characters)
        while index < end and self.is_joined(index):
            index += 1
        if index == end:
            index = end - 1
            while index > start and self.is_joined(index):
                index -= 1
        return index


def _first(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The least index in `low..high` that fits, `high` if none does; what fits stays fitting further on."""
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low
