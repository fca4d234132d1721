"""What waits for a client: in order, and bounded."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from aar.errors import ClientGone
from aar.transports.stdio.outbox import MOST, ROOM, Outbox


class Reader:
    """A client that reads once it may."""

    def __init__(self) -> None:
        self.may_read = trio.Event()
        self.heard: list[bytes] = []

    async def write(self, data: bytes) -> None:
        await self.may_read.wait()
        self.heard.append(data)


async def test_everything_is_written_in_the_order_in_which_it_came(nursery) -> None:
    outbox, reader = Outbox(), Reader()
    nursery.start_soon(outbox.write_all, reader)
    reader.may_read.set()
    for number in range(100):
        if number % 2:
            outbox.put(b"%d " % number, b"and ")
        else:
            await outbox.send(b"%d " % number)
        if not number % 7:
            await trio.lowlevel.checkpoint()
    await outbox.written()
    assert b"".join(reader.heard) == b"".join(b"%d and " % n if n % 2 else b"%d " % n for n in range(100))


async def test_who_tells_much_waits_for_a_slow_reader_and_who_answers_does_not(nursery, autojump_clock) -> None:
    outbox, reader = Outbox(), Reader()
    nursery.start_soon(outbox.write_all, reader)
    outbox.put(b"x" * (ROOM + 1))
    await trio.testing.wait_all_tasks_blocked()  # this is being written
    outbox.put(b"y" * (ROOM + 1))
    with trio.move_on_after(5) as limit:
        await outbox.send(b"told")
    assert limit.cancelled_caught
    outbox.put(b"answer")
    reader.may_read.set()
    await outbox.send(b"told")
    await outbox.written()
    assert b"".join(reader.heard).lstrip(b"xy") == b"answertold"


async def test_written_waits_for_what_is_just_being_written(nursery, autojump_clock) -> None:
    outbox, reader = Outbox(), Reader()
    nursery.start_soon(outbox.write_all, reader)
    outbox.put(b"last")
    await trio.testing.wait_all_tasks_blocked()
    with trio.move_on_after(5) as limit:
        await outbox.written()
    assert limit.cancelled_caught
    reader.may_read.set()
    await outbox.written()
    assert reader.heard == [b"last"]


def test_a_client_that_lets_too_much_pile_up_has_left() -> None:
    outbox, piece = Outbox(), b"x" * (1024 * 1024)
    for _ in range(MOST // len(piece)):
        outbox.put(piece)
    with pytest.raises(ClientGone):
        outbox.put(b"x")
