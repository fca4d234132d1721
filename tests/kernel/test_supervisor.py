"""What a supervisor does when a service crashes or returns."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from aar.errors import ActorCrashed, ActorStopped, RestartLimit
from aar.kernel import (
    Child,
    Exhausted,
    Mailbox,
    Ref,
    Request,
    Restart,
    open_supervisor,
)


@dataclass(frozen=True)
class Echo(Request[str]):
    """Answered with its text; `crash` raises, `return` ends the service, `keep` is never answered."""

    text: str


class Bug(Exception):
    """What a service crashes with here."""


class Echoing:
    """A service that does what its messages say, and notes when it started and what it saw."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.seen: list[str] = []

    async def run(self, mailbox: Mailbox[Any]) -> None:
        self.starts.append(round(trio.current_time(), 3))
        async for envelope in mailbox:
            text = envelope.message.text
            self.seen.append(text)
            match text:
                case "crash":
                    raise Bug("no luck")
                case "return":
                    return
                case "keep":
                    pass
                case _:
                    envelope.reply(text)


def always(event: BaseException) -> Callable[[Mailbox[Any]], Awaitable[None]]:
    async def failing(mailbox: Mailbox[Any]) -> None:
        raise event

    return failing


async def outcome(ref: Ref[Any], text: str) -> str:
    """The answer, or the name of the error."""
    try:
        return await ref.ask(Echo(text))
    except (ActorCrashed, ActorStopped) as error:
        return type(error).__name__


# --- crashes ---


async def test_a_crash_fails_the_answers_it_owed_and_the_rest_of_the_mailbox_waits(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    echoing, outcomes = Echoing(), {}

    async def note(key: str, text: str) -> None:
        outcomes[key] = await outcome(ref, text)

    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echoing.run))
        for key, text in [("kept", "keep"), ("crashing", "crash"), ("later", "hello")]:
            nursery.start_soon(note, key, text)
            await wait_all_tasks_blocked()
        await ref.ask(Echo("last"))
    assert outcomes == {"kept": "ActorCrashed", "crashing": "ActorCrashed", "later": "hello"}
    assert echoing.seen == ["keep", "crash", "hello", "last"]  # the message that crashed it is not tried again


async def test_the_error_of_an_asker_names_the_service_and_has_the_bug_as_its_cause(autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", Echoing().run))
        with pytest.raises(ActorCrashed, match=r"^echo crashed: Bug\('no luck'\)$") as caught:
            await ref.ask(Echo("crash"))
        assert isinstance(caught.value.__cause__, Bug)


async def test_a_bug_in_a_child_task_of_a_service_is_named_without_its_groups(autojump_clock: MockClock) -> None:
    async def run(mailbox: Mailbox[Any]) -> None:
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            async for _ in mailbox:
                inner.start_soon(always(Bug("deep")), mailbox)
                outer.start_soon(trio.sleep_forever)

    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("nested", run))
        with pytest.raises(ActorCrashed, match=r"^nested crashed: Bug\('deep'\)$") as caught:
            await ref.ask(Echo("go"))
        assert isinstance(caught.value.__cause__, Bug)


async def test_a_crash_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", Echoing().run))
        await outcome(ref, "crash")
    (record,) = caplog.records
    assert record.getMessage() == "echo crashed: Bug('no luck')"
    assert record.levelno == logging.WARNING
    assert record.exc_info


async def test_restarts_wait_10_20_and_40_ms(autojump_clock: MockClock) -> None:
    echoing = Echoing()
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echoing.run))
        began = trio.current_time()
        for _ in range(3):
            await outcome(ref, "crash")
        assert await ref.ask(Echo("hello")) == "hello"
    assert [round(start - began, 3) for start in echoing.starts] == [0, 0.010, 0.030, 0.070]


async def test_a_message_sent_during_the_backoff_is_kept(autojump_clock: MockClock) -> None:
    echoing = Echoing()
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echoing.run))
        await outcome(ref, "crash")
        ref.tell_nowait(Echo("while you were away"))
        assert await ref.ask(Echo("hello")) == "hello"
    assert echoing.seen == ["crash", "while you were away", "hello"]


async def test_neighbours_do_not_notice_a_crash(autojump_clock: MockClock) -> None:
    failing, steady = Echoing(), Echoing()
    async with open_supervisor() as supervisor:
        first = supervisor.start(Child("failing", failing.run))
        second = supervisor.start(Child("steady", steady.run))
        for _ in range(3):
            await outcome(first, "crash")
        assert await second.ask(Echo("hello")) == "hello"
        assert await first.ask(Echo("hello")) == "hello"
    assert len(steady.starts) == 1


# --- the restart budget ---


async def test_the_fourth_crash_within_five_seconds_escalates(autojump_clock: MockClock) -> None:
    echoing = Echoing()
    with pytest.RaisesGroup(pytest.RaisesExc(RestartLimit, match=r"^echo failed 4 times within 5 s$")) as caught:
        async with open_supervisor() as supervisor:
            ref = supervisor.start(Child("echo", echoing.run))
            for _ in range(4):
                await outcome(ref, "crash")
            await trio.sleep_forever()
    assert len(echoing.starts) == 4
    assert isinstance(caught.value.exceptions[0].__cause__, Bug)


async def test_escalation_ends_the_neighbours_and_frees_all_askers(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    outcomes = []

    async def note(ref: Ref[Any], text: str) -> None:
        outcomes.append(await outcome(ref, text))

    with pytest.RaisesGroup(RestartLimit):
        async with open_supervisor(max_restarts=0) as supervisor:
            failing = supervisor.start(Child("failing", Echoing().run))
            steady = supervisor.start(Child("steady", Echoing().run))
            nursery.start_soon(note, steady, "keep")
            await wait_all_tasks_blocked()
            failing.tell_nowait(Echo("crash"))
            nursery.start_soon(note, failing, "hello")
            await trio.sleep_forever()
    await wait_all_tasks_blocked()
    assert outcomes == ["ActorStopped", "ActorStopped"]
    with pytest.raises(ActorStopped):
        steady.tell_nowait(Echo("hello"))


async def test_crashes_further_apart_never_spend_the_budget(autojump_clock: MockClock) -> None:
    echoing = Echoing()
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echoing.run))
        for _ in range(20):
            await outcome(ref, "crash")
            await trio.sleep(2)  # at most three within any five seconds
        assert await ref.ask(Echo("hello")) == "hello"
    assert len(echoing.starts) == 21


async def test_the_backoff_is_short_again_after_a_quiet_time(autojump_clock: MockClock) -> None:
    echoing = Echoing()
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echoing.run))
        for _ in range(3):
            await outcome(ref, "crash")
        await trio.sleep(6)
        crashed_at = trio.current_time()
        await outcome(ref, "crash")
        await ref.ask(Echo("hello"))
        assert echoing.starts[-1] == pytest.approx(crashed_at + 0.010, abs=0.001)


async def test_each_child_has_a_budget_of_its_own(autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        refs = [supervisor.start(Child(f"echo-{number}", Echoing().run)) for number in range(5)]
        for ref in refs:
            for _ in range(3):
                await outcome(ref, "crash")
        assert [await ref.ask(Echo("hello")) for ref in refs] == ["hello"] * 5


async def test_a_child_that_gives_up_is_gone_alone(
    caplog: pytest.LogCaptureFixture, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    outcomes = []

    async def note(ref: Ref[Any], text: str) -> None:
        outcomes.append(await outcome(ref, text))

    async with open_supervisor() as supervisor:
        failing = supervisor.start(Child("failing", Echoing().run, exhausted=Exhausted.GIVE_UP))
        steady = supervisor.start(Child("steady", Echoing().run))
        for _ in range(4):
            failing.tell_nowait(Echo("crash"))
        nursery.start_soon(note, failing, "hello")
        await supervisor.wait_gone("failing")
        await wait_all_tasks_blocked()
        assert outcomes == ["ActorStopped"]
        assert await steady.ask(Echo("hello")) == "hello"
        assert supervisor.names() == ["steady"]
        reborn = supervisor.start(Child("failing", Echoing().run))
        assert await reborn.ask(Echo("hello")) == "hello"
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["failing failed 4 times within 5 s, and is given up"]


async def test_the_limit_of_an_inner_supervisor_is_a_crash_for_the_outer_one(autojump_clock: MockClock) -> None:
    inner, began = Echoing(), trio.current_time()
    refs: list[Ref[Any]] = []

    async def department(mailbox: Mailbox[Any]) -> None:
        async with open_supervisor() as supervisor:
            refs.append(supervisor.start(Child("clerk", inner.run)))
            await trio.sleep_forever()

    async with open_supervisor() as supervisor:
        supervisor.start(Child("department", department))
        await wait_all_tasks_blocked()
        for _ in range(4):
            await outcome(refs[0], "crash")
        await trio.sleep(0.015)
        assert await outcome(refs[0], "hello") == "ActorStopped"
        assert await outcome(refs[1], "hello") == "hello"
        assert [child.crashes for child in supervisor.statistics()] == [1]
    assert [round(start - began, 3) for start in inner.starts] == [0, 0.010, 0.030, 0.070, 0.080]


async def test_the_root_ends_with_the_whole_story_in_one_group(autojump_clock: MockClock) -> None:
    async def department(mailbox: Mailbox[Any]) -> None:
        async with open_supervisor(max_restarts=0) as supervisor:
            supervisor.start(Child("clerk", always(Bug("no luck"))))
            await trio.sleep_forever()

    with pytest.RaisesGroup(RestartLimit) as caught:
        async with open_supervisor(max_restarts=1) as supervisor:
            supervisor.start(Child("department", department))
            await trio.sleep_forever()
    (outer,) = caught.value.exceptions
    assert str(outer) == "department failed 2 times within 5 s"
    assert isinstance(outer.__cause__, ExceptionGroup)
    (inner,) = outer.__cause__.exceptions
    assert str(inner) == "clerk failed 1 times within 5 s"
    assert isinstance(inner.__cause__, Bug)


# --- returns ---


async def test_a_permanent_service_that_returns_starts_again_and_fails_what_it_owed(autojump_clock: MockClock) -> None:
    echoing, began = Echoing(), trio.current_time()
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echoing.run, restart=Restart.PERMANENT))
        with pytest.raises(ActorCrashed, match="echo returned without answering"):
            await ref.ask(Echo("return"))
        assert await ref.ask(Echo("hello")) == "hello"
    assert [round(start - began, 3) for start in echoing.starts] == [0, 0.010]


async def test_a_permanent_service_that_only_returns_spends_its_budget(autojump_clock: MockClock) -> None:
    async def lazy(mailbox: Mailbox[Any]) -> None:
        return

    with pytest.RaisesGroup(pytest.RaisesExc(RestartLimit, match="lazy failed 4 times")):
        async with open_supervisor() as supervisor:
            supervisor.start(Child("lazy", lazy, restart=Restart.PERMANENT))
            await trio.sleep_forever()


@pytest.mark.parametrize("restart", [Restart.TRANSIENT, Restart.TEMPORARY])
async def test_any_other_service_that_returns_is_gone(
    restart: Restart, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    echoing, outcomes = Echoing(), {}

    async def note(text: str) -> None:
        outcomes[text] = await outcome(ref, text)

    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echoing.run, restart=restart))
        for text in ("keep", "return", "hello"):
            nursery.start_soon(note, text)
            await wait_all_tasks_blocked()
        assert supervisor.names() == []
        assert await outcome(ref, "later") == "ActorStopped"
    assert outcomes == {"keep": "ActorStopped", "return": "ActorStopped", "hello": "ActorStopped"}
    assert len(echoing.starts) == 1


async def test_a_temporary_service_that_crashes_is_gone(autojump_clock: MockClock) -> None:
    echoing = Echoing()
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echoing.run, restart=Restart.TEMPORARY))
        assert await outcome(ref, "crash") == "ActorCrashed"
        await supervisor.wait_gone("echo")
        assert await outcome(ref, "hello") == "ActorStopped"
    assert len(echoing.starts) == 1
