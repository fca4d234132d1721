"""What waits in a session until a turn takes it: prompts, follow-ups, and what is said into a running turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aar.actors.running import text_of
from aar.errors import AarError, QueueFull, StoreError
from aar.journal.journal import Journal
from aar.kernel import Envelope
from aar.messages.base import new_turn_id
from aar.messages.events import Notice, PromptQueued, PromptsCleared, TurnEnded, UserMessage
from aar.messages.session import Prompt, Queue, QueuedPrompt

__all__ = ["PromptQueue"]


class PromptQueue:
    """At most `limit` of each kind. `steering` and `follow_ups` are lists that turns take from.

    What waits for a turn is on record before it waits, so that the session's next life knows of it.
    """

    def __init__(self, journal: Journal, limit: int) -> None:
        self._journal = journal
        self._limit = limit
        # Short lists: a deque takes room for 64 entries at once, in each of a thousand idle sessions.
        self._prompts: list[tuple[Prompt, Envelope[Any]]] = []
        self.steering: list[UserMessage] = []
        self.follow_ups: list[UserMessage] = []

    def __len__(self) -> int:
        return len(self._prompts) + len(self.follow_ups)

    @property
    def has_prompts(self) -> bool:
        return bool(self._prompts)

    # --- coming in ---

    async def put(self, prompt: Prompt, envelope: Envelope[Any]) -> None:
        """Raises `QueueFull`, `StoreError`; then it does not wait."""
        if len(self._prompts) >= self._limit:
            raise QueueFull(f"{len(self._prompts)} prompts wait already; cancel some or wait for a turn to end")
        data = {"kind": "prompt", "turn_id": prompt.turn_id}
        await self._journal.append(PromptQueued(content=text_of(prompt), parts=prompt.parts, data=data))
        self._prompts.append((prompt, envelope))

    def steer_nowait(self, content: str) -> bool:
        """Whether there was room."""
        if len(self.steering) >= self._limit:
            return False
        self.steering.append(UserMessage(content=content, data={"kind": "steering"}))
        return True

    async def put_follow_up(self, content: str) -> None:
        """One that has no room is turned away."""
        if len(self.follow_ups) >= self._limit:
            await self.turn_away("follow-ups")
            return
        name = new_turn_id()
        await self._journal.append(PromptQueued(content=content, data={"kind": "follow_up", "turn_id": name}))
        self.follow_ups.append(UserMessage(content=content, data={"kind": "follow_up", "queued_as": name}))

    async def turn_away(self, what: str) -> None:
        """Put on record that something was not taken, since nobody waits for an answer."""
        text = f"{self._limit} messages ({what}) wait already; this one was not taken."
        await self._journal.append(Notice(kind="queue_full", text=text))

    # --- going out ---

    def next_prompt(self) -> tuple[Prompt, Envelope[Any]] | None:
        return self._prompts.pop(0) if self._prompts else None

    async def withdraw(self, turn_id: str | None) -> None:
        """A prompt that waits is answered as cancelled. Raises `StoreError`, as its asker learns, too."""
        found = [item for item in self._prompts if item[0].turn_id == turn_id]
        if found:
            self._prompts = [item for item in self._prompts if item not in found]
            await self._drop(found, PromptsCleared(count=len(found), data={"turn_ids": [turn_id]}))

    async def clear(self, running: str | None) -> Queue:
        """Answers with what waited. Raises `StoreError`; then it waits no more all the same."""
        cleared = self.listing(running)
        dropped, self._prompts = self._prompts, []
        self.follow_ups.clear()
        if cleared.items:
            names = [item.turn_id for item in cleared.items]
            await self._drop(dropped, PromptsCleared(count=len(names), data={"turn_ids": names}))
        return cleared

    async def _drop(self, prompts: Sequence[tuple[Prompt, Envelope[Any]]], fact: PromptsCleared) -> None:
        """These are out of the queue, whether that can be recorded or not; their askers learn which."""
        try:
            await self._journal.append(fact)
        except StoreError as error:
            for _, envelope in prompts:
                envelope.fail(error)
            raise
        for prompt, envelope in prompts:
            envelope.reply(TurnEnded(stop="cancelled", data={"turn_id": prompt.turn_id, "never_ran": True}))

    def forget_prompts(self) -> None:
        """Without an answer: their askers are told by the supervisor."""
        self._prompts.clear()

    def refuse_prompts(self, error: AarError) -> None:
        for _, envelope in self._prompts:
            envelope.fail(error)
        self._prompts.clear()

    # --- looking ---

    def listing(self, running: str | None) -> Queue:
        """All that waits, also from a former life of the session. `running` is the turn that does not wait any more."""
        waiting = [QueuedPrompt(turn_id=prompt.turn_id, content=text_of(prompt)) for prompt, _ in self._prompts]
        later = [
            QueuedPrompt(turn_id=str(said.data["queued_as"]), content=said.content, is_follow_up=True)
            for said in self.follow_ups
        ]
        live = {running, *(item.turn_id for item in (*waiting, *later))}
        stored = [
            QueuedPrompt(turn_id=turn_id, content=fact.content, is_stored=True)
            for turn_id, fact in self._journal.session.queued.items()
            if turn_id not in live
        ]
        return Queue(items=[*stored, *waiting, *later])
