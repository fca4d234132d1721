"""Small pieces of work share a trip to a thread."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from aar.journal.batching import Batching


async def test_everything_is_run_in_order_and_returns_when_it_is_done() -> None:
    batching = Batching(4)
    done: list[int] = []

    async def run(number: int) -> None:
        await batching.run(lambda: done.append(number))
        assert number in done

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(run, number)
            await trio.lowlevel.checkpoint()
    assert done == list(range(200))


async def test_what_comes_up_while_a_thread_is_out_goes_together_on_the_next_trip() -> None:
    batching = Batching(4)
    gate = threading.Event()
    threads: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(batching.run, lambda: gate.wait(10))
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(10):
            nursery.start_soon(batching.run, lambda: threads.append(threading.get_ident()))
        await trio.testing.wait_all_tasks_blocked()
        assert threads == []
        gate.set()
    assert (len(threads), len(set(threads))) == (10, 1)


async def test_an_error_reaches_its_own_task_alone() -> None:
    batching = Batching(4)
    gate = threading.Event()
    good: list[int] = []

    async def fail() -> None:
        with pytest.raises(ZeroDivisionError):
            await batching.run(lambda: 1 // 0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(batching.run, lambda: gate.wait(10))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(fail)
        nursery.start_soon(batching.run, lambda: good.append(1))
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
    assert good == [1]


async def test_a_task_that_leaves_holds_up_nobody() -> None:
    batching = Batching(4)
    gate = threading.Event()
    done: list[str] = []
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            scope.cancel()
            await batching.run(lambda: gate.wait(10))
        assert scope.cancelled_caught
        nursery.start_soon(batching.run, lambda: done.append("next"))
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
    assert done == ["next"]


async def test_a_thread_that_is_stuck_is_not_waited_for(mock_clock: trio.testing.MockClock) -> None:
    batching = Batching(2)
    gates = [threading.Event(), threading.Event()]
    done: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(batching.run, lambda: gates[0].wait(20))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(batching.run, lambda: done.append("waited"))
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1.5)
        await batching.run(lambda: done.append("came later"))
        assert done == ["waited", "came later"]
        nursery.start_soon(batching.run, lambda: gates[1].wait(20))
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1.5)
        nursery.start_soon(batching.run, lambda: done.append("both are stuck"))
        await trio.testing.wait_all_tasks_blocked()
        assert len(done) == 2
        for gate in gates:
            gate.set()
    assert done == ["waited", "came later", "both are stuck"]


def test_it_can_be_used_in_one_trio_run_after_another() -> None:
    batching = Batching(1)
    gate = threading.Event()
    done: list[int] = []

    async def leave_something_behind() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await batching.run(lambda: gate.wait(10))

    trio.run(leave_something_behind)
    trio.run(batching.run, lambda: done.append(1))
    gate.set()
    assert done == [1]


async def test_work_that_waits_is_shared_out_among_several_threads() -> None:
    batching = Batching(4, side_by_side=2)
    gate = threading.Event()
    threads: list[int] = []

    def note() -> None:
        threads.append(threading.get_ident())
        meeting.wait(10)

    meeting = threading.Barrier(2)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(batching.run, lambda: gate.wait(10))
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(6):
            nursery.start_soon(batching.run, note)
        await trio.testing.wait_all_tasks_blocked()
        assert threads == []
        gate.set()
    assert (len(threads), len(set(threads))) == (6, 2)
