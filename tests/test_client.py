"""Handles on sessions: what a client of a runtime holds."""

from __future__ import annotations

import pytest
import trio

from aar.errors import ActorStopped, InvalidMessage, QueueFull, StoreUnavailable
from aar.messages.content import ImageBlock, ImageURL, TextBlock
from aar.messages.events import AgentState, TurnEnded, UserMessage
from aar.messages.settings import AgentConfig
from aar.testing import Fault, MemoryStore, ScriptedProvider, facts_of, open_test_runtime


async def test_a_handle_knows_its_session(live, tmp_path) -> None:
    async with live(ScriptedProvider().text("hello").usage(3, 2)) as session:
        assert session.cwd == str(tmp_path / "project")
        assert session.seq == 1
        await session.prompt("hi")
        status = await session.status()
        assert (status.session_id, status.seq, status.state) == (session.session_id, session.seq, AgentState.COMPLETED)
        assert (status.input_tokens, status.output_tokens, status.queue_length) == (3, 2, 0)
        assert session.metadata["title"] == "hello"
        assert [record.seq for record in session.records(after=session.seq - 1)] == [session.seq]


async def test_a_handle_knows_the_tools_of_its_session(live) -> None:
    async with live() as session:
        tools = await session.tools()
    assert [tool.name for tool in tools] == sorted(AgentConfig().tools.enabled_builtins)
    assert {tool.name: tool.side_effects for tool in tools}["bash"] == ("execute",)


async def test_a_snapshot_is_the_callers_own(live) -> None:
    async with live(ScriptedProvider().text("hello")) as session:
        await session.prompt("hi")
        mine = session.snapshot()
        mine.add_user_message("only here")
        mine.metadata["only"] = "here"
        assert mine.seq == session.seq + 1
        assert "only" not in session.metadata
        assert len(session.snapshot().to_messages()) == 2


async def test_a_prompt_may_be_parts(live) -> None:
    provider = ScriptedProvider().text("x")
    async with live(provider) as session:
        await session.prompt([TextBlock(text="a"), TextBlock(text="b")])
        said = next(event for event in facts_of(session) if isinstance(event, UserMessage))
        assert (said.content, len(said.parts)) == ("a b", 2)


async def test_the_answer_to_a_prompt_is_its_last_fact(live) -> None:
    async with live(ScriptedProvider().text("x")) as session:
        ended = await session.prompt("go")
        assert isinstance(ended, TurnEnded)
        assert facts_of(session)[-1] is ended


async def test_an_owner_who_fails_ends_his_turn_and_keeps_his_error(live, story) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider) as session:

        async def fail() -> None:
            async with session.running("go"):
                await provider.reached(1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert story(session)[-1] == "turn_ended cancelled"


async def test_an_owner_who_did_not_wait_for_the_end_has_waited_when_the_block_is_left(live, story) -> None:
    async with live(ScriptedProvider().hang()) as session:
        async with session.running("go"):
            pass
        assert story(session)[-1] == "turn_ended cancelled"


async def test_an_owner_whose_prompt_waits_takes_it_back(live, story) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider) as session, session.running("first"):
        await provider.reached(1)
        async with session.running("second"):
            await session.status()
        assert story(session)[-2:] == ["prompt_queued second", "prompts_cleared 1"]
        assert (await session.status()).queue_length == 0


async def test_an_owner_does_not_wait_for_ever_for_a_store_that_is_stuck(live, autojump_clock) -> None:
    store = MemoryStore(faults={number: Fault(delay=10_000) for number in range(3, 9)})
    provider = ScriptedProvider().hang()
    async with live(provider, store=store) as session:
        with trio.move_on_after(5):
            await session.run("go")
        assert trio.current_time() <= 5 + 15 + 1


async def test_errors_of_a_prompt_reach_its_owner(live, autojump_clock) -> None:
    store = MemoryStore(faults={2: Fault(error=StoreUnavailable("full"))})
    async with live(ScriptedProvider(), store=store) as session:
        with pytest.raises(StoreUnavailable, match="full"):
            await session.run("go")


async def test_a_full_queue_is_told_to_the_owner(live, until) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider) as session, trio.open_nursery() as nursery:
        for _ in range(33):
            nursery.start_soon(_run_quietly, session)
        await provider.reached(1)
        while (await session.status()).queue_length < 32:
            await trio.lowlevel.checkpoint()
        with pytest.raises(QueueFull):
            await session.run("one too many")
        nursery.cancel_scope.cancel()


async def _run_quietly(session) -> None:
    await session.run("go")


async def test_attending_a_runtime_that_has_ended_is_refused(tmp_path) -> None:
    async with open_test_runtime(home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
    with pytest.raises(ActorStopped):
        async with session.attend():
            raise AssertionError("nobody is there to be told")


async def test_an_error_inside_attending_leaves_it_as_it_is(live) -> None:
    async def fail(session) -> None:
        async with session.attend():
            raise ZeroDivisionError

    async with live() as session:
        with pytest.raises(ZeroDivisionError):
            await fail(session)


@pytest.mark.parametrize("nothing", ["", " \n", [], [TextBlock(text=" ")]])
async def test_a_prompt_that_says_nothing_is_refused_before_anything_happens(live, nothing) -> None:
    async with live() as session:
        before = session.records()
        for say in (session.prompt, session.run, session.steer, session.follow_up):
            with pytest.raises(InvalidMessage, match="the prompt is empty: say what is to be done"):
                await say(nothing)
        assert session.records() == before


async def test_a_picture_alone_says_something(live) -> None:
    async with live(ScriptedProvider().text("a cat")) as session:
        await session.prompt([ImageBlock(image_url=ImageURL(url="https://cats.example/1.png"))])
        assert session.snapshot().last_text() == "a cat"


async def test_handles_of_one_session_are_alike(tmp_path) -> None:
    provider = ScriptedProvider().text("x").forever()
    async with open_test_runtime(provider, AgentConfig(), home=tmp_path) as runtime:
        one = await runtime.sessions.open("/", session_id="one")
        other = await runtime.sessions.load("one")
        await one.prompt("a")
        await other.prompt("b")
        assert one.records() == other.records()
        await runtime.sessions.close("one")
        for handle in (one, other):
            with pytest.raises(ActorStopped):
                await handle.prompt("c")
