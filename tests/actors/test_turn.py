"""A turn from its prompt to its end: steps, their facts in order, limits and guardrails."""

from __future__ import annotations

import logging

import pytest
import trio

from aar.messages.events import (
    AgentState,
    AssistantMessage,
    ErrorEvent,
    ProviderMeta,
    ToolCall,
    ToolResult,
    TurnEnded,
    UserMessage,
)
from aar.messages.settings import AgentConfig, GuardrailsConfig, ProviderConfig
from aar.testing import ScriptedAnswer, ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry

STUCK = "Agent stuck in a loop — same tool calls repeated too many times"


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text="": text)
    return registry


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, **fields})


# --- plain turns ------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-01", "EV-22")
async def test_a_text_answer_ends_the_turn_after_one_step(live, story) -> None:
    async with live(ScriptedProvider().text("hello"), settings()) as session:
        ended = await session.prompt("hi")
        assert ended.stop == "end_turn"
        assert story(session) == [
            "turn_started",
            "prompt: hi",
            "provider_meta",
            "assistant end_turn: hello",
            "turn_ended end_turn",
        ]
        status = await session.status()
        assert (status.state, status.step_count, status.turn_id) == (AgentState.COMPLETED, 1, "")


@pytest.mark.covers("LOOP-02", "EV-15")
async def test_a_step_with_tools_is_every_call_then_the_message_then_every_result_in_call_order(
    live, story, tools, autojump_clock
) -> None:
    @tools.register("slow")
    async def slow(text: str) -> str:
        await trio.sleep(1)
        return text

    provider = ScriptedProvider().calls(("slow", {"text": "a"}), ("echo", {"text": "b"}), text="looking").text("done")
    async with live(provider, settings(), tools=tools) as session:
        await session.prompt("go")
        told = story(session)
        assert sorted(told[6:8]) == ["tool_started call_1", "tool_started call_2"]
        assert told[:6] + told[8:] == [
            "turn_started",
            "prompt: go",
            "provider_meta",
            "tool_call call_1 slow",
            "tool_call call_2 echo",
            "assistant tool_use: looking",
            "tool_result call_1 ok: a",
            "tool_result call_2 ok: b",
            "provider_meta",
            "assistant end_turn: done",
            "turn_ended end_turn",
        ]
        status = await session.status()
        assert (status.state, status.step_count) == (AgentState.COMPLETED, 2)
        assert [message["role"] for message in session.snapshot().to_messages()] == [
            "user",
            "assistant",
            "user",
            "assistant",
        ]


async def test_facts_carry_the_id_of_their_turn_and_count_without_gaps(live) -> None:
    async with live(ScriptedProvider().text("one").text("two"), settings()) as session:
        await session.prompt("a")
        await session.prompt("b")
        records = session.records()
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        turns = [record.turn_id for record in records]
        assert turns[0] == ""
        assert len(set(turns[1:6])) == len(set(turns[6:])) == 1
        assert turns[1] != turns[6]


@pytest.mark.covers("SES-02")
async def test_each_turn_has_a_run_id_of_its_own_and_the_trace_stays(live) -> None:
    async with live(ScriptedProvider().text("x").forever(), settings()) as session:
        seen = []
        for _ in range(2):
            await session.prompt("again")
            seen.append((session.snapshot().run_id, session.snapshot().trace_id))
        assert seen[0][0] != seen[1][0]
        assert seen[0][1] == seen[1][1]


@pytest.mark.covers("EV-17")
async def test_calls_say_what_their_tool_may_do_and_unknown_tools_say_nothing(live) -> None:
    provider = ScriptedProvider().calls(("bash", {"command": "true"}), ("nonsense", {})).text("done")
    async with live(provider) as session:
        await session.prompt("go")
        calls = [event for event in facts_of(session) if isinstance(event, ToolCall)]
        assert [call.data for call in calls] == [{"side_effects": ["execute"]}, {}]


@pytest.mark.covers("LOOP-41", "CFG-15", "TOOL-38")
async def test_the_model_gets_the_enabled_tools_and_none_at_all_when_there_are_none(live) -> None:
    provider = ScriptedProvider().text("x").forever()
    async with live(provider, settings()) as session:
        await session.prompt("go")
    async with live(provider, AgentConfig(tools={"enabled_builtins": ["read_file"]})) as session:
        await session.prompt("go")
    none, some = (request.tools for request in provider.requests)
    assert none is None
    assert [tool.name for tool in some] == ["read_file"]
    assert [set(tool.dump()) for tool in some] == [{"name", "description", "input_schema"}]


@pytest.mark.covers("TOOL-12")
async def test_what_the_application_brings_is_never_pruned_with_the_builtins(live, tools) -> None:
    provider = ScriptedProvider().text("x")
    async with live(provider, AgentConfig(tools={"enabled_builtins": ["bash"]}), tools=tools) as session:
        await session.prompt("go")
    assert [tool.name for tool in provider.requests[0].tools] == ["bash", "echo"]


@pytest.mark.covers("PRM-10", "CFG-16")
async def test_the_system_prompt_is_the_same_for_every_request(live) -> None:
    provider = ScriptedProvider().text("x").forever()
    async with live(provider, settings(system_prompt="Be brief.")) as session:
        for _ in range(10):
            await session.prompt("again")
    assert [request.system for request in provider.requests] == ["Be brief."] * 10


@pytest.mark.covers("LOOP-42")
async def test_the_session_waits_for_tools_while_they_run(live, tools) -> None:
    states = []

    @tools.register("look")
    async def look() -> str:
        states.append(session.snapshot().state)
        return ""

    async with live(ScriptedProvider().call("look").text("x"), settings(), tools=tools) as session:
        await session.prompt("go")
        states.append((await session.status()).state)
    assert states == [AgentState.WAITING_FOR_TOOL, AgentState.COMPLETED]


# --- how turns stop ---------------------------------------------------------------------------


@pytest.mark.covers("LOOP-39")
@pytest.mark.parametrize("reason", ["weird", "", "stop", "END_TURN"])
async def test_a_stop_reason_nobody_knows_counts_as_the_end_of_the_turn(live, story, reason) -> None:
    async with live(ScriptedProvider().text("x").stop(reason), settings()) as session:
        await session.prompt("go")
        assert story(session)[-2:] == ["assistant end_turn: x", "turn_ended end_turn"]


async def test_a_model_that_wants_tools_and_names_none_has_stopped(live, story) -> None:
    async with live(ScriptedProvider().text("x").stop("tool_use"), settings()) as session:
        await session.prompt("go")
        assert story(session)[-1] == "turn_ended end_turn"


@pytest.mark.covers("LOOP-40")
@pytest.mark.parametrize(
    ("reason", "stop", "text"),
    [
        ("error", "error", "The provider stopped its answer with an error."),
        ("content_filter", "refused", "The provider refused to answer this."),
        ("refusal", "refused", "The provider refused to answer this."),
    ],
)
async def test_an_answer_that_stopped_with_an_error_ends_the_turn_after_one_request(
    live, story, reason, stop, text
) -> None:
    provider = ScriptedProvider().text("I cannot").stop(reason)
    async with live(provider, settings()) as session:
        await session.prompt("go")
        assert story(session)[-3:] == ["assistant error: I cannot", f"error {text}", f"turn_ended {stop}"]
        assert (await session.status()).state is AgentState.ERROR
    assert len(provider.requests) == 1


@pytest.mark.covers("LOOP-04")
async def test_the_turn_stops_at_its_step_limit(live, story, tools) -> None:
    provider = ScriptedProvider()
    for number in range(3):
        provider.call("echo", text=str(number))
    async with live(provider, settings(max_steps=2), tools=tools) as session:
        await session.prompt("go")
        assert story(session)[-3:] == [
            "tool_result call_2 ok: 1",
            "error Reached max steps (2)",
            "turn_ended max_steps",
        ]
        assert (await session.status()).state is AgentState.MAX_STEPS
        assert facts_of(session)[-2].recoverable is False


@pytest.mark.covers("LOOP-43")
async def test_every_turn_has_all_its_steps_however_many_the_session_had(live, tools) -> None:
    provider = ScriptedProvider()
    for number in range(3):
        provider.call("echo", text=str(number)).text("done")
    async with live(provider, settings(max_steps=2), tools=tools) as session:
        assert [(await session.prompt("go")).stop for _ in range(3)] == ["end_turn"] * 3
        assert (await session.status()).step_count == 6


# --- truncation -------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-27", "EV-18")
async def test_a_truncated_answer_is_continued_with_an_internal_message(live, story) -> None:
    provider = ScriptedProvider().text("a").stop("max_tokens").text("b").stop("max_tokens").text("c")
    async with live(provider, settings()) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        said = [event for event in facts_of(session) if isinstance(event, UserMessage)]
        assert [event.data for event in said[1:]] == [
            {"kind": "internal", "internal": True, "reason": "max_tokens_recovery"}
        ] * 2
        stops = [event.stop_reason for event in facts_of(session) if isinstance(event, AssistantMessage)]
        assert stops == ["max_tokens", "max_tokens", "end_turn"]
        assert (await session.status()).state is AgentState.COMPLETED
    assert len(provider.requests) == 3


@pytest.mark.covers("LOOP-28", "LOOP-26")
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_model_that_is_always_cut_has_its_chances_and_then_the_turn_ends(live, streaming) -> None:
    provider = ScriptedProvider().text("cut").stop("max_tokens").forever()
    async with live(provider, settings(streaming=streaming)) as session:
        assert (await session.prompt("go")).stop == "max_tokens"
        assert len(provider.requests) == 3
        assert (await session.status()).state is AgentState.COMPLETED
        await session.prompt("again")
        assert len(provider.requests) == 6  # the chances are those of each turn


@pytest.mark.covers("LOOP-29")
async def test_continuing_can_be_turned_off(live) -> None:
    provider = ScriptedProvider().text("cut").stop("max_tokens")
    config = settings(guardrails=GuardrailsConfig(max_tokens_recoveries=0))
    async with live(provider, config) as session:
        assert (await session.prompt("go")).stop == "max_tokens"
    assert len(provider.requests) == 1


# --- repetition -------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-31")
async def test_the_fourth_identical_step_is_not_executed(live, story, tools) -> None:
    provider = ScriptedProvider().reply(ScriptedAnswer(text="hm", calls=(("echo", {"text": "same"}),))).forever()
    async with live(provider, settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "error"
        told = story(session)
        assert told.count("tool_result call_1 ok: same") == 1
        assert len([line for line in told if line.startswith("tool_result")]) == 3
        assert told[-4:] == ["provider_meta", "assistant error: hm", f"error {STUCK}", "turn_ended error"]
        assert facts_of(session)[-2].recoverable is False
        assert (await session.status()).state is AgentState.ERROR
    assert len(provider.requests) == 4


@pytest.mark.covers("LOOP-32")
async def test_the_same_tool_with_other_arguments_is_no_repetition(live, tools) -> None:
    provider = ScriptedProvider()
    for number in range(8):
        provider.call("echo", text=str(number))
    async with live(provider.text("done"), settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"


@pytest.mark.covers("LOOP-33")
async def test_the_order_of_calls_makes_no_difference_to_repetition(live, tools) -> None:
    one, two = ("echo", {"text": "1"}), ("echo", {"text": "2"})
    provider = ScriptedProvider().calls(one, two).calls(two, one).calls(one, two).calls(two, one)
    async with live(provider, settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "error"
        assert facts_of(session)[-2].message == STUCK


async def test_a_step_in_between_starts_the_count_anew(live, tools) -> None:
    provider = ScriptedProvider()
    for _ in range(3):
        provider.call("echo", text="a").call("echo", text="a").call("echo", text="b")
    async with live(provider.text("done"), settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"


# --- budgets ----------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-35")
async def test_a_spent_token_budget_stops_the_turn_before_its_tools(live, story, tools) -> None:
    provider = ScriptedProvider().calls(("echo", {}), text="let me").usage(60, 50)
    async with live(provider, settings(token_budget=100), tools=tools) as session:
        assert (await session.prompt("go")).stop == "budget_exceeded"
        assert story(session)[2:] == [
            "provider_meta",
            "error Token budget exceeded (110/100)",
            "turn_ended budget_exceeded",
        ]
        assert (await session.status()).state is AgentState.BUDGET_EXCEEDED


@pytest.mark.covers("AURA-11")
async def test_no_model_call_begins_once_the_total_has_passed_the_budget(live, tools) -> None:
    provider = ScriptedProvider().call("echo").usage(300, 50).text("one").usage(300, 50)
    provider = provider.call("echo").usage(300, 50).text("never").usage(1, 1)
    async with live(provider, settings(token_budget=1000), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert [(await session.prompt("on")).stop for _ in range(3)] == ["budget_exceeded"] * 3
    assert len(provider.requests) == 3


@pytest.mark.covers("LOOP-36", "TOK-01")
async def test_a_spent_cost_limit_stops_the_turn(live, story) -> None:
    provider = ScriptedProvider(ProviderConfig(name="scripted", model="claude-sonnet-4-6"))
    provider.text("cheap").usage(1000, 0).text("dear").usage(1000, 100_000)
    async with live(provider, settings(cost_limit=1.0)) as session:
        assert (await session.prompt("a")).stop == "end_turn"
        assert (await session.prompt("b")).stop == "budget_exceeded"
        assert story(session)[-2:] == ["error Cost limit exceeded ($1.5060/$1.0000)", "turn_ended budget_exceeded"]
        status = await session.status()
        assert (status.input_tokens, status.output_tokens, round(status.cost, 6)) == (2000, 100_000, 1.506)


@pytest.mark.covers("LOOP-37")
async def test_nearness_to_the_budget_is_told_once_in_a_session(live, caplog) -> None:
    provider = ScriptedProvider()
    for _ in range(3):
        provider.text("x").usage(100, 0)
    config = settings(token_budget=1000, guardrails=GuardrailsConfig(reserve_tokens=850))
    with caplog.at_level(logging.WARNING, logger="aar"):
        async with live(provider, config) as session:
            assert [(await session.prompt("go")).stop for _ in range(3)] == ["end_turn"] * 3
            warnings = [event for event in facts_of(session) if isinstance(event, ErrorEvent)]
            assert [(event.message, event.recoverable) for event in warnings] == [
                ("Approaching budget limit — stopping soon", True)
            ]
            assert session.metadata["guardrails"]["near_budget_warned"] is True
    assert len(caplog.records) == 1


@pytest.mark.covers("EV-19")
async def test_facts_say_how_long_the_model_and_the_tool_took(live, tools, autojump_clock) -> None:
    @tools.register("slow")
    async def slow() -> str:
        await trio.sleep(3)
        return "x"

    provider = ScriptedProvider().calls(("slow", {}), delay=2).text("done")
    async with live(provider, settings(), tools=tools) as session:
        await session.prompt("go")
        (meta, _), (result,) = (
            [event for event in facts_of(session) if isinstance(event, kind)] for kind in (ProviderMeta, ToolResult)
        )
        assert 2000 <= meta.duration_ms < 2100
        assert 3000 <= result.duration_ms < 3100


# --- identical ids ----------------------------------------------------------------------------


async def test_call_ids_that_a_model_repeats_become_unique(live, tools, problems_of) -> None:
    again = ToolCall(tool_name="echo", tool_call_id="same", arguments={"text": "1"})
    other = again.model_copy(update={"arguments": {"text": "2"}})
    provider = ScriptedProvider().calls(again, other).calls(again, text="again").text("done")
    async with live(provider, settings(), tools=tools) as session:
        await session.prompt("go")
        ids = [event.tool_call_id for event in facts_of(session) if isinstance(event, ToolCall)]
        assert ids[0] == "same"
        assert len(set(ids)) == 3
        assert [event.output for event in facts_of(session) if isinstance(event, ToolResult)] == ["1", "2", "1"]
        assert problems_of(session.snapshot().to_messages()) == []


@pytest.mark.covers("LOOP-38")
@pytest.mark.parametrize(
    ("provider", "fields", "state"),
    [
        (ScriptedProvider().text("x"), {}, AgentState.COMPLETED),
        (ScriptedProvider().call("echo"), {"max_steps": 1}, AgentState.MAX_STEPS),
        (ScriptedProvider().hang(), {"timeout": 1.0}, AgentState.TIMED_OUT),
        (ScriptedProvider().text("x").usage(9, 9), {"token_budget": 5}, AgentState.BUDGET_EXCEEDED),
        (ScriptedProvider(), {}, AgentState.ERROR),
        (ScriptedProvider().text("x").stop("refusal"), {}, AgentState.ERROR),
        (ScriptedProvider().hang(), {}, AgentState.CANCELLED),
    ],
    ids=["completed", "max_steps", "timed_out", "budget", "error", "refused", "cancelled"],
)
async def test_the_state_is_final_when_the_prompt_is_answered(
    live, tools, autojump_clock, provider, fields, state
) -> None:
    async with live(provider, settings(**fields), tools=tools) as session, trio.open_nursery() as nursery:

        async def cancel() -> None:
            await trio.sleep(60)
            await session.cancel()

        nursery.start_soon(cancel)
        ended = await session.prompt("go")
        assert session.snapshot().state is state
        assert facts_of(session)[-1] == ended
        assert isinstance(ended, TurnEnded)
        nursery.cancel_scope.cancel()


@pytest.mark.covers("LOG-06")
async def test_log_records_of_a_turn_name_their_session_and_trace(live, caplog) -> None:
    with caplog.at_level(logging.INFO, logger="aar"):
        async with live(ScriptedProvider().text("x"), settings()) as session:
            await session.prompt("go")
            trace = session.snapshot().trace_id
    (record,) = [record for record in caplog.records if record.getMessage().startswith("step=")]
    assert (record.session_id, record.trace_id) == (session.session_id, trace)
