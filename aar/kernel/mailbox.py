"""Where messages wait: bounded, ordered, and outliving the service that reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from aar.errors import AarError, ActorStopped, MailboxFull
from aar.kernel.envelope import Answer, Envelope

__all__ = ["Mailbox", "MailboxStatistics"]

M = TypeVar("M")


class MailboxStatistics(NamedTuple):
    """`waiting` messages of at most `capacity`; `senders` wait for room; `owed` answers are not given yet."""

    capacity: int
    waiting: int
    senders: int
    owed: int


class Mailbox(Generic[M]):
    """A service iterates over it. Senders wait while it is full; a stopped one refuses with `ActorStopped`.

    It remembers which answers are owed for what was taken, so that nobody waits for a service that failed.
    """

    def __init__(self, name: str, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a mailbox holds at least one message")
        self.name = name
        self._capacity = capacity
        self._send: trio.MemorySendChannel[Envelope[M]]
        self._receive: trio.MemoryReceiveChannel[Envelope[M]]
        self._send, self._receive = trio.open_memory_channel[Envelope[M]](capacity)
        self._owed: list[Answer] = []
        self._sweep_at = 32  # forget given answers when so many are noted; grows with what is really owed
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

    def __aiter__(self) -> Mailbox[M]:  # no async generator: a service that leaves its loop would leave one open
        return self

    async def __anext__(self) -> Envelope[M]:
        return await self.take()

    async def take(self) -> Envelope[M]:
        """The oldest message; waits for one. Only a shielded clean-up can see `ActorStopped` here."""
        try:
            envelope = await self._receive.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise self._stopped() from None
        if envelope.answer is not None:
            self._note_owed(envelope.answer)
        return envelope

    def _note_owed(self, answer: Answer) -> None:
        if len(self._owed) >= self._sweep_at:
            self._owed = [owed for owed in self._owed if owed.is_owed]
            self._sweep_at = max(32, 2 * len(self._owed))
        self._owed.append(answer)

    # --- for the supervisor ---

    def fail_taken(self, new_error: Callable[[], AarError] | None = None) -> None:
        """Whoever still waits for an answer to a taken message gets an error of their own, else `ActorStopped`."""
        new_error = new_error or self._stopped
        owed, self._owed = self._owed, []
        for answer in owed:
            answer.fail(new_error())

    def close(self) -> None:
        """No message gets in or out any more: waiting askers, waiting senders and all later ones get `ActorStopped`.

        What was taken may still be answered, until `fail_taken`.
        """
        if self._closed:
            return
        self._closed = True
        self._send.close()  # first, so that draining lets no waiting sender in
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
            owed=sum(1 for answer in self._owed if answer.is_owed),
        )

    def __repr__(self) -> str:
        used: Any = "closed" if self._closed else self.statistics().waiting
        return f"<Mailbox {self.name} {used}/{self._capacity}>"
