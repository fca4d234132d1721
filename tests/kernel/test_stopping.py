"""How services are stopped, alone and together with their supervisor."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from aar.errors import ActorCrashed, ActorStopped, RestartLimit
from aar.kernel import Child, Mailbox, Ref, Registry, Request, Restart, open_supervisor


@dataclass(frozen=True)
class Question(Request[str]):
    text: str = ""


class Bug(Exception):
    """What a service crashes with here."""


async def silent(mailbox: Mailbox[Any]) -> None:
    """Takes everything and answers nothing."""
    async for _ in mailbox:
        pass


async def deaf(mailbox: Mailbox[Any]) -> None:
    """Takes nothing."""
    await trio.sleep_forever()


async def crashing(mailbox: Mailbox[Any]) -> None:
    raise Bug("no luck")


class Tidy:
    """Cleans up for `seconds` when it is cancelled, and answers what it had taken at the end of that."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.cleaned_up: list[float] = []

    async def run(self, mailbox: Mailbox[Any]) -> None:
        taken = []
        try:
            async for envelope in mailbox:
                taken.append(envelope)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.seconds)
            self.cleaned_up.append(trio.current_time())
            for envelope in taken:
                envelope.reply("tidied")


class Asked:
    """Questions asked side by side, and what became of each."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.outcomes: dict[str, str] = {}

    async def ask(self, ref: Ref[Any], key: str) -> None:
        """Returns when the question stands in the mailbox, or waits for room in it."""
        self.nursery.start_soon(self._wait, ref, key)
        await wait_all_tasks_blocked()

    async def _wait(self, ref: Ref[Any], key: str) -> None:
        try:
            self.outcomes[key] = await ref.ask(Question(key))
        except (ActorStopped, ActorCrashed) as error:
            self.outcomes[key] = type(error).__name__


@pytest.fixture
async def asked(nursery: trio.Nursery) -> Asked:
    return Asked(nursery)


async def test_stopping_frees_the_askers_of_taken_waiting_and_unsent_questions(
    asked: Asked, autojump_clock: MockClock
) -> None:
    async with open_supervisor() as supervisor:
        reading: Ref[Any] = supervisor.start(Child("reading", silent))
        full: Ref[Any] = supervisor.start(Child("full", deaf, capacity=1))
        await asked.ask(reading, "taken")
        await asked.ask(full, "waiting")
        await asked.ask(full, "no room")
        await supervisor.stop("reading")
        await supervisor.stop("full")
        await wait_all_tasks_blocked()
        assert asked.outcomes == dict.fromkeys(["taken", "waiting", "no room"], "ActorStopped")
        for ref in (reading, full):
            with pytest.raises(ActorStopped):
                await ref.tell("later")


async def test_a_teller_that_waits_for_room_learns_of_the_stop(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    learned = trio.Event()

    async def tell(ref: Ref[Any]) -> None:
        with pytest.raises(ActorStopped):
            await ref.tell("second")
        learned.set()

    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("full", deaf, capacity=1))
        ref.tell_nowait("first")
        nursery.start_soon(tell, ref)
        await wait_all_tasks_blocked()
        await supervisor.stop("full")
        await learned.wait()


async def test_stopping_is_no_crash(caplog: pytest.LogCaptureFixture, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        supervisor.start(Child("silent", silent))
        supervisor.start(Child("permanent", silent, restart=Restart.PERMANENT))
        await wait_all_tasks_blocked()
        await supervisor.stop("silent")
        assert supervisor.names() == ["permanent"]
    assert caplog.records == []


async def test_a_question_handed_over_in_the_moment_of_the_stop_is_not_left_open(
    asked: Asked, autojump_clock: MockClock
) -> None:
    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("silent", silent))
        await wait_all_tasks_blocked()
        async with ref.asking(Question()) as answer:  # in the hands of the service, which has not yet woken up
            await supervisor.stop("silent")
            with pytest.raises(ActorStopped):
                await answer()


async def test_a_child_can_be_stopped_before_it_ever_ran(autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("silent", silent))
        await supervisor.stop("silent")
        assert supervisor.names() == []
        with pytest.raises(ActorStopped):
            await ref.ask(Question())


async def test_a_stop_waits_for_the_clean_up_which_may_still_answer(asked: Asked, autojump_clock: MockClock) -> None:
    tidy = Tidy(3)
    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("tidy", tidy.run))
        await asked.ask(ref, "taken")
        stopped_at = trio.current_time()
        await supervisor.stop("tidy")
        assert tidy.cleaned_up == [stopped_at + 3]
        await wait_all_tasks_blocked()
        assert asked.outcomes == {"taken": "tidied"}


async def test_a_stop_waits_for_its_grace_and_then_frees_the_askers(
    asked: Asked, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    tidy, registry = Tidy(60), Registry()
    async with open_supervisor(registry=registry) as supervisor:
        ref: Ref[Any] = supervisor.start(Child("tidy", tidy.run))
        await asked.ask(ref, "taken")
        stopped_at = trio.current_time()
        await supervisor.stop("tidy", grace=2)
        assert trio.current_time() == stopped_at + 2
        await wait_all_tasks_blocked()
        assert asked.outcomes == {"taken": "ActorStopped"}
        assert [record.getMessage() for record in caplog.records] == [
            "tidy is still cleaning up 2 s after it was stopped"
        ]
        with pytest.raises(ValueError, match="already running"):  # its name is taken as long as it cleans up
            supervisor.start(Child("tidy", silent))
        await supervisor.wait_gone("tidy")
        assert tidy.cleaned_up == [stopped_at + 60]
        assert registry.names() == []


async def test_several_may_stop_the_same_child(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    tidy = Tidy(3)
    async with open_supervisor() as supervisor:
        supervisor.start(Child("tidy", tidy.run))
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as stoppers:
            for _ in range(3):
                stoppers.start_soon(supervisor.stop, "tidy")
        assert len(tidy.cleaned_up) == 1
        await supervisor.stop("tidy")
        await supervisor.stop("never heard of it")


async def test_a_service_can_stop_itself(autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:

        async def suicidal(mailbox: Mailbox[Any]) -> None:
            async for _ in mailbox:
                await supervisor.stop("suicidal")

        ref: Ref[Any] = supervisor.start(Child("suicidal", suicidal, restart=Restart.PERMANENT))
        with pytest.raises(ActorStopped):
            await ref.ask(Question())
        assert supervisor.names() == []


async def test_a_child_can_be_stopped_during_its_backoff(asked: Asked, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("crashing", crashing))
        ref.tell_nowait("waits through the backoff")
        async with ref.asking(Question()) as answer:
            await trio.sleep(0.005)
            stopped_at = trio.current_time()
            await supervisor.stop("crashing")
            assert trio.current_time() == stopped_at
            with pytest.raises(ActorStopped):
                await answer()


@pytest.mark.parametrize("restart", list(Restart))
async def test_a_crash_during_the_clean_up_is_logged_and_starts_nothing(
    restart: Restart, asked: Asked, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    starts = []

    async def run(mailbox: Mailbox[Any]) -> None:
        starts.append(1)
        try:
            await silent(mailbox)
        finally:
            raise Bug("while cleaning up")

    async with open_supervisor(max_restarts=0) as supervisor:  # a restart here would spend the budget
        ref: Ref[Any] = supervisor.start(Child("untidy", run, restart=restart))
        await asked.ask(ref, "taken")
        await supervisor.stop("untidy")
        await wait_all_tasks_blocked()
    assert asked.outcomes == {"taken": "ActorCrashed"}
    assert starts == [1]
    assert [record.getMessage() for record in caplog.records] == ["untidy crashed: Bug('while cleaning up')"]


@pytest.mark.parametrize("how", ["stopped", "left", "cancelled"])
async def test_a_crash_next_to_a_cancellation_is_logged_and_goes_no_further(
    how: str, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async def spoilsport() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Bug("while its neighbour was cancelled")

    async def run(mailbox: Mailbox[Any]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spoilsport)
            nursery.start_soon(silent, mailbox)

    with trio.CancelScope() as around:
        async with open_supervisor(max_restarts=0) as supervisor:
            supervisor.start(Child("pair", run))
            await wait_all_tasks_blocked()
            if how == "stopped":
                await supervisor.stop("pair")
            elif how == "cancelled":
                around.cancel()
    messages = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert messages == [(logging.WARNING, "pair crashed: Bug('while its neighbour was cancelled')")]


async def test_a_service_that_returns_after_it_was_stopped_does_not_start_again(autojump_clock: MockClock) -> None:
    starts = []

    async def run(mailbox: Mailbox[Any]) -> None:
        starts.append(1)
        with trio.CancelScope(shield=True):
            await trio.sleep(1)

    async with open_supervisor(max_restarts=0) as supervisor:
        supervisor.start(Child("thick-skinned", run, restart=Restart.PERMANENT))
        await wait_all_tasks_blocked()
        await supervisor.stop("thick-skinned")
    assert starts == [1]


async def test_reading_messages_while_cleaning_up_ends_at_once(autojump_clock: MockClock) -> None:
    ended = []

    async def run(mailbox: Mailbox[Any]) -> None:
        with trio.CancelScope(shield=True):
            try:
                await silent(mailbox)
            except ActorStopped as error:
                ended.append(str(error))

    async with open_supervisor() as supervisor:
        supervisor.start(Child("late-reader", run))
        await wait_all_tasks_blocked()
        await supervisor.stop("late-reader")
    assert ended == ["late-reader is stopped"]


async def test_leaving_the_block_stops_the_youngest_child_first_and_waits_for_each(autojump_clock: MockClock) -> None:
    children = {name: Tidy(1) for name in ("oldest", "middle", "youngest")}
    async with open_supervisor() as supervisor:
        for name, tidy in children.items():
            supervisor.start(Child(name, tidy.run))
        await wait_all_tasks_blocked()
        left_at = trio.current_time()
    ended = {name: [time - left_at for time in tidy.cleaned_up] for name, tidy in children.items()}
    assert ended == {"youngest": [1], "middle": [2], "oldest": [3]}


async def test_a_child_that_outstays_its_grace_does_not_keep_the_others_from_being_stopped(
    autojump_clock: MockClock,
) -> None:
    slow, quick = Tidy(60), Tidy(1)
    async with open_supervisor(grace=5) as supervisor:
        supervisor.start(Child("quick", quick.run))
        supervisor.start(Child("slow", slow.run))
        await wait_all_tasks_blocked()
        left_at = trio.current_time()
    assert quick.cleaned_up == [left_at + 6]
    assert slow.cleaned_up == [left_at + 60]
    assert trio.current_time() == left_at + 60  # nothing outlives the block


async def test_cancelling_around_a_supervisor_ends_all_its_children_at_once(
    asked: Asked, autojump_clock: MockClock
) -> None:
    first, second = Tidy(1), Tidy(1)
    with trio.CancelScope() as around:
        async with open_supervisor() as supervisor:
            refs: list[Ref[Any]] = [
                supervisor.start(Child("first", first.run)),
                supervisor.start(Child("2", second.run)),
            ]
            await asked.ask(refs[0], "taken")
            around.cancel()
    assert first.cleaned_up == second.cleaned_up == [trio.current_time()]
    await wait_all_tasks_blocked()
    assert asked.outcomes == {"taken": "tidied"}
    with pytest.raises(ActorStopped):
        await refs[1].tell("later")


async def test_a_crash_while_the_block_is_cancelled_spends_no_budget(autojump_clock: MockClock) -> None:
    async def run(mailbox: Mailbox[Any]) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise Bug("instead of the cancellation") from None

    with trio.CancelScope() as around:
        async with open_supervisor(max_restarts=0) as supervisor:
            supervisor.start(Child("untidy", run))
            await wait_all_tasks_blocked()
            around.cancel()
    assert around.cancelled_caught


async def test_a_neighbour_can_clean_up_while_a_crash_escalates(autojump_clock: MockClock) -> None:
    tidy = Tidy(1)
    with pytest.RaisesGroup(RestartLimit):
        async with open_supervisor(max_restarts=0) as supervisor:
            supervisor.start(Child("tidy", tidy.run))
            await wait_all_tasks_blocked()
            supervisor.start(Child("crashing", crashing))
            await trio.sleep_forever()
    assert tidy.cleaned_up == [trio.current_time()]
