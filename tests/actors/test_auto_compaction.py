"""A conversation is summarised when so much of the window is full, and stays as it is when that fails."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import ContextTooLong, ProviderUnavailable
from aar.journal.transcript import Transcript
from aar.messages.events import AssistantMessage, Compacted, Event, Notice, ToolCall, ToolResult, UserMessage
from aar.messages.settings import AgentConfig
from aar.testing import MemoryStore, ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolRegistry


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text="": text)
    return registry


def settings(*builtins: str, **fields: Any) -> AgentConfig:
    told = {"context_window": 1000, "compact_at": 0.8, "compact_keep": 4, "max_retries": 1}
    return AgentConfig(**{"tools": {"enabled_builtins": list(builtins)}, **told, **fields})


def contents(request: Any) -> list[Any]:
    return [one["content"] for one in request.messages]


def summaries(session: Any) -> list[str]:
    return [fact.summary for fact in facts_of(session) if isinstance(fact, Compacted)]


@pytest.mark.covers("AURA-99")
async def test_all_but_the_newest_messages_are_summarised_when_so_much_is_full(live) -> None:
    provider = ScriptedProvider().text("b" * 1000).text("d" * 1000).text("f" * 1000).text("Short.").text("h")
    async with live(provider, settings()) as session:
        for text in "aceg":
            await session.prompt(text * 100)
        assert summaries(session) == ["Short."]
        [notice] = [fact.text for fact in facts_of(session) if isinstance(fact, Notice)]
        assert len([fact for fact in facts_of(session) if isinstance(fact, UserMessage)]) == 4  # what is stored stays
    summary, after = provider.requests[3:]
    assert [text[0] for text in contents(summary)[:-1]] == ["a", "b", "c"]
    assert [text[0] for text in contents(after)] == ["[", "d", "e", "f", "g"]
    assert notice == "More than 80% of the context window was full: a summary stands for the first 3 messages."


@pytest.mark.covers("AURA-99")
async def test_the_list_of_what_is_to_be_done_stands_in_the_summary_as_it_is(live) -> None:
    items = [{"text": "first", "status": "done"}, {"text": "second", "status": "in_progress"}]
    provider = ScriptedProvider().call("todo", items=items).text("b" * 4000).text("Short.").text("c")
    async with live(provider, settings("todo", compact_keep=1)) as session:
        await session.prompt("a")
        await session.prompt("b")
        assert summaries(session) == ["Short.\n\nThe list of what is to be done:\n[x] first\n[~] second"]


async def test_nothing_is_summarised_without_a_window_or_below_the_share_or_where_little_would_be_won(live) -> None:
    for fields in ({"context_window": 0}, {"compact_at": 0.0}, {"compact_at": 1.0}, {"compact_keep": 6}):
        provider = ScriptedProvider().text("b" * 1400).text("d" * 1900).text("f")
        async with live(provider, settings(**fields)) as session:
            for text in "ace":
                await session.prompt(text)
            assert summaries(session) == []
        assert len(provider.requests) == 3
    provider = ScriptedProvider().text("b").text("d" * 4000).text("f" * 100)
    async with live(provider, settings(compact_keep=2)) as session:
        for text in "ace":
            await session.prompt(text)
        assert summaries(session) == []


@pytest.mark.covers("AURA-100")
async def test_a_summary_is_made_of_less_when_the_model_refuses_so_much(live, tools) -> None:
    too_long = ContextTooLong("too long", status=400)
    provider = ScriptedProvider().call("echo", text="x" * 4000).text("b").error(too_long).error(too_long)
    provider = provider.text("Short.").text("c")
    async with live(provider, settings(compact_keep=1), tools=tools) as session:
        await session.prompt("a")
        await session.prompt("b")
        assert summaries(session) == ["Short."]
    results = [len(request.messages[2]["content"][0]["content"]) for request in provider.requests[2:5]]
    assert results == [4000, 205, 155]


async def test_what_fails_is_not_tried_again_before_the_conversation_has_grown(live) -> None:
    gone = ProviderUnavailable("gone")
    provider = ScriptedProvider().text("b" * 4000).error(gone).text("d").text("f" * 1000).error(gone).text("h")
    async with live(provider, settings(compact_keep=1)) as session:
        for text in "aceg":
            assert (await session.prompt(text)).stop == "end_turn"
        assert summaries(session) == []
    assert len(provider.requests) == 6


@pytest.mark.covers("AURA-99")
async def test_the_history_is_the_old_one_when_all_ends_during_a_summary(tmp_path) -> None:
    store, provider = MemoryStore(), ScriptedProvider().text("b" * 4000).hang()
    config = settings(compact_keep=1)
    async with (
        open_test_runtime(provider, config, store=store, home=tmp_path) as runtime,
        trio.open_nursery() as nursery,
    ):
        session = await runtime.sessions.open("/")
        await session.prompt("a")
        nursery.start_soon(session.prompt, "c")
        await provider.reached(2)
        before = session.snapshot().to_messages()
        await runtime.sessions.close(session.session_id)
        nursery.cancel_scope.cancel()
    async with open_test_runtime(ScriptedProvider(), config, store=store, home=tmp_path) as runtime:
        again = await runtime.sessions.load(session.session_id)
        assert again.snapshot().to_messages() == before
        assert [one["content"][0] for one in before] == ["a", "b", "c"]


# --- where it is cut --------------------------------------------------------------------------

steps = st.lists(st.sampled_from(["user", "answer", "calls", "cut"]), max_size=8)


@given(steps, st.integers(1, 5))
def test_a_summary_stands_for_just_the_messages_that_it_was_made_of(
    problems_of: Any, said: list[str], count: int
) -> None:
    facts: list[Event] = []
    for number, step in enumerate(said):
        match step:
            case "user":
                facts.append(UserMessage(content=f"u{number}"))
            case "answer":
                facts.append(AssistantMessage(content=f"a{number}"))
            case "calls" | "cut":
                ids = [f"{number}.1", f"{number}.2"]
                facts += [ToolCall(tool_name="t", tool_call_id=one) for one in ids]
                facts.append(AssistantMessage(content=""))
                facts += [ToolResult(tool_call_id=one, output=one) for one in ids[: 2 if step == "calls" else 1]]
    transcript = Transcript()
    for seq, fact in enumerate(facts, 1):
        transcript.apply(fact, seq=seq)
    before = transcript.messages()
    index, up_to = transcript.before_newest(count)
    if index:
        transcript.apply(Compacted(up_to_seq=up_to, summary="s"), seq=len(facts) + 1)
        assert transcript.messages()[1:] == before[index:]
        assert problems_of(before[:index]) == []
        assert problems_of(transcript.messages()) == []
