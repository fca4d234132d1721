"""Asks that would wait for themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from aar.errors import WouldDeadlock
from aar.kernel import Child, Mailbox, Ref, Request, open_supervisor


@dataclass(frozen=True)
class Forward(Request[str]):
    """Ask the next of these actors, and so on; the last one answers."""

    route: tuple[str, ...]


class Ring:
    """Actors that ask one another, each from a child task of its own."""

    def __init__(self) -> None:
        self.refs: dict[str, Ref[Any]] = {}

    async def node(self, mailbox: Mailbox[Any]) -> None:
        async with trio.open_nursery() as nursery:
            async for envelope in mailbox:
                nursery.start_soon(self.forward, envelope)

    async def forward(self, envelope: Any) -> None:
        route = envelope.message.route
        if not route:
            envelope.reply("arrived")
            return
        try:
            envelope.reply(await self.refs[route[0]].ask(Forward(route[1:])))
        except WouldDeadlock as error:
            envelope.fail(error)


async def answer_of(*route: str) -> str:
    """What the first actor of the route answers, or the text of its refusal."""
    ring = Ring()
    async with open_supervisor() as supervisor:
        for name in set(route):
            ring.refs[name] = supervisor.start(Child(name, ring.node))
        try:
            return await ring.refs[route[0]].ask(Forward(route[1:]))
        except WouldDeadlock as error:
            return str(error)


async def test_a_chain_of_asks_is_answered() -> None:
    assert await answer_of("a", "b", "c", "d") == "arrived"


async def test_an_actor_that_asks_itself_is_refused() -> None:
    assert await answer_of("a", "a") == "this ask would wait for itself: a -> a"


async def test_a_ring_of_asks_is_refused_with_all_its_names_even_from_child_tasks() -> None:
    assert await answer_of("a", "b", "c", "a") == "this ask would wait for itself: c -> a -> b -> c"


async def test_the_ring_alone_is_named_when_it_hangs_on_a_chain() -> None:
    assert await answer_of("a", "b", "c", "b") == "this ask would wait for itself: c -> b -> c"


async def test_a_worker_asks_as_the_actor_that_runs_it() -> None:
    refs: dict[str, Ref[Any]] = {}

    @trio.as_safe_channel
    async def question(target: str) -> Any:
        yield await refs[target].ask(Forward(()))

    async def asker(mailbox: Mailbox[Any]) -> None:
        async for envelope in mailbox:
            try:
                async with question("asker") as answers:
                    async for answer in answers:
                        envelope.reply(answer)
            except WouldDeadlock as error:
                envelope.fail(error)

    async with open_supervisor() as supervisor:
        refs["asker"] = supervisor.start(Child("asker", asker))
        with pytest.raises(WouldDeadlock, match=r"asker -> asker$"):
            await refs["asker"].ask(Forward(()))


async def test_a_thread_that_comes_back_to_trio_asks_as_the_actor_that_started_it() -> None:
    refs: dict[str, Ref[Any]] = {}

    async def asker(mailbox: Mailbox[Any]) -> None:
        async for envelope in mailbox:
            try:
                await trio.to_thread.run_sync(trio.from_thread.run, refs["asker"].ask, Forward(()))
            except WouldDeadlock as error:
                envelope.fail(error)

    async with open_supervisor() as supervisor:
        refs["asker"] = supervisor.start(Child("asker", asker))
        with pytest.raises(WouldDeadlock, match=r"asker -> asker$"):
            await refs["asker"].ask(Forward(()))


async def test_an_actor_started_by_another_asks_as_itself() -> None:
    refs: dict[str, Ref[Any]] = {}

    async def younger(mailbox: Mailbox[Any]) -> None:
        async for envelope in mailbox:
            envelope.reply(await refs["older"].ask(Forward(())))

    async def older(mailbox: Mailbox[Any]) -> None:
        async with open_supervisor() as inner:
            refs["younger"] = inner.start(Child("younger", younger))
            async for envelope in mailbox:
                envelope.reply("arrived")

    async with open_supervisor() as supervisor:
        refs["older"] = supervisor.start(Child("older", older))
        await wait_all_tasks_blocked()
        assert await refs["younger"].ask(Forward(())) == "arrived"


async def test_who_was_answered_can_be_asked_at_once() -> None:
    """The answer is on its way, so nobody waits for anybody, although the asker has not yet woken up."""
    refs: dict[str, Ref[Any]] = {}
    came_back = []

    async def upper(mailbox: Mailbox[Any]) -> None:
        async with trio.open_nursery() as nursery:
            async for envelope in mailbox:
                if envelope.message == "go":
                    nursery.start_soon(refs["lower"].ask, Forward(()))
                else:
                    envelope.reply("arrived")

    async def lower(mailbox: Mailbox[Any]) -> None:
        async for envelope in mailbox:
            envelope.reply("done")
            came_back.append(await refs["upper"].ask(Forward(())))

    async with open_supervisor() as supervisor:
        refs["upper"] = supervisor.start(Child("upper", upper))
        refs["lower"] = supervisor.start(Child("lower", lower))
        await refs["upper"].tell("go")
        await wait_all_tasks_blocked()
    assert came_back == ["arrived"]


async def test_a_refused_or_cancelled_ask_leaves_no_trace(autojump_clock: trio.abc.Clock) -> None:
    refs: dict[str, Ref[Any]] = {}

    async def silent(mailbox: Mailbox[Any]) -> None:
        async for envelope in mailbox:
            if envelope.message == Forward(("asker",)):
                envelope.reply(await refs["asker"].ask(Forward(())))

    async def asker(mailbox: Mailbox[Any]) -> None:
        async with trio.open_nursery() as nursery:
            async for envelope in mailbox:
                if envelope.message == "try":
                    nursery.start_soon(give_up_soon)
                else:
                    envelope.reply("arrived")

    async def give_up_soon() -> None:
        with trio.move_on_after(1):
            await refs["silent"].ask(Forward(()))

    async with open_supervisor() as supervisor:
        refs["silent"] = supervisor.start(Child("silent", silent))
        refs["asker"] = supervisor.start(Child("asker", asker))
        await refs["asker"].tell("try")
        await trio.sleep(2)
        assert await refs["silent"].ask(Forward(("asker",))) == "arrived"


NODES = st.integers(min_value=0, max_value=4)


@given(st.lists(st.tuples(NODES, NODES), max_size=12))
def test_an_ask_is_refused_exactly_when_it_would_close_a_ring(asks: list[tuple[int, int]]) -> None:
    def reaches(start: int, goal: int, edges: list[tuple[int, int]]) -> bool:
        reached = {start}
        for _ in edges:
            reached |= {to for frm, to in edges if frm in reached}
        return goal in reached

    expected: list[bool] = []
    edges: list[tuple[int, int]] = []
    for frm, to in asks:
        expected.append(reaches(to, frm, edges))
        if not expected[-1]:
            edges.append((frm, to))

    refused: list[bool] = []
    refs: list[Ref[Any]] = []

    async def open_ask(target: int) -> None:
        place = len(refused)
        refused.append(False)
        try:
            await refs[target].ask(Forward(()))
        except WouldDeadlock:
            refused[place] = True

    async def node(mailbox: Mailbox[Any]) -> None:
        async with trio.open_nursery() as nursery:
            async for envelope in mailbox:
                if isinstance(envelope.message, int):
                    nursery.start_soon(open_ask, envelope.message)

    async def main() -> None:
        async with open_supervisor() as supervisor:
            refs.extend(supervisor.start(Child(str(number), node)) for number in range(5))
            for frm, to in asks:
                await refs[frm].tell(to)
                await wait_all_tasks_blocked()
            assert refused == expected

    trio.run(main, clock=MockClock(autojump_threshold=0.01))
