"""Whatever people do, in whatever order: valid conversations, an answer for every asker, and no turn left running."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aar.errors import AarError, ProviderError, ProviderUnavailable, StoreUnavailable
from aar.messages.events import TurnEnded, TurnStarted
from aar.messages.settings import AgentConfig
from aar.testing import Fault, MemoryStore, ScriptedAnswer, ScriptedProvider, open_test_runtime
from aar.tools.registry import ToolRegistry

CONFIG = AgentConfig(streaming=True, tools={"enabled_builtins": []}, max_retries=2, system_prompt="x", timeout=40)

_answers = st.sampled_from(
    [
        ScriptedAnswer(text="done", chunks=2, delay=0.5),
        ScriptedAnswer(text="cut off", stop="max_tokens"),
        ScriptedAnswer(text="let me", calls=(("fast", {}), ("slow", {}))),
        ScriptedAnswer(calls=(("slow", {}), ("fails", {}), ("nobody", {}), ("asks", {}))),
        ScriptedAnswer(text="half", error=ProviderUnavailable("down")),
        ScriptedAnswer(error=ProviderError("no")),
        ScriptedAnswer(text="half", hangs=True),
        ScriptedAnswer(text="no", stop="refusal"),
    ]
)
_actions = st.one_of(
    st.tuples(st.just("prompt"), st.just(None)),
    st.tuples(st.just("steer"), st.just(None)),
    st.tuples(st.just("follow_up"), st.just(None)),
    st.tuples(st.just("cancel"), st.sampled_from(["now", "softly", "first", "last"])),
    st.tuples(st.just("clear"), st.just(None)),
    st.tuples(st.just("configure"), st.sampled_from([{"max_steps": 2}, {"streaming": False}])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.1, 0.6, 3.0])),
    st.tuples(st.just("decide"), st.sampled_from(["allow", "deny"])),
)


def tools() -> ToolRegistry:
    registry = ToolRegistry()

    @registry.register("fast")
    async def fast() -> str:
        return "fast"

    @registry.register("slow")
    async def slow() -> str:
        await trio.sleep(1)
        return "slow"

    @registry.register("fails")
    async def fails() -> str:
        raise ValueError("no")

    @registry.register("asks", side_effects=["write"])
    async def asks() -> str:
        return "asked"

    return registry


class People:
    """They act on a session, one action after the other, and remember who was answered."""

    def __init__(self, session, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self.turns: list[str] = []
        self.answered: list[str] = []

    async def act(self, kind: str, detail) -> None:
        session = self._session
        match kind:
            case "prompt":
                self._nursery.start_soon(self._prompt)
                await trio.lowlevel.checkpoint()
            case "steer":
                await session.steer("left")
            case "follow_up":
                await session.follow_up("and then")
            case "cancel":
                named = {"first": self.turns[:1], "last": self.turns[-1:]}.get(detail) or [None]
                await session.cancel(named[0], after_step=detail == "softly")
            case "clear":
                await session.clear_queue()
            case "configure":
                await session.configure(detail)
            case "wait":
                await trio.sleep(detail)
            case "decide":
                for call_id in list(session.snapshot().open_calls):
                    await session.decide(call_id, detail)

    async def _prompt(self) -> None:
        async with self._session.running("go") as (turn_id, ended):
            self.turns.append(turn_id)
            with suppress(AarError):
                await ended()
            self.answered.append(turn_id)


async def live_through(answers, actions, problems_of, faults=None) -> None:
    provider = ScriptedProvider().text("the end").forever()
    for answer in answers:
        provider.reply(answer)
    store = MemoryStore(faults=faults)
    with tempfile.TemporaryDirectory() as home:
        async with open_test_runtime(provider, CONFIG, tools=tools(), store=store, home=Path(home)) as runtime:
            session = await runtime.sessions.open("/")
            with trio.fail_after(10_000):
                async with session.attend(), trio.open_nursery() as nursery:
                    people = People(session, nursery)
                    for kind, detail in actions:
                        try:
                            await people.act(kind, detail)
                        except StoreUnavailable:
                            assert faults
            assert sorted(people.answered) == sorted(people.turns)
            check(session, people, problems_of, is_faulty=bool(faults))
            assert (await session.status()).turn_id == ""
            assert (await store.load(session.session_id)).records == session.records()
    for request in provider.requests:
        assert problems_of(list(request.messages)) == []
    assert provider.streaming_now == 0


def check(session, people: People, problems_of, *, is_faulty: bool) -> None:
    fold = session.snapshot()
    assert problems_of(fold.to_messages()) == []
    frames = [record for record in session.records() if isinstance(record.event, TurnStarted | TurnEnded)]
    started = [record.turn_id for record in frames if isinstance(record.event, TurnStarted)]
    assert len(started) == len(set(started))
    assert set(started) <= set(people.turns)
    if not is_faulty:
        assert fold.turn_id == ""
        assert fold.open_calls == {}
        assert [type(record.event) for record in frames] == [TurnStarted, TurnEnded] * len(started)
    assert [record.seq for record in session.records()] == list(range(1, fold.seq + 1))


UNHURRIED = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@UNHURRIED
@given(answers=st.lists(_answers, max_size=8), actions=st.lists(_actions, max_size=14))
def test_any_order_of_doings_ends_well(in_virtual_time, problems_of, answers, actions) -> None:
    in_virtual_time(live_through, answers, actions, problems_of)


@UNHURRIED
@given(
    answers=st.lists(_answers, max_size=6),
    actions=st.lists(_actions, min_size=1, max_size=10),
    faults=st.dictionaries(
        st.integers(2, 25),
        st.sampled_from([Fault(error=StoreUnavailable("full")), Fault(delay=2), Fault(delay=100)]),
        min_size=1,
        max_size=5,
    ),
)
def test_any_order_of_doings_ends_well_on_a_store_that_fails(
    in_virtual_time, problems_of, answers, actions, faults
) -> None:
    in_virtual_time(live_through, answers, actions, problems_of, faults)
