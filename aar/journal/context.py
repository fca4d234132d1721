"""What of a conversation fits into a model's window. Trimming changes what is sent, never what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from aar.journal.sizes import CHARACTERS_PER_TOKEN, Sizes, estimate_token_count
from aar.journal.transcript import Transcript
from aar.messages.provider import History, NeutralMessage

__all__ = ["ContextStrategy", "estimate_token_count", "trim", "trim_messages"]

ContextStrategy = Literal["sliding_window", "compact", "none"]

_TAIL_SHARE = 0.75  # of the window, for what follows the marker


class _Cut(NamedTuple):
    """Keep the first `head` messages, then those from `start` on. `tokens` is about what lies between."""

    head: int
    start: int
    tokens: int

    @property
    def dropped(self) -> int:
        return self.start - self.head

    def marker(self) -> NeutralMessage:
        text = (
            f"[Earlier conversation truncated — {self.dropped} messages comprising approximately {self.tokens} "
            "tokens were removed to fit context window]"
        )
        return {"role": "user", "content": text}


def trim(transcript: Transcript, window: int, strategy: ContextStrategy = "sliding_window") -> tuple[History, int]:
    """The history for a window of so many tokens, and how many messages had to be left out.

    `window` 0 means no limit. Calls stay with their results; the newest message (or pair) always stays. Costs the
    same for any length of conversation.
    """
    sizes = transcript.sizes()
    cut = _cut(sizes, window, strategy)
    if not cut.dropped:
        return transcript.history(), 0
    lead = [*(transcript[index] for index in range(cut.head)), cut.marker()] if cut.head else []
    return transcript.part_of_history(cut.start, lead), cut.dropped


def trim_messages(
    messages: Sequence[NeutralMessage], window: int, strategy: ContextStrategy = "sliding_window"
) -> tuple[list[NeutralMessage], int]:
    """The same for a plain list of messages."""
    cut = _cut(Sizes(tail=messages), window, strategy)
    if not cut.dropped:
        return list(messages), 0
    lead = [*messages[: cut.head], cut.marker()] if cut.head else []
    return [*lead, *messages[cut.start :]], cut.dropped


def _cut(sizes: Sizes, window: int, strategy: ContextStrategy) -> _Cut:
    whole = _Cut(0, 0, 0)
    if strategy == "none" or window <= 0 or sizes.total // CHARACTERS_PER_TOKEN <= window:
        return whole
    if strategy == "sliding_window":
        return _Cut(0, sizes.first_fitting(_characters(window)), 0)
    if len(sizes) <= 2:
        return whole
    head = 1
    while head < len(sizes) and sizes.is_joined(head):
        head += 1
    if head == len(sizes):
        return whole
    start = sizes.first_fitting(_characters(int(_TAIL_SHARE * window)), head)
    return _Cut(head, start, (sizes.before(start) - sizes.before(head)) // CHARACTERS_PER_TOKEN)


def _characters(tokens: int) -> int:
    """The most characters that are estimated as so many tokens."""
    return tokens * CHARACTERS_PER_TOKEN + CHARACTERS_PER_TOKEN - 1
