"""What a turn does about a model call that failed, one thing after the other."""

from __future__ import annotations

from typing import Any

import pytest

from aar.errors import ContextTooLong, ProviderUnavailable
from aar.hooks import Hooks
from aar.injectors import ErrorChange, Injectors, OnErrorInjection, Preamble, Timing
from aar.messages.events import Compacted, ErrorEvent, Notice, ToolResult
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry

TOO_LONG = ContextTooLong("too long", status=400)


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text="": text)
    return registry


def settings(**fields: Any) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, "max_retries": 1, **fields})


def errors(session: Any) -> list[str]:
    return [fact.message for fact in facts_of(session) if isinstance(fact, ErrorEvent)]


# --- calls that cannot be read ----------------------------------------------------------------


@pytest.mark.covers("AURA-08", "AURA-09")
async def test_calls_that_cannot_be_read_are_told_to_the_model_three_times_in_a_row(live, tools) -> None:
    provider = ScriptedProvider()
    for number in range(3):
        provider = provider.call("echo", raw=f'{{"text": {number}')
    async with live(provider.call("echo", text="good").text("done"), settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        outputs = [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult)]
    assert len(provider.requests) == 5
    assert [output.startswith("Error [invalid_arguments]") for output in outputs] == [True, True, True, False]


@pytest.mark.covers("AURA-08")
async def test_the_fourth_time_in_a_row_is_an_error(live, tools) -> None:
    provider = ScriptedProvider()
    for number in range(9):
        provider = provider.call("echo", raw=f'{{"text": {number}')
    async with live(provider, settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "error"
        assert errors(session) == [
            "The model's tool calls cannot be read — no complete JSON object, four times in a row"
        ]
    assert len(provider.requests) == 4


async def test_calls_that_can_be_read_in_between_start_the_count_anew(live, tools) -> None:
    tools.register("takes_raw")(lambda raw="": raw)
    provider = ScriptedProvider()
    for number in range(4):
        provider = provider.call("echo", raw=f"{number}").call("takes_raw", raw=f"{number}")
    async with live(provider.text("done"), settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"


# --- a conversation that is too long ----------------------------------------------------------


@pytest.mark.covers("AURA-09")
async def test_a_conversation_that_is_too_long_is_summarised_and_the_step_counts_once(live, tools) -> None:
    provider = ScriptedProvider().call("echo", text="x" * 5000).error(TOO_LONG).text("We echoed.").text("done")
    async with live(provider, settings(max_steps=2), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert [fact.summary for fact in facts_of(session) if isinstance(fact, Compacted)] == ["We echoed."]
        assert [fact.kind for fact in facts_of(session) if isinstance(fact, Notice)] == ["shortened"]
        assert session.snapshot().last_text() == "done"
    summary, after = provider.requests[2:]
    assert summary.messages[2]["content"][0]["content"] == "x" * 200 + "[...]"
    assert [one["content"] for one in after.messages] == ["[Summary of the conversation so far]\n\nWe echoed."]


async def test_a_summary_is_made_of_less_until_the_model_takes_it(live, tools) -> None:
    provider = ScriptedProvider().call("echo", text="x" * 5000).error(TOO_LONG)
    for _ in range(6):
        provider = provider.error(TOO_LONG)
    async with live(provider.text("Short.").text("done"), settings(), tools=tools) as session:
        assert (await session.prompt("a" * 100)).stop == "end_turn"
    results = [
        len(block["content"])
        for request in provider.requests[2:8]
        for one in request.messages
        for block in (one["content"] if isinstance(one["content"], list) else [])
        if block["type"] == "tool_result"
    ]
    assert results == [205, 155, 105, 55, 5, 5]
    sizes = [len(request.messages) for request in provider.requests[2:]]
    assert sizes[:5] == [4] * 5
    assert sizes[5] < 4


async def test_what_stays_too_long_as_a_summary_is_given_up(live, tools) -> None:
    provider = ScriptedProvider().call("echo", text="x" * 5000).error(TOO_LONG).text("Short.").error(TOO_LONG)
    async with live(provider, settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "error"
    assert len(provider.requests) == 4


async def test_a_prompt_that_is_too_long_alone_is_not_summarised(live) -> None:
    provider = ScriptedProvider().error(TOO_LONG)
    async with live(provider, settings()) as session:
        assert (await session.prompt("go")).stop == "error"
    assert len(provider.requests) == 1


# --- the order --------------------------------------------------------------------------------


@pytest.mark.covers("AURA-09")
async def test_an_injector_is_asked_when_nothing_else_helps_and_what_it_leaves_is_the_error(live, tools) -> None:
    seen: list[str] = []

    def decide(at: Any, error: Exception) -> OnErrorInjection:
        seen.append(type(error).__name__)
        return OnErrorInjection(error=ErrorChange(retry=len(seen) < 2))

    injectors = Injectors()
    injectors.add_function(Timing.ON_ERROR, decide, Preamble(name="one"))
    gone = ProviderUnavailable("gone")
    provider = ScriptedProvider().call("echo", text="x" * 999).error(TOO_LONG).text("Short.").error(gone).error(gone)
    async with live(provider, settings(), tools=tools, hooks=Hooks(injectors=injectors)) as session:
        assert (await session.prompt("go")).stop == "error"
        assert len(errors(session)) == 1
    assert seen == ["ProviderUnavailable", "ProviderUnavailable"]
