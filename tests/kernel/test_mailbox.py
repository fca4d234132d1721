from __future__ import annotations

import gc

import pytest
import trio

from aar.errors import ActorStopped, MailboxFull
from aar.kernel import Answer, Envelope, Mailbox, MailboxStatistics


def test_a_mailbox_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Mailbox[str]("post", 0)


async def test_messages_come_out_in_the_order_in_which_they_went_in() -> None:
    mailbox = Mailbox[int]("post", 8)
    for number in range(8):
        mailbox.put_nowait(Envelope(number))
    assert [(await mailbox.take()).message for _ in range(8)] == list(range(8))


async def test_senders_that_had_to_wait_are_served_in_order(nursery: trio.Nursery) -> None:
    mailbox = Mailbox[int]("post", 1)
    for number in range(5):
        nursery.start_soon(mailbox.put, Envelope(number))
        await trio.testing.wait_all_tasks_blocked()
    assert mailbox.statistics() == MailboxStatistics(capacity=1, waiting=1, senders=4, owed=0)
    assert [(await mailbox.take()).message for _ in range(5)] == [0, 1, 2, 3, 4]


async def test_a_full_mailbox_says_so_at_once_and_names_itself() -> None:
    mailbox = Mailbox[int]("post", 2)
    mailbox.put_nowait(Envelope(1))
    mailbox.put_nowait(Envelope(2))
    with pytest.raises(MailboxFull, match="post has 2 messages waiting"):
        mailbox.put_nowait(Envelope(3))
    assert mailbox.statistics().waiting == 2


async def test_giving_up_on_taking_loses_no_message(nursery: trio.Nursery) -> None:
    mailbox = Mailbox[int]("post", 4)
    impatient = trio.CancelScope()
    seen = []

    async def take_one() -> None:
        with impatient:
            seen.append((await mailbox.take()).message)

    nursery.start_soon(take_one)
    await trio.testing.wait_all_tasks_blocked()
    mailbox.put_nowait(Envelope(1))
    impatient.cancel()  # in the same moment: the message is already on its way to the taker
    mailbox.put_nowait(Envelope(2))
    await trio.testing.wait_all_tasks_blocked()
    seen.append((await mailbox.take()).message)
    assert seen == [1, 2]


async def test_leaving_the_loop_over_a_mailbox_leaves_nothing_open() -> None:
    mailbox = Mailbox[int]("post", 4)
    mailbox.put_nowait(Envelope(1))
    async for envelope in mailbox:
        assert envelope.message == 1
        break
    gc.collect()  # an async generator left open would be reported here, and warnings are errors


async def test_owed_answers_are_counted_until_given_or_no_longer_wanted() -> None:
    mailbox = Mailbox[int]("post", 4)
    envelopes = [Envelope(number, Answer()) for number in range(3)]
    for envelope in envelopes:
        mailbox.put_nowait(envelope)
        await mailbox.take()
    assert mailbox.statistics().owed == 3
    envelopes[0].reply()
    assert mailbox.statistics().owed == 2
    assert envelopes[1].answer is not None
    envelopes[1].answer.asker_left.set()
    assert mailbox.statistics().owed == 1
    assert [envelope.is_owed for envelope in envelopes] == [False, False, True]


async def test_answers_that_were_given_long_ago_are_forgotten() -> None:
    mailbox = Mailbox[int]("post", 1)
    kept = [Envelope(number, Answer()) for number in range(50)]
    for envelope in kept:
        mailbox.put_nowait(envelope)
        await mailbox.take()
    for number in range(1000):
        mailbox.put_nowait(Envelope(number, Answer()))
        (await mailbox.take()).reply()
    assert mailbox.statistics().owed == 50
    assert len(mailbox._owed) <= 128


async def test_closing_fails_every_waiting_asker_with_an_error_of_its_own() -> None:
    mailbox = Mailbox[int]("post", 4)
    answers = [Answer(), Answer(), Answer()]
    for answer in answers:
        mailbox.put_nowait(Envelope(0, answer))
    await mailbox.take()
    mailbox.close()
    mailbox.fail_taken()
    errors = []
    for answer in answers:
        with pytest.raises(ActorStopped, match="post is stopped") as caught:
            await answer.wait()
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 3


async def test_what_was_taken_may_be_answered_after_closing() -> None:
    mailbox = Mailbox[int]("post", 4)
    answer = Answer()
    mailbox.put_nowait(Envelope(0, answer))
    envelope = await mailbox.take()
    mailbox.close()
    envelope.reply("in time")
    mailbox.fail_taken()
    assert await answer.wait() == "in time"


async def test_closing_wakes_senders_and_readers_and_refuses_later_ones(nursery: trio.Nursery) -> None:
    full, empty = Mailbox[int]("full", 1), Mailbox[int]("empty", 1)
    full.put_nowait(Envelope(1))
    refused = []

    async def put() -> None:
        with pytest.raises(ActorStopped, match="full is stopped"):
            await full.put(Envelope(2))
        refused.append("sender")

    async def take() -> None:
        with pytest.raises(ActorStopped, match="empty is stopped"):
            await empty.take()
        refused.append("reader")

    nursery.start_soon(put)
    nursery.start_soon(take)
    await trio.testing.wait_all_tasks_blocked()
    for mailbox in (full, empty):
        mailbox.close()
        mailbox.close()  # twice is fine
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(refused) == ["reader", "sender"]
    with pytest.raises(ActorStopped):
        full.put_nowait(Envelope(3))
    with pytest.raises(ActorStopped):
        await full.put(Envelope(3))
    with pytest.raises(ActorStopped):
        await full.take()
    assert full.statistics() == MailboxStatistics(capacity=1, waiting=0, senders=0, owed=0)


def test_a_mailbox_shows_its_name_and_how_full_it_is() -> None:
    mailbox = Mailbox[int]("post", 3)
    mailbox.put_nowait(Envelope(1))
    assert repr(mailbox) == "<Mailbox post 1/3>"
    mailbox.close()
    assert repr(mailbox) == "<Mailbox post closed/3>"
