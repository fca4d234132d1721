"""Where messages wait: bounded, ordered, and outliving the service that reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import trio

from aar.errors import AarError, ActorStopped, MailboxFull
from aar.kernel.envelope import Envelope

__all__ = ["Mailbox", "MailboxStatistics"]

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class MailboxStatistics:
    """`waiting` messages of at most `capacity`; `senders` wait for room; `owed` answers are not given yet."""

    capacity: int
    waiting: int
    senders: int
    owed: int


class Mailbox(Generic[M]):
    """A service iterates over it. Senders wait while it is full; a stopped one refuses with `ActorStopped`.

    It remembers which envelopes were taken and not answered, so that nobody waits for a service that failed.
    """

    def __init__(self, name: str, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a mailbox holds at least one message")
        self.name = name
        self._capacity = capacity
        self._send: trio.MemorySendChannel[Envelope[M]]
        self._receive: trio.MemoryReceiveChannel[Envelope[M]]
        self._send, self._receive = trio.open_memory_channel[Envelope[M]](capacity)
        self._taken: list[Envelope[M]] = []
        self._closed = False

    # --- for senders ---

    async def put(self, envelope: Envelope[M]) -> None:
        """Deliver; waits while the mailbox is full. Raises `ActorStopped`."""
        try:
            await self._send.send(envelope)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._stopped() from None

    def put_nowait(self, envelope: Envelope[M]) -> None:
        """Deliver at once or raise `MailboxFull` or `ActorStopped`."""
        try:
            self._send.send_nowait(envelope)
        except trio.WouldBlock:
            raise MailboxFull(f"{self.name} has {self._capacity} messages waiting; try again in a moment") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._stopped() from None

    # --- for the service ---

    async def __aiter__(self) -> AsyncIterator[Envelope[M]]:
        while True:
            yield await self.take()

    async def take(self) -> Envelope[M]:
        """The oldest message; waits for one."""
        envelope = await self._receive.receive()
        if envelope.answer is not None:
            if len(self._taken) >= 32:
                self._taken = [kept for kept in self._taken if kept.is_owed]
            self._taken.append(envelope)
        return envelope

    # --- for the supervisor ---

    def fail_taken(self, error: AarError) -> None:
        """Whoever still waits for an answer to a taken message gets `error`."""
        taken, self._taken = self._taken, []
        for envelope in taken:
            envelope.fail(error)

    def close(self) -> None:
        """Nothing is read any more: waiting askers and all later senders get `ActorStopped`."""
        if self._closed:
            return
        self._closed = True
        self.fail_taken(self._stopped())
        while True:
            try:
                self._receive.receive_nowait().fail(self._stopped())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        self._receive.close()

    def _stopped(self) -> ActorStopped:
        return ActorStopped(f"{self.name} is stopped")

    def statistics(self) -> MailboxStatistics:
        channel = self._receive.statistics()
        return MailboxStatistics(
            capacity=self._capacity,
            waiting=channel.current_buffer_used,
            senders=channel.tasks_waiting_send,
            owed=sum(1 for envelope in self._taken if envelope.is_owed),
        )

    def __repr__(self) -> str:
        used: Any = "closed" if self._closed else self.statistics().waiting
        return f"<Mailbox {self.name} {used}/{self._capacity}>"
