"""Small pieces of work share a trip to a thread."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from aar.errors import StoreUnavailable
from aar.journal import batching as batching_module
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


# --- a glance at the gate -----------------------------------------------------------------------


async def turns_of_the_loop(work: Callable[[], Awaitable[None]]) -> int:
    """How often the loop goes round while `work` is done."""
    counter = Rounds()
    trio.lowlevel.add_instrument(counter)
    await work()
    trio.lowlevel.remove_instrument(counter)
    return counter.count


class Rounds(trio.abc.Instrument):
    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


def patient(monkeypatch: pytest.MonkeyPatch, seconds: float = 10.0) -> Batching:
    """One that waits at the gate for so long, so that a busy machine changes nothing."""
    monkeypatch.setattr(batching_module, "_GLANCE", seconds)
    monkeypatch.setattr(batching_module, "_CROWD", 0.0)
    return Batching(4, glances=True)


async def test_short_work_is_done_in_a_thread_without_the_loop_going_to_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    batching = patient(monkeypatch)
    threads: list[int] = []

    async def work() -> None:
        for _ in range(20):
            await batching.run(lambda: threads.append(threading.get_ident()))

    assert await turns_of_the_loop(work) == 0
    assert len(threads) == 20
    assert threading.get_ident() not in threads


async def test_an_error_is_seen_from_the_gate_too(monkeypatch: pytest.MonkeyPatch) -> None:
    batching = patient(monkeypatch)
    with pytest.raises(ZeroDivisionError):
        await batching.run(lambda: 1 // 0)


async def test_long_work_stops_the_loop_for_a_glance_only_and_the_next_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batching = patient(monkeypatch, 0.001)
    gates = [threading.Event(), threading.Event()]
    monkeypatch.setattr(batching_module, "_NO_GLANCE", 1000.0)
    for gate in gates:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batching.run, lambda gate=gate: gate.wait(20))
            await trio.testing.wait_all_tasks_blocked()  # the loop goes on although the work does not
            gate.set()
    assert await turns_of_the_loop(lambda: batching.run(lambda: None)) > 0


async def test_those_who_come_in_a_crowd_share_their_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    batching = patient(monkeypatch)
    monkeypatch.setattr(batching_module, "_CROWD", 1000.0)
    threads: list[tuple[int, int]] = []
    trips = 0
    really = trio.lowlevel.start_thread_soon

    def counting(*arguments: Any) -> None:
        nonlocal trips
        trips += 1
        really(*arguments)

    monkeypatch.setattr(trio.lowlevel, "start_thread_soon", counting)
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(batching.run, lambda number=number: threads.append((number, threading.get_ident())))
    assert len(threads) == 50
    assert trips == 3  # one alone, the next while nobody else has come yet, and all others together


async def test_one_who_comes_again_at_once_is_no_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    batching = patient(monkeypatch)
    monkeypatch.setattr(batching_module, "_CROWD", 1000.0)

    async def work(*owners: str) -> None:
        for owner in owners:
            await batching.run(lambda: None, owner=owner)

    assert await turns_of_the_loop(lambda: work("a", "a", "a")) == 0
    assert await turns_of_the_loop(lambda: work("b")) > 0
    assert await turns_of_the_loop(lambda: work("b")) == 0


@pytest.mark.parametrize("seconds", [0.0, 0.00001, 0.0001, 0.001])
async def test_whoever_leaves_the_gate_hears_of_the_return_once(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    batching = patient(monkeypatch, seconds)
    monkeypatch.setattr(batching_module, "_NO_GLANCE", 0.0)
    done: list[int] = []
    with trio.fail_after(30):
        for number in range(300):
            await batching.run(lambda number=number: done.append(number))
    assert done == list(range(300))
    assert batching._out == 0


# --- one round for all --------------------------------------------------------------------------


async def test_those_who_come_in_one_round_are_shared_out_evenly() -> None:
    batching = Batching(8, side_by_side=4, gathers=True)
    by_thread: dict[int, list[int]] = {}
    meet = threading.Barrier(4)  # all four threads are out at the same time
    met: set[int] = set()

    def work(number: int) -> None:
        here = threading.get_ident()
        if here not in met:
            met.add(here)
            meet.wait(20)
        by_thread.setdefault(here, []).append(number)

    async with trio.open_nursery() as nursery:
        for number in range(16):
            nursery.start_soon(batching.run, partial(work, number))
    assert sorted(len(numbers) for numbers in by_thread.values()) == [4, 4, 4, 4]
    assert sorted(number for numbers in by_thread.values() for number in numbers) == list(range(16))


async def test_one_that_is_cancelled_while_it_gathers_still_takes_the_others_along() -> None:
    batching = Batching(8, side_by_side=2, gathers=True)
    done: list[str] = []
    is_done = threading.Event()  # of the first: nobody waits for it

    def work() -> None:
        done.append("first")
        is_done.set()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def first() -> None:
                with scope:
                    await batching.run(work)

            nursery.start_soon(first)
            await trio.lowlevel.checkpoint()
            scope.cancel()
            for name in ("second", "third"):
                await batching.run(partial(done.append, name))
        assert await trio.to_thread.run_sync(is_done.wait, 20)
    assert sorted(done) == ["first", "second", "third"]


async def test_a_thread_that_the_system_does_not_give_fails_that_trip_alone(monkeypatch, autojump_clock) -> None:
    """Many processes at once, or a container's limit: those who come later must not wait for what never left."""
    batching = Batching(4)
    done: list[int] = []
    refused: list[int] = []
    gate = threading.Event()
    start_thread_soon = trio.lowlevel.start_thread_soon

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def run(number: int) -> None:
        try:
            await batching.run(lambda: done.append(number))
        except StoreUnavailable:
            refused.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(batching.run, lambda: gate.wait(10))
        await trio.testing.wait_all_tasks_blocked()
        monkeypatch.setattr(trio.lowlevel, "start_thread_soon", refuse)
        nursery.start_soon(run, 1)
        nursery.start_soon(run, 2)
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
    await run(3)
    assert (done, sorted(refused)) == ([], [1, 2, 3])
    monkeypatch.setattr(trio.lowlevel, "start_thread_soon", start_thread_soon)
    with trio.fail_after(5):
        await run(4)
    assert done == [4]
