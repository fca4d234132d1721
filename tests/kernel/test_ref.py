from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio

from aar.errors import AarError, ActorStopped, MailboxFull
from aar.kernel import Answer, Child, Envelope, LocalRef, Mailbox, MailboxStatistics, Ref, Request, open_supervisor


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class GetTotal(Request[int]): ...


@dataclass(frozen=True)
class Refuse(Request[None]): ...


async def counter(mailbox: Mailbox[Any]) -> None:
    total = 0
    async for envelope in mailbox:
        match envelope.message:
            case Add(amount=amount):
                total += amount
            case GetTotal():
                envelope.reply(total)
            case Refuse():
                envelope.fail(AarError("no"))


async def test_an_ask_sees_every_message_told_before_it() -> None:
    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("counter", counter))
        for amount in range(10):
            await ref.tell(Add(amount))
        ref.tell_nowait(Add(100))
        assert await ref.ask(GetTotal()) == 145


async def test_an_error_given_as_answer_is_raised_where_the_asker_waits() -> None:
    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("counter", counter))
        with pytest.raises(AarError, match=r"^no$"):
            await ref.ask(Refuse())
        assert await ref.ask(GetTotal()) == 0


async def test_the_first_answer_wins() -> None:
    answer = Answer()
    envelope = Envelope(GetTotal(), answer)
    envelope.reply(1)
    envelope.reply(2)
    envelope.fail(AarError("late"))
    assert await answer.wait() == 1
    assert await answer.wait() == 1


async def test_the_first_error_wins() -> None:
    answer = Answer()
    envelope = Envelope(GetTotal(), answer)
    envelope.fail(AarError("first"))
    envelope.reply(1)
    envelope.fail(AarError("second"))
    with pytest.raises(AarError, match="first"):
        await answer.wait()


def test_an_answer_to_a_told_message_goes_nowhere() -> None:
    envelope = Envelope(Add(1))
    envelope.reply(1)
    envelope.fail(AarError("nobody hears this"))
    assert envelope.answer is None
    assert not envelope.is_owed


async def test_tell_waits_while_the_mailbox_is_full_and_tell_nowait_refuses(nursery: trio.Nursery) -> None:
    mailbox = Mailbox[Any]("counter", 1)
    ref = LocalRef("counter", mailbox)
    ref.tell_nowait(Add(1))
    with pytest.raises(MailboxFull, match="counter has 1 messages waiting"):
        ref.tell_nowait(Add(2))
    nursery.start_soon(ref.tell, Add(3))
    await trio.testing.wait_all_tasks_blocked()
    assert ref.statistics() == MailboxStatistics(capacity=1, waiting=1, senders=1, owed=0)
    assert [(await mailbox.take()).message for _ in range(2)] == [Add(1), Add(3)]


async def test_a_teller_that_gives_up_leaves_no_message_behind(autojump_clock: trio.abc.Clock) -> None:
    mailbox = Mailbox[Any]("counter", 1)
    ref = LocalRef("counter", mailbox)
    ref.tell_nowait(Add(1))
    with trio.move_on_after(1) as patience:
        await ref.tell(Add(2))
    assert patience.cancelled_caught
    assert (await mailbox.take()).message == Add(1)
    assert mailbox.statistics().waiting == 0


async def test_an_asker_that_times_out_is_noticed_and_its_answer_goes_nowhere(autojump_clock: trio.abc.Clock) -> None:
    mailbox = Mailbox[Any]("counter", 4)
    ref = LocalRef("counter", mailbox)
    with trio.move_on_after(1) as patience:
        await ref.ask(GetTotal())
    assert patience.cancelled_caught
    envelope = await mailbox.take()
    assert envelope.answer is not None
    assert envelope.answer.asker_left.is_set()
    assert not envelope.is_owed
    envelope.reply(1)
    envelope.fail(AarError("too late"))


async def test_a_service_can_watch_whether_its_asker_is_still_there(autojump_clock: trio.abc.Clock) -> None:
    left_at = []

    async def careful(mailbox: Mailbox[Any]) -> None:
        async for envelope in mailbox:
            assert envelope.answer is not None
            await envelope.answer.asker_left.wait()
            left_at.append(trio.current_time())

    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("careful", careful))
        started = trio.current_time()
        with trio.move_on_after(3):
            await ref.ask(GetTotal())
        await trio.testing.wait_all_tasks_blocked()
        assert left_at == [started + 3]


async def test_work_goes_on_when_its_asker_leaves(autojump_clock: trio.abc.Clock) -> None:
    done = trio.Event()

    async def stubborn(mailbox: Mailbox[Any]) -> None:
        async for envelope in mailbox:
            await trio.sleep(5)
            envelope.reply(1)
            done.set()

    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("stubborn", stubborn))
        with trio.move_on_after(1):
            await ref.ask(GetTotal())
        assert not done.is_set()
        await done.wait()


async def test_inside_an_asking_block_the_request_has_been_delivered() -> None:
    mailbox = Mailbox[Any]("counter", 4)
    ref = LocalRef("counter", mailbox)
    async with ref.asking(GetTotal()) as answer:
        envelope = await mailbox.take()
        assert envelope.message == GetTotal()
        assert envelope.is_owed
        envelope.reply(7)
        assert await answer() == 7
    assert envelope.answer is not None
    assert envelope.answer.asker_left.is_set()


async def test_leaving_an_asking_block_without_the_answer_is_leaving_the_question() -> None:
    mailbox = Mailbox[Any]("counter", 4)
    with pytest.raises(KeyError):
        async with LocalRef("counter", mailbox).asking(GetTotal()):
            raise KeyError("something else went wrong")
    envelope = await mailbox.take()
    assert envelope.answer is not None
    assert envelope.answer.asker_left.is_set()


async def test_asking_a_stopped_actor_fails_at_once() -> None:
    async with open_supervisor() as supervisor:
        ref: Ref[Any] = supervisor.start(Child("counter", counter))
        await supervisor.stop("counter")
        with pytest.raises(ActorStopped, match="counter is stopped"):
            await ref.ask(GetTotal())
        with pytest.raises(ActorStopped):
            await ref.tell(Add(1))
        with pytest.raises(ActorStopped):
            ref.tell_nowait(Add(1))


def test_a_ref_shows_only_its_name() -> None:
    ref = LocalRef("counter", Mailbox("counter", 1))
    assert repr(ref) == "<Ref counter>"
    assert ref.name == "counter"
