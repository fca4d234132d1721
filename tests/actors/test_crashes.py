"""A session that crashes, and one that several clients use."""

from __future__ import annotations

import logging

import pytest
import trio

from aar.errors import (
    ActorCrashed,
    ActorStopped,
)
from aar.messages.events import (
    AgentState,
    PromptQueued,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from aar.messages.session import Configure
from aar.messages.settings import AgentConfig
from aar.runtime import open_runtime
from aar.testing import ScriptedProvider, open_test_runtime
from aar.tools.registry import ToolRegistry


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, **fields})


@pytest.fixture
def gated():
    """A tool that waits for its gate, and a registry with it."""
    gate, tools = trio.Event(), ToolRegistry()

    @tools.register("wait")
    async def wait() -> str:
        await gate.wait()
        return "waited"

    return gate, tools


# --- crashes ----------------------------------------------------------------------------------


async def test_a_session_that_crashes_in_the_middle_of_a_turn_closes_it_and_goes_on(
    live, gated, story, until, problems_of, caplog
) -> None:
    _, tools = gated
    provider = ScriptedProvider().calls(("wait", {}), ("wait", {})).text("I am here")
    async with live(provider, settings(), tools=tools) as session:
        async with session.running("go") as (_, ended):
            await until(session, ToolStarted, times=2)
            await crash(session)
            with trio.fail_after(5):
                assert (await ended()).stop == "interrupted"
        assert [line for line in story(session) if line.startswith(("tool_result", "error", "turn_ended"))] == [
            "tool_result call_1 failed: The turn ended before this tool call was finished.",
            "tool_result call_2 failed: The turn ended before this tool call was finished.",
            "error Run interrupted",
            "turn_ended interrupted",
        ]
        assert problems_of(session.snapshot().to_messages()) == []
        with trio.fail_after(5):
            assert (await session.prompt("are you there?")).stop == "end_turn"
        assert session.snapshot().state is AgentState.COMPLETED
    assert "crashed" in caplog.text


async def crash(session) -> None:
    """Make the mailbox loop fail, with a message that no client could send over a wire."""
    with pytest.raises(ActorCrashed):
        await session._ref.ask(Configure.model_construct(type="configure", patch=None))


async def test_who_waits_in_the_queue_of_a_session_that_crashes_is_told(live, gated, until) -> None:
    provider = ScriptedProvider().hang().text("again")
    async with live(provider, settings()) as session, session.running("go"):
        await provider.reached(1)
        async with session.running("second") as (_, ended):
            await until(session, PromptQueued)
            await crash(session)
            with pytest.raises(ActorCrashed), trio.fail_after(5):
                await ended()
        assert [(item.content, item.is_stored) for item in (await session.queue()).items] == [("second", True)]


async def test_a_session_that_crashed_knows_what_it_knew(live, until) -> None:
    provider = ScriptedProvider().text("x").usage(10, 5).text("y").usage(1, 1)
    async with live(provider, settings()) as session:
        await session.prompt("go")
        await session.configure({"max_steps": 7})
        await session.auto_approve("bash:git *")
        await session.status()
        before = session.snapshot()
        await crash(session)
        assert (await session.status()).input_tokens == 10
        after = session.snapshot()
        for name in ("events", "seq", "state", "patch", "standing", "metadata", "trace_id", "total_output_tokens"):
            assert getattr(after, name) == getattr(before, name)
        assert (await session.configure({})).max_steps == 7
        await session.prompt("again")
        assert (await session.status()).step_count == 2


async def test_readers_do_not_notice_a_crash(live) -> None:
    async with live(ScriptedProvider().text("x").text("y"), settings()) as session:
        with session.follow(after=1) as records:
            await session.prompt("go")
            await crash(session)
            await session.prompt("again")
            seen = []
            async for record in records:
                seen += [record.seq] if record.seq else []
                if seen and seen[-1] == session.seq:
                    break
        assert seen == list(range(2, session.seq + 1))


async def test_a_session_that_crashes_again_and_again_is_given_up_alone(tmp_path, caplog) -> None:
    async with open_test_runtime(ScriptedProvider().text("x"), settings(), home=tmp_path) as runtime:
        broken = await runtime.sessions.open("/", session_id="broken")
        sound = await runtime.sessions.open("/", session_id="sound")
        for _ in range(4):
            await crash(broken)
        with pytest.raises(ActorStopped), trio.fail_after(5):
            await broken.status()
        assert (await sound.prompt("go")).stop == "end_turn"
        with trio.fail_after(5):
            again = await runtime.sessions.load("broken")
        assert (await again.status()).session_id == "broken"
    assert [record.levelno for record in caplog.records if "given up" in record.getMessage()] == [logging.ERROR]


async def test_the_provider_is_given_back_and_taken_again_by_a_session_that_crashed(tmp_path) -> None:
    built: list[ScriptedProvider] = []

    def build(config) -> ScriptedProvider:
        built.append(ScriptedProvider(config).text("x").forever())
        return built[-1]

    async with open_runtime(settings(), home=tmp_path, build_provider=build) as runtime:
        session = await runtime.sessions.open("/")
        await session.prompt("go")
        await crash(session)
        await session.prompt("again")
        assert [provider.closed for provider in built] == [1, 0]
    assert [provider.closed for provider in built] == [1, 1]


# --- several clients --------------------------------------------------------------------------


async def test_two_clients_on_one_session_see_the_same_and_one_may_leave(live, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("one", chunks=3).after(gate).text("two")
    async with live(provider, settings(streaming=True)) as session:
        seen: dict[str, list[int]] = {"stays": [], "leaves": []}

        async def client(name: str, stop_at: type) -> None:
            with session.follow() as records:
                async for record in records:
                    seen[name] += [record.seq] if record.seq else []
                    if isinstance(record.event, stop_at) and record.seq > 2:
                        return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client, "leaves", TurnStarted)
            nursery.start_soon(session.prompt, "a")
            await provider.reached(1)
            nursery.start_soon(client, "stays", TurnEnded)
            nursery.start_soon(session.prompt, "b")
            await until(session, PromptQueued)
            gate.set()
            await until(session, TurnEnded, times=2)
        assert seen["stays"] == list(range(1, seen["stays"][-1] + 1))
        assert seen["leaves"] == list(range(1, seen["leaves"][-1] + 1))


async def test_a_client_that_comes_back_asks_for_what_it_missed(live) -> None:
    async with live(ScriptedProvider().text("1").text("2"), settings()) as session:
        await session.prompt("a")
        last = session.seq
        await session.prompt("b")
        with session.follow(after=last) as records:
            missed = [(await anext(records)).seq for _ in range(session.seq - last)]
        assert missed == list(range(last + 1, session.seq + 1))
