"""Feeds: what happens to interfaces that do not keep up, that ask, that answer, and that leave."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from aar.errors import InvalidMessage
from aar.messages.events import ApprovalResolved, TurnEnded
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.testing import ScriptedProvider, facts_of
from aar.ui import Overflow, open_feed
from aar.ui import events as ui
from aar.ui.feed import CAPACITY

STREAMING = AgentConfig(streaming=True)
ASKING = AgentConfig(safety=SafetyConfig(require_approval_for_execute=True))


def chatty(chunks: int) -> ScriptedProvider:
    return ScriptedProvider().text("word " * chunks, chunks=chunks, delay=0.05)


@pytest.mark.covers("AURA-24")
async def test_a_stalled_interface_stops_the_turn_at_a_hundred_and_it_goes_on_when_that_is_read(
    autojump_clock, live
) -> None:
    async with live(chatty(500), STREAMING) as session, open_feed(session, overflow=Overflow.BLOCK) as feed:
        ended = trio.Event()

        async def prompt() -> None:
            await session.prompt("go")
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prompt)
            await trio.sleep(60)
            assert not ended.is_set()
            assert session._journal.statistics().furthest_behind <= CAPACITY
            said = ""
            async for event in feed:
                said += event.delta if isinstance(event, ui.MessagePartUpdated) else ""
                said += event.part.text if isinstance(event, ui.MessagePartAdded) else ""
                if isinstance(event, ui.AssistantDone):
                    break
            await ended.wait()
        assert said.count("word") == 500


@pytest.mark.covers("AURA-24")
async def test_who_wants_no_waiting_is_cut_off_and_told_why(autojump_clock, live) -> None:
    async with live(chatty(500), STREAMING) as session, open_feed(session, overflow=Overflow.DISCONNECT) as feed:
        assert (await session.prompt("go")).stop == "end_turn"
        await trio.testing.wait_all_tasks_blocked()
        assert len([event async for event in feed]) == CAPACITY
        assert feed.reason == "the interface was more than 100 events behind"
        await feed.flush()
        assert await feed.ask("Still there?") is None


@pytest.mark.covers("AURA-24")
async def test_fragments_are_merged_for_who_is_slow_and_nothing_else_is_lost(autojump_clock, live) -> None:
    async with live(chatty(500), STREAMING) as session, open_feed(session) as feed:
        await session.prompt("go")
        told = []
        async for event in feed:
            told.append(event)
            if isinstance(event, ui.WaitingForInput) and len(told) > 5:
                break
    assert len(told) < 30
    (final,) = [event for event in told if isinstance(event, ui.MessageFinalized)]
    assert final.message.parts[-1].text.count("word") == 500


@pytest.mark.covers("AURA-28")
async def test_after_a_flush_everything_before_it_has_been_dealt_with(autojump_clock, live) -> None:
    async with live(ScriptedProvider().text("one")) as session, open_feed(session) as feed:
        shown: list[str] = []

        async def interface() -> None:
            async for event in feed:
                await trio.sleep(1)  # it takes its time
                shown.append(type(event).__name__)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(interface)
            await session.prompt("go")
            await feed.flush()
            assert [name for name in shown if name != "Flush"][-3:] == [
                "AssistantDone",
                "StatusChanged",
                "WaitingForInput",
            ]
            nursery.cancel_scope.cancel()


@pytest.mark.covers("AURA-28")
async def test_a_flush_does_not_wait_for_an_interface_that_has_left(autojump_clock, live) -> None:
    async with live() as session:
        async with open_feed(session) as feed, trio.open_nursery() as nursery:
            nursery.start_soon(feed.flush)
            await trio.testing.wait_all_tasks_blocked()
            feed._close("gone")
        await feed.flush()


@pytest.mark.covers("AURA-26")
async def test_an_answer_wakes_who_asked_and_a_second_one_is_rejected(autojump_clock, live) -> None:
    async with live() as session, open_feed(session) as feed:
        answers: list[str | None] = []

        async def ask() -> None:
            answers.append(await feed.ask("Which?", ["a", "b"]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            async for event in feed:
                if isinstance(event, ui.AskRequired):
                    with pytest.raises(InvalidMessage, match="none of the answers: a, b"):
                        await feed.answer(event.request_id, "c")
                    assert await feed.answer(event.request_id, "b")
                    assert not await feed.answer(event.request_id, "a")
                    break
        assert answers == ["b"]


@pytest.mark.covers("AURA-26")
async def test_a_tool_runs_when_the_interface_says_so_and_the_first_answer_counts(autojump_clock, live) -> None:
    script = ScriptedProvider().call("bash", command="echo hello").text("Done.")
    async with live(script, ASKING) as session, open_feed(session, answers=True) as feed:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            async for event in feed:
                if isinstance(event, ui.ToolConfirmRequired):
                    with pytest.raises(InvalidMessage, match="is no decision"):
                        await feed.answer(event.request_id, "maybe")
                    assert await feed.answer(event.request_id, "allow")
                    assert not await feed.answer(event.request_id, "deny")
                if isinstance(event, ui.StatusChanged) and event.open_requests:
                    assert event.state == "waiting_for_input"
                if isinstance(event, ui.AssistantDone):
                    break
        (resolved,) = [fact for fact in facts_of(session) if isinstance(fact, ApprovalResolved)]
        assert resolved.decision == "allow"


@pytest.mark.covers("AURA-27")
async def test_leaving_while_a_question_is_open_is_no_and_the_tool_never_runs(autojump_clock, live, until) -> None:
    script = ScriptedProvider().call("bash", command="touch made").text("Done.")
    async with live(script, ASKING) as session:
        async with trio.open_nursery() as nursery:
            async with open_feed(session, answers=True) as feed:
                nursery.start_soon(session.prompt, "go")
                async for event in feed:
                    if isinstance(event, ui.ToolConfirmRequired):
                        break
            await until(session, TurnEnded)
        assert [fact.type for fact in facts_of(session) if fact.type == "tool_started"] == []
        (resolved,) = [fact for fact in facts_of(session) if isinstance(fact, ApprovalResolved)]
        assert (resolved.decision, resolved.by) == ("deny", "nobody")


@pytest.mark.covers("AURA-27")
async def test_what_an_application_asked_is_no_when_the_interface_goes(autojump_clock, live) -> None:
    async with live() as session:
        answers: list[str | None] = []

        async with trio.open_nursery() as nursery, open_feed(session) as feed:

            async def ask() -> None:
                answers.append(await feed.ask("Sure?"))

            nursery.start_soon(ask)
            async for event in feed:
                if isinstance(event, ui.AskRequired):
                    break
        assert answers == [None]


async def test_a_feed_ends_with_its_session_and_begins_where_it_was_told(autojump_clock, live, tmp_path) -> None:
    from aar.testing import open_test_runtime

    async with open_test_runtime(ScriptedProvider().text("one").text("two"), home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt("first")
        after = session.seq
        await session.prompt("second")
        await runtime.sessions.close(session.session_id)
        async with open_feed(session, after=after) as feed:
            told = [event async for event in feed]
    assert feed.reason == ""
    said = [event.message.parts[-1].text for event in told if isinstance(event, ui.MessageAdded | ui.MessageFinalized)]
    assert said == ["second", "two"]
