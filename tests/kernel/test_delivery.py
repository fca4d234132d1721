"""What holds for every interleaving of senders, crashes and stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from aar.errors import ActorCrashed, ActorStopped
from aar.kernel import Child, Mailbox, Ref, Request, open_supervisor

DELAYS = st.sampled_from([0.0, 0.0, 0.001, 0.010, 0.015])


@dataclass(frozen=True)
class Numbered(Request[tuple[int, int]]):
    sender: int
    number: int
    work: float = 0.0
    fatal: bool = False

    @property
    def key(self) -> tuple[int, int]:
        return self.sender, self.number


class Reading:
    """A service that notes what it sees, works on it, and crashes or answers."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    async def run(self, mailbox: Mailbox[Any]) -> None:
        async for envelope in mailbox:
            self.seen.append(envelope.message.key)
            await trio.sleep(envelope.message.work)
            if envelope.message.fatal:
                raise RuntimeError("this message is a bug")
            envelope.reply(envelope.message.key)


def steps(extra: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[tuple[float, float, bool, Any]]]]:
    """For each sender its messages: wait before, work on it, fatal, and something of the test's own."""
    step = st.tuples(DELAYS, DELAYS, st.booleans(), extra)
    return st.lists(st.lists(step, max_size=6), min_size=1, max_size=4)


@given(plans=steps(st.booleans()), capacity=st.integers(min_value=1, max_value=4))
def test_every_message_is_seen_once_and_in_the_order_of_its_sender(plans: list[Any], capacity: int) -> None:
    reading = Reading()

    async def send(ref: Ref[Any], sender: int) -> None:
        for number, (wait, work, fatal, told) in enumerate(plans[sender]):
            await trio.sleep(wait)
            message = Numbered(sender, number, work, fatal)
            if told:
                await ref.tell(message)
            else:
                try:
                    assert await ref.ask(message) == message.key
                except ActorCrashed:
                    assert fatal

    async def main() -> None:
        async with open_supervisor(max_restarts=1000) as supervisor:
            ref: Ref[Any] = supervisor.start(Child("reading", reading.run, capacity=capacity))
            async with trio.open_nursery() as nursery:
                for sender in range(len(plans)):
                    nursery.start_soon(send, ref, sender)
            await ref.ask(Numbered(-1, 0))  # behind all the others

    trio.run(main, clock=MockClock(autojump_threshold=0))
    by_sender = [[number for sender, number in reading.seen if sender == wanted] for wanted in range(len(plans))]
    assert by_sender == [list(range(len(plan))) for plan in plans]


@given(plans=steps(st.sampled_from([0.001, 0.010, None])), stop_at=DELAYS, grace=DELAYS)
def test_every_asker_hears_something_whatever_happens(plans: list[Any], stop_at: float, grace: float) -> None:
    reading, outcomes = Reading(), []

    async def ask(ref: Ref[Any], sender: int) -> None:
        for number, (wait, work, fatal, patience) in enumerate(plans[sender]):
            await trio.sleep(wait)
            message = Numbered(sender, number, work, fatal)
            with trio.move_on_after(3600 if patience is None else patience) as limit:
                try:
                    assert await ref.ask(message) == message.key
                    assert not fatal
                    outcomes.append("answered")
                except ActorCrashed:
                    assert fatal
                    outcomes.append("crashed")
                except ActorStopped:
                    outcomes.append("stopped")
            if limit.cancelled_caught:
                assert patience is not None, "an asker waited in vain"
                outcomes.append("left")

    async def main() -> None:
        async with open_supervisor(max_restarts=1000) as supervisor:
            ref: Ref[Any] = supervisor.start(Child("reading", reading.run, capacity=2))
            async with trio.open_nursery() as nursery:
                for sender in range(len(plans)):
                    nursery.start_soon(ask, ref, sender)
                await trio.sleep(stop_at)
                await supervisor.stop("reading", grace=grace)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert len(outcomes) == sum(len(plan) for plan in plans)
    assert len(reading.seen) == len(set(reading.seen))
