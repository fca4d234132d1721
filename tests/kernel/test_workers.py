"""What a worker is: an async generator in the scope of whoever wants its items."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import trio


class Bug(Exception):
    """What a worker fails with here."""


class Pages:
    """A worker that notes what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.read = trio.as_safe_channel(self._read)

    async def _read(self, count: int) -> AsyncGenerator[str, None]:
        try:
            for number in range(count):
                self.done.append(f"page {number}")
                await trio.lowlevel.checkpoint()
                yield f"page {number}"
            raise Bug("out of paper")
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            self.done.append("closed")


async def test_an_error_of_a_worker_leaves_the_block_alone_and_after_the_loop() -> None:
    pages, got = Pages(), []

    async def caller() -> None:
        async with pages.read(2) as channel:
            async for page in channel:
                got.append(page)
            got.append("end of the loop")

    with pytest.raises(Bug, match="out of paper"):
        await caller()
    assert got == ["page 0", "page 1", "end of the loop"]
    assert pages.done == ["page 0", "page 1", "closed"]


async def test_a_worker_with_a_nursery_of_its_own_has_to_unwrap_that_itself() -> None:
    async def fail() -> None:
        raise Bug("deep")

    @trio.as_safe_channel
    async def worker() -> AsyncGenerator[int, None]:
        yield 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)

    with pytest.RaisesGroup(Bug):
        async with worker() as channel:
            assert [item async for item in channel] == [1]


async def test_leaving_the_block_ends_the_worker_before_anything_else_happens() -> None:
    pages = Pages()
    async with pages.read(100) as channel:
        async for _ in channel:
            break
    assert pages.done == ["page 0", "closed"]


async def test_the_next_item_is_made_only_when_asked_for() -> None:
    pages = Pages()
    async with pages.read(100) as channel:
        assert await channel.__anext__() == "page 0"
        await trio.testing.wait_all_tasks_blocked()
        assert pages.done == ["page 0"]
        assert await channel.__anext__() == "page 1"
        await trio.testing.wait_all_tasks_blocked()
        assert pages.done == ["page 0", "page 1"]


async def test_cancelling_the_caller_ends_the_worker(autojump_clock: trio.abc.Clock) -> None:
    pages = Pages()
    with trio.move_on_after(1) as patience:
        async with pages.read(100) as channel:
            await channel.__anext__()
            await trio.sleep_forever()
    assert patience.cancelled_caught
    assert pages.done == ["page 0", "closed"]


async def test_an_error_of_the_caller_ends_the_worker_and_leaves_alone() -> None:
    pages = Pages()

    async def caller() -> None:
        async with pages.read(100) as channel:
            async for page in channel:
                raise KeyError(page)

    with pytest.raises(KeyError):
        await caller()
    assert pages.done == ["page 0", "closed"]
