"""What was said, as a model sees it: events in, valid messages out.

Whatever events come, every tool call is answered in the message after it, and no result stands without its call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aar.journal.sizes import Sizes, answers_calls, character_count
from aar.messages.events import (
    AssistantMessage,
    Compacted,
    Event,
    ReasoningBlock,
    SessionEvent,
    ToolCall,
    ToolResult,
    UserMessage,
)
from aar.messages.provider import History, NeutralMessage, has_images

__all__ = ["REWOUND", "SUMMARY_TITLE", "UNANSWERED", "Transcript", "to_messages"]

REWOUND = "rewound"
"""The action of a `session` fact that takes the conversation back to its first `data.messages` messages."""

SUMMARY_TITLE = "[Summary of the conversation so far]"
UNANSWERED = "Error: this tool call was cancelled before it gave a result."

Block = dict[str, Any]


def to_messages(events: Iterable[Event]) -> list[NeutralMessage]:
    """The messages that these events make."""
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript.messages()


class Transcript:
    """A fold over events. Each takes the same short time, however long the conversation is.

    Messages are *settled* as soon as nothing that may still come can change them. Settled messages are never
    changed; the few that are not are made afresh at each reading.
    """

    def __init__(self) -> None:
        self.known_call_ids: set[str] = set()
        self._seq = 0
        self._reasoning: list[Block] = []
        # Calls that no assistant message has taken yet, with the results that came early.
        self._calls: dict[str, Block] = {}
        self._early: dict[str, Block] = {}
        # Calls of the newest settled assistant message that wait for results, and those they have.
        self._open: set[str] = set()
        self._results: list[Block] = []
        self._start_over()

    def _start_over(self) -> None:
        """Begin a new settled part. Histories handed out keep the old one."""
        self._settled: list[NeutralMessage] = []
        self._seqs: list[int] = []
        self._ends: list[int] = []
        self._joined: list[bool] = []
        self._cache: dict[str, list[bytes | None]] = {}
        self._with_images: list[int] = []
        self._kept: dict[Any, Any] = {}

    def apply(self, event: Event, seq: int = 0) -> None:
        """Take in the next event. `seq` is its place in the journal; without it, events are counted."""
        self._seq = seq or self._seq + 1
        match event:
            case ToolCall():
                self._take_call(event)
            case ToolResult():
                self._take_result(event)
            case AssistantMessage():
                self._take_assistant(event)
            case UserMessage():
                self._take_user(event)
            case ReasoningBlock() if event.data.get("replay"):
                self._reasoning.append({"type": "reasoning", "text": event.content, "data": event.data})
            case Compacted():
                self._take_summary(event)
            case SessionEvent() if event.action == REWOUND:
                self._rewind(event.data.get("messages"))
            case _:
                pass

    def messages(self) -> list[NeutralMessage]:
        """All messages, the unanswered calls among them answered with an error."""
        return [*self._settled, *self._tail()]

    def history(self) -> History:
        """The same messages for a request; what was encoded for an earlier one is not encoded again."""
        return self.part_of_history()

    def part_of_history(self, start: int = 0, lead: Iterable[NeutralMessage] = ()) -> History:
        """`lead`, then the messages from `start` on."""
        tail = self._tail()[max(0, start - len(self._settled)) :]
        return History(
            self._settled,
            tail,
            lead=tuple(lead),
            start=start,
            cache=self._cache,
            with_images=self._with_images,
            kept=self._kept,
        )

    def before_newest(self, count: int) -> tuple[int, int]:
        """How many messages come before the newest `count`, and the place of the last of them in the journal.

        Both are 0 when there are none. What belongs together stays together, so there may be fewer.
        """
        index = max(0, len(self._settled) - count)
        while index and (self._joined[index] or self._seqs[index] == self._seqs[index - 1]):
            index -= 1
        return (index, self._seqs[index - 1]) if index else (0, 0)

    def sizes(self) -> Sizes:
        """The sizes of all messages, measured once each."""
        return Sizes(self._ends, self._joined, self._tail())

    def __len__(self) -> int:
        return len(self._settled) + len(self._tail())

    def __getitem__(self, index: int) -> NeutralMessage:
        settled = len(self._settled)
        return self._settled[index] if 0 <= index < settled else self.messages()[index]

    # --- events ---------------------------------------------------------------------------------

    def _take_call(self, event: ToolCall) -> None:
        if event.tool_call_id in self.known_call_ids:
            return
        self.known_call_ids.add(event.tool_call_id)
        self._calls[event.tool_call_id] = {
            "type": "tool_use",
            "id": event.tool_call_id,
            "name": event.tool_name,
            "input": event.arguments,
        }

    def _take_result(self, event: ToolResult) -> None:
        call_id = event.tool_call_id
        if call_id in self._open:
            self._open.discard(call_id)
            self._results.append(_result(call_id, event.output, event.is_error))
            if not self._open:
                self._settle_results()
        elif call_id in self._calls:
            self._early.setdefault(call_id, _result(call_id, event.output, event.is_error))

    def _take_assistant(self, event: AssistantMessage) -> None:
        self._close_calls()
        reasoning = self._reasoning if event.content or self._calls else []
        text = [{"type": "text", "text": event.content}] if event.content else []
        blocks = [*reasoning, *text, *self._calls.values()]
        plain = not reasoning and not self._calls
        if blocks:  # an empty answer says nothing, and some providers refuse one
            self._settle("assistant", event.content if plain else blocks)
        self._open_calls()

    def _take_user(self, event: UserMessage) -> None:
        self._settle_everything()
        if event.parts:
            self._settle("user", [part.model_dump(mode="json", exclude_none=True) for part in event.parts])
        else:
            self._settle("user", event.content)

    def _take_summary(self, event: Compacted) -> None:
        kept = self._first_after(event.up_to_seq)
        rest = list(zip(self._settled[kept:], self._seqs[kept:], strict=True))
        seq, self._seq = self._seq, event.up_to_seq
        self._start_over()
        self._settle("user", f"{SUMMARY_TITLE}\n\n{event.summary}")
        for message, self._seq in rest:
            self._settle(message["role"], message["content"])
        self._seq = seq

    def _rewind(self, count: object) -> None:
        """Only the first so many messages count from now on, fewer where a call would lose its results."""
        self._settle_everything()
        end = len(self._settled)
        keep = min(count, end) if type(count) is int and count >= 0 else end
        while 0 < keep < end and self._joined[keep]:
            keep -= 1
        kept, seq = list(zip(self._settled[:keep], self._seqs[:keep], strict=True)), self._seq
        self._start_over()
        for message, self._seq in kept:
            self._settle(message["role"], message["content"])
        self._seq = seq

    def _first_after(self, seq: int) -> int:
        """The first settled message that a summary up to `seq` does not cover; calls stay with their results."""
        index = len(self._settled)
        while index and self._seqs[index - 1] > seq:
            index -= 1
        waiting = index == len(self._settled) and bool(self._open)
        if index and (waiting or (index < len(self._settled) and self._joined[index])):
            index -= 1
        return index

    # --- settling -------------------------------------------------------------------------------

    def _settle(self, role: str, content: str | list[Block]) -> None:
        message: NeutralMessage = {"role": role, "content": content}
        if has_images(message):
            self._with_images.append(len(self._settled))
        self._settled.append(message)
        self._seqs.append(self._seq)
        self._ends.append((self._ends[-1] if self._ends else 0) + character_count(message))
        self._joined.append(answers_calls(message))

    def _open_calls(self) -> None:
        """The calls were just settled within an assistant message: their results come next."""
        self._open = set(self._calls) - set(self._early)
        self._results = list(self._early.values())
        self._calls, self._early, self._reasoning = {}, {}, []
        if self._results and not self._open:
            self._settle_results()

    def _settle_results(self) -> None:
        self._settle("user", self._results)
        self._results = []

    def _close_calls(self) -> None:
        """No result can come any more for the calls of the newest assistant message."""
        if self._open:
            self._results = self._answered()
            self._open = set()
            self._settle_results()

    def _settle_everything(self) -> None:
        self._close_calls()
        if self._calls:
            self._settle("assistant", [*self._reasoning, *self._calls.values()])
            self._open_calls()
            self._close_calls()
        self._reasoning = []

    def _answered(self) -> list[Block]:
        """The results there are, and an error for every open call, in the order of the calls."""
        calls = self._settled[-1]["content"]
        open_calls = [block["id"] for block in calls if isinstance(block, dict) and block.get("id") in self._open]
        return [*self._results, *(_result(call_id, UNANSWERED, True) for call_id in open_calls)]

    def _tail(self) -> list[NeutralMessage]:
        """What `_settle_everything` would settle now, without doing so."""
        tail: list[NeutralMessage] = []
        if self._open:
            tail.append({"role": "user", "content": self._answered()})
        if self._calls:
            tail.append({"role": "assistant", "content": [*self._reasoning, *self._calls.values()]})
            missing = [_result(call_id, UNANSWERED, True) for call_id in self._calls if call_id not in self._early]
            tail.append({"role": "user", "content": [*self._early.values(), *missing]})
        return tail


def _result(call_id: str, output: str, is_error: bool) -> Block:
    return {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error}
