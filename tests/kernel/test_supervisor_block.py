"""Names, numbers, and what passes through a supervisor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from aar.errors import ActorCrashed, ActorStopped
from aar.kernel import (
    Child,
    ChildStatistics,
    Mailbox,
    MailboxStatistics,
    Ref,
    Registry,
    Request,
    Restart,
    open_supervisor,
)


@dataclass(frozen=True)
class Echo(Request[str]):
    text: str


class Bug(Exception):
    """What a service crashes with here."""


async def echo(mailbox: Mailbox[Any]) -> None:
    async for envelope in mailbox:
        match envelope.message.text:
            case "crash":
                raise Bug("no luck")
            case "return":
                return
            case "keep":
                pass
            case text:
                envelope.reply(text)


async def deaf(mailbox: Mailbox[Any]) -> None:
    """Takes nothing."""
    await trio.sleep_forever()


async def crashing(mailbox: Mailbox[Any]) -> None:
    raise Bug("no luck")


async def test_a_name_is_taken_as_long_as_its_child_is_not_gone(autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        ref = supervisor.start(Child("echo", echo))
        with pytest.raises(ValueError, match="an actor named 'echo' is already running"):
            supervisor.start(Child("echo", echo))
        assert await ref.ask(Echo("hello")) == "hello"
        await ref.tell(Echo("return"))
        await supervisor.wait_gone("echo")
        await supervisor.wait_gone("echo")
        assert await supervisor.start(Child("echo", echo)).ask(Echo("again")) == "again"


async def test_a_supervisor_that_was_left_starts_nothing_and_takes_no_name(autojump_clock: MockClock) -> None:
    registry = Registry()
    async with open_supervisor(registry=registry) as supervisor:
        pass
    with pytest.raises(RuntimeError):
        supervisor.start(Child("echo", echo))
    assert registry.names() == []
    assert supervisor.names() == []


async def tell_in_vain(ref: Ref[Any], message: Echo) -> None:
    with pytest.raises(ActorStopped):
        await ref.tell(message)


async def ask_in_vain(ref: Ref[Any]) -> None:
    with pytest.raises(ActorStopped):
        await ref.ask(Echo("keep"))


async def test_statistics_show_each_child_oldest_first(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with open_supervisor() as supervisor:
        first = supervisor.start(Child("first", echo, capacity=2))
        supervisor.start(Child("second", crashing, restart=Restart.TEMPORARY))
        third: Ref[Any] = supervisor.start(Child("third", deaf, capacity=1))
        with pytest.raises(ActorCrashed):
            await first.ask(Echo("crash"))
        third.tell_nowait(Echo("waits"))
        nursery.start_soon(tell_in_vain, third, Echo("has no room"))
        nursery.start_soon(ask_in_vain, first)
        await trio.sleep(1)
        assert supervisor.statistics() == [
            ChildStatistics("first", 1, MailboxStatistics(capacity=2, waiting=0, senders=0, owed=1)),
            ChildStatistics("third", 0, MailboxStatistics(capacity=1, waiting=1, senders=1, owed=0)),
        ]
        assert supervisor.names() == ["first", "third"]


async def interrupted(mailbox: Mailbox[Any]) -> None:
    raise KeyboardInterrupt


async def test_a_keyboard_interrupt_passes_all_supervisors(autojump_clock: MockClock) -> None:
    async def department(mailbox: Mailbox[Any]) -> None:
        async with open_supervisor() as supervisor:
            supervisor.start(Child("clerk", interrupted))
            await trio.sleep_forever()

    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True):
        async with open_supervisor() as supervisor:
            supervisor.start(Child("department", department, restart=Restart.PERMANENT))
            await trio.sleep_forever()


async def test_an_error_in_the_block_ends_the_children_and_leaves_in_a_group(autojump_clock: MockClock) -> None:
    registry = Registry()
    with pytest.RaisesGroup(Bug):
        async with open_supervisor(registry=registry) as supervisor:
            supervisor.start(Child("echo", echo))
            raise Bug("in the block")
    assert registry.names() == []
