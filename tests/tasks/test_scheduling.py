"""Tasks are done when they are due: in virtual time."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
import trio

from aar.tasks import scheduling
from aar.tasks.reading import Task
from aar.tasks.schedules import parse_schedule
from aar.tasks.scheduling import keep_schedule

START = datetime(2026, 11, 20, 10, 30)


def task(name: str, when: str) -> Task:
    return Task(name=name, prompts=("go",), when=when, schedule=parse_schedule(when))


def now() -> datetime:
    return START + timedelta(seconds=trio.current_time())


class Runs:
    """What ran, and when; each run takes so many seconds."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.began: list[tuple[str, str]] = []
        self.told: list[str] = []
        self.at_once = self.most = 0

    async def run(self, task: Task) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.began.append((task.name, f"{now():%a %H:%M}"))
        await trio.sleep(self.seconds)
        self.at_once -= 1

    async def tell(self, text: str) -> None:
        self.told.append(text)


async def keep(tasks: list[Task], runs: Runs, days: float, **more: int) -> None:
    with trio.move_on_after(days * 86_400):
        await keep_schedule(tasks, runs.run, now=now, tell=runs.tell, **more)


@pytest.mark.covers("AURA-117")
async def test_a_week_goes_by_in_less_than_a_second(autojump_clock) -> None:
    runs = Runs()
    tasks = [task("hourly", "every 1h"), task("mornings", "daily 09:00"), task("mondays", "weekly mon 07:00")]
    begun = time.process_time()
    await keep([*tasks, Task(name="by hand", prompts=("x",))], runs, 7.01)
    assert time.process_time() - begun < 1
    names = [name for name, _ in runs.began]
    assert [names.count(name) for name in ("hourly", "mornings", "mondays", "by hand")] == [168, 7, 1, 0]
    assert {at for name, at in runs.began if name == "mondays"} == {"Mon 07:00"}
    assert runs.told == []


@pytest.mark.covers("AURA-117")
async def test_a_time_at_which_it_still_runs_is_left_out_and_told(autojump_clock) -> None:
    runs = Runs(seconds=3 * 3600 - 60)
    await keep([task("slow", "every 1h")], runs, 7.5 / 24)
    assert [at for _, at in runs.began] == ["Fri 11:30", "Fri 14:30", "Fri 17:30"]
    assert runs.told[:2] == [
        "slow: left out at 2026-11-20 12:30, because it still runs.",
        "slow: left out at 2026-11-20 13:30, because it still runs.",
    ]


async def test_only_so_many_run_at_once_and_the_others_wait(autojump_clock) -> None:
    runs = Runs(seconds=60)
    await keep([task(str(number), "daily 12:00") for number in range(5)], runs, 1, at_once=2)
    assert (runs.most, sorted(name for name, _ in runs.began)) == (2, list("01234"))
    assert sorted(at for _, at in runs.began) == ["Fri 12:00", "Fri 12:00", "Fri 12:01", "Fri 12:01", "Fri 12:02"]


async def test_it_ends_when_nothing_is_due_any_more(autojump_clock) -> None:
    runs = Runs()
    with trio.fail_after(86_400):
        await keep_schedule([task("once", "once 2026-11-20 12:00")], runs.run, now=now, tell=runs.tell)
    assert runs.began == [("once", "Fri 12:00")]


async def test_times_that_the_machine_slept_through_are_done_once(autojump_clock) -> None:
    slept = timedelta()

    def late() -> datetime:
        return now() + slept

    runs = Runs()
    async with trio.open_nursery() as nursery:
        scheduled = task("often", "every 10m")
        nursery.start_soon(lambda: keep_schedule([scheduled], runs.run, now=late, tell=runs.tell))
        await trio.sleep(1300)
        assert len(runs.began) == 2
        slept = timedelta(hours=5)
        await trio.sleep(scheduling.LOOK_EVERY)
        assert len(runs.began) == 3
        await trio.sleep(600)
        assert len(runs.began) == 4
        nursery.cancel_scope.cancel()
