from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import trio

from aar.transports.program.garbage import STARTED, collect_once_started


@pytest.fixture
def no_collector() -> Iterator[None]:
    """As `aar.__main__` leaves things to a command; afterwards as they were."""
    thresholds = gc.get_threshold()
    gc.disable()
    yield
    gc.set_threshold(*thresholds)
    gc.enable()


async def test_garbage_is_looked_for_once_a_program_has_started(
    no_collector: None, autojump_clock: trio.abc.Clock
) -> None:
    kept = gc.get_freeze_count()
    start = [[] for _ in range(1000)]  # what a start makes

    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_once_started)
        await trio.sleep(STARTED / 2)
        assert not gc.isenabled()

    assert gc.isenabled()
    assert gc.get_freeze_count() >= kept + len(start)
