"""Prices, budgets and the numbers of a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.events import AssistantMessage, ErrorEvent, Event, ProviderMeta, ToolCall, ToolResult, UserMessage
from aar.messages.provider import Usage
from aar.messages.settings import AgentConfig
from aar.usage import (
    Price,
    budget_error,
    context_tokens,
    cost,
    format_cost,
    format_tokens,
    is_over_warning_threshold,
    near_budget,
    price_of,
    price_table,
    reload_pricing_table,
    session_metrics,
)

BUILT_IN = {
    "claude-opus-4-6": (5.0, 25.0, 0.5, 6.25),
    "claude-opus-4-5": (5.0, 25.0, 0.5, 6.25),
    "claude-opus-4": (15.0, 75.0, 1.5, 18.75),
    "claude-sonnet-4": (3.0, 15.0, 0.3, 3.75),
    "claude-haiku-4-5": (1.0, 5.0, 0.1, 1.25),
    "claude-haiku-3-5": (0.8, 4.0, 0.08, 1.0),
    "gpt-5.4-mini": (0.75, 4.5, 0.075, 0.0),
    "gpt-5.4-nano": (0.2, 1.25, 0.02, 0.0),
    "gpt-5.4-pro": (30.0, 180.0, 0.0, 0.0),
    "gpt-5.4": (2.5, 15.0, 0.25, 0.0),
    "gemma4": (0.05, 0.1, 0.0, 0.0),
    "gemma3": (0.05, 0.1, 0.0, 0.0),
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    reload_pricing_table()
    yield tmp_path
    reload_pricing_table()


def config(**fields: Any) -> AgentConfig:
    return AgentConfig.model_validate(fields)


def test_the_built_in_prices_are_the_published_ones(home: Path) -> None:
    assert dict(price_table(home)) == {name: Price(*price) for name, price in BUILT_IN.items()}


@pytest.mark.covers("TOK-02")
def test_a_call_costs_its_tokens_of_each_kind(home: Path) -> None:
    prices = price_table(home)
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=200_000, cache_write_tokens=40_000)
    assert cost(usage, "claude-sonnet-4-6", prices) == pytest.approx(3.0 + 1.5 + 0.06 + 0.15)
    assert cost({"input_tokens": 150, "output_tokens": 80}, "claude-opus-4-6", prices) == pytest.approx(0.00275)


@pytest.mark.covers("TOK-02")
@pytest.mark.parametrize(
    ("provider", "model", "dollars"),
    [
        ("anthropic", "priced", 10.0 + 0.8 + 0.5),
        ("openai", "priced", 1.0 + 0.8 + 0.5),
        ("gemini", "priced", 1.0 + 0.8 + 0.5),
        ("generic", "priced", 1.0 + 0.8 + 0.5),
        ("openai", "unpriced-cache", 10.0),
        ("", "priced", 10.0 + 0.8 + 0.5),
    ],
)
def test_tokens_of_the_cache_are_paid_for_once_whoever_counted_them(provider: str, model: str, dollars: float) -> None:
    prices = {"priced": Price(1.0, 0.0, 0.1, 0.5), "unpriced-cache": Price(1.0)}
    usage = Usage(input_tokens=10_000_000, cache_read_tokens=8_000_000, cache_write_tokens=1_000_000)
    assert cost(usage, model, prices, provider=provider) == pytest.approx(dollars)
    meta = ProviderMeta(provider=provider, model=model, usage=usage.to_dict())
    metrics = session_metrics(SessionOf([meta]), prices)
    assert (metrics.total_cost, metrics.total_input_tokens) == (pytest.approx(dollars), 10_000_000)


def test_more_tokens_of_the_cache_than_input_cost_no_less_than_nothing() -> None:
    prices = {"m": Price(1.0, 0.0, 0.1)}
    assert cost(Usage(input_tokens=1, cache_read_tokens=10**6), "m", prices, provider="openai") == pytest.approx(0.1)


@pytest.mark.covers("TOK-03")
def test_the_longest_prefix_gives_the_price(home: Path) -> None:
    prices = price_table(home)
    models = ["claude-opus-4-6-20260101", "claude-opus-4-1", "gpt-5.4-mini-x", "gpt-5.4", "gpt-5.4.1"]
    found = [price_of(model, prices) for model in models]
    assert found == [
        prices[name] for name in ("claude-opus-4-6", "claude-opus-4", "gpt-5.4-mini", "gpt-5.4", "gpt-5.4")
    ]


@pytest.mark.covers("TOK-07")
@pytest.mark.parametrize("model", ["", "unknown", "gpt-5", "my-claude-opus-4"])
def test_a_model_without_a_price_costs_nothing(home: Path, model: str) -> None:
    assert price_of(model, price_table(home)) is None
    assert cost(Usage(input_tokens=10**6), model, price_table(home)) == 0.0


@pytest.mark.covers("TOK-04")
def test_the_users_prices_lie_over_the_built_in_ones(home: Path) -> None:
    own = {"mine": {"input_per_million": 1}, "gpt-5.4": {"input_per_million": 9.0, "output_per_million": 8.0}}
    (home / "pricing.json").write_text(json.dumps(own))
    prices = price_table(home)
    assert (prices["mine"], prices["gpt-5.4"]) == (Price(1.0), Price(9.0, 8.0))
    assert prices["claude-opus-4"] == Price(*BUILT_IN["claude-opus-4"])


@pytest.mark.covers("TOK-05")
def test_comments_and_bad_entries_are_passed_over(home: Path) -> None:
    own = {
        "_usage": "read me",
        "_old": {"input_per_million": 1},
        "text": "x",
        "words": {"input_per_million": "cheap"},
        "less": {"input_per_million": -1},
        "truth": {"input_per_million": True},
        "typo": {"in": 1},
        "good": {"input_per_million": 2, "note": "kept"},
        "gemma3": None,
    }
    (home / "pricing.json").write_text(json.dumps(own).replace("-1", "NaN", 1))
    prices = price_table(home)
    assert set(prices) == {*BUILT_IN, "good"}
    assert prices["gemma3"] == Price(*BUILT_IN["gemma3"])


@pytest.mark.covers("TOK-05")
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_an_unreadable_price_file_counts_as_empty(home: Path, content: bytes) -> None:
    (home / "pricing.json").write_bytes(content)
    assert set(price_table(home)) == set(BUILT_IN)


def test_prices_are_read_once_until_they_are_reloaded(home: Path) -> None:
    assert "mine" not in price_table(home)
    (home / "pricing.json").write_text('{"mine": {"input_per_million": 1}}')
    assert "mine" not in price_table(home)
    reload_pricing_table()
    assert "mine" in price_table(home)


def test_the_default_table_is_the_one_of_the_users_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "pricing.json").write_text('{"mine": {"input_per_million": 1}}')
    monkeypatch.setenv("AAR_HOME", str(home))
    assert price_of("mine-2") == Price(1.0)
    assert cost(Usage(input_tokens=1_000_000), "mine-2") == 1.0


@pytest.mark.covers("TOK-06")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 3}, Usage(5, 3)),
        ({"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}, Usage(5, 3)),
        ({"cache_read_input_tokens": 2, "cache_creation_input_tokens": 4}, Usage(0, 0, 2, 4)),
        ({"input_tokens": 1, "prompt_tokens": 9}, Usage(1)),
        ({}, Usage()),
        ({"input_tokens": -3, "output_tokens": True}, Usage()),
    ],
)
def test_usage_knows_the_names_that_vendors_use(usage: dict[str, int], expected: Usage) -> None:
    assert Usage.of(usage) == expected
    assert Usage.of(expected.to_dict()) == expected
    assert expected.to_dict() == expected._asdict()
    assert expected.total == expected.input_tokens + expected.output_tokens


@pytest.mark.covers("TOK-10")
def test_tokens_and_costs_are_written_short() -> None:
    assert format_tokens(150, 80) == "150in / 80out"
    assert [format_cost(amount) for amount in (0.0032, 1.23, 0.0, 0.01, 0.00999, 12.345)] == [
        "$0.0032",
        "$1.23",
        "$0.0000",
        "$0.01",
        "$0.0100",
        "$12.35",
    ]


# --- budgets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "money", "expected"),
    [
        (99, 0.49, None),
        (100, 0.0, "Token budget exceeded (100/100)"),
        (150, 9.0, "Token budget exceeded (150/100)"),
        (0, 0.5, "Cost limit exceeded ($0.5000/$0.5000)"),
        (0, 0.61234, "Cost limit exceeded ($0.6123/$0.5000)"),
    ],
)
def test_a_spent_budget_is_told_tokens_first(tokens: int, money: float, expected: str | None) -> None:
    assert budget_error(tokens, money, config(token_budget=100, cost_limit=0.5)) == expected


def test_without_limits_nothing_is_ever_spent() -> None:
    assert budget_error(10**12, 1e9, AgentConfig()) is None
    assert not near_budget(10**12, 1e9, AgentConfig())
    assert not is_over_warning_threshold(10**12, 1e9, AgentConfig())


def test_a_profile_sets_or_lifts_the_limits() -> None:
    tight = config(provider={"token_budget": 10}, token_budget=1000)
    lifted = config(provider={"token_budget": 0, "cost_limit": 0}, token_budget=10, cost_limit=0.1)
    assert budget_error(10, 0, tight) == "Token budget exceeded (10/10)"
    assert budget_error(10**6, 99, lifted) is None


@pytest.mark.parametrize(
    ("tokens", "money", "expected"),
    [(487, 0.0, False), (488, 0.0, True), (1200, 0.0, True), (0, 0.89, False), (0, 0.9, True), (0, 0.95, True)],
)
def test_the_budget_is_near_when_only_the_reserve_is_left(tokens: int, money: float, expected: bool) -> None:
    assert near_budget(tokens, money, config(token_budget=1000, cost_limit=1.0)) is expected


@pytest.mark.covers("TOK-11")
def test_the_warning_starts_at_the_threshold() -> None:
    told = config(token_budget=100, cost_limit=1.0)
    found = [is_over_warning_threshold(*spent, told) for spent in ((79, 0.0), (80, 0.0), (0, 0.79), (0, 0.8))]
    assert found == [False, True, False, True]
    assert not is_over_warning_threshold(10**9, 10**9, config(token_warning_threshold=0.0, cost_warning_threshold=0.0))


@pytest.mark.covers("TOK-12")
def test_the_warning_looks_at_the_limits_of_the_profile() -> None:
    assert is_over_warning_threshold(80, 0, config(provider={"token_budget": 100}, token_budget=10_000))
    assert not is_over_warning_threshold(80, 0, config(provider={"token_budget": 0}, token_budget=100))


@given(st.integers(0, 10**9), st.floats(0, 1e6), st.integers(0, 10**6), st.floats(0, 1e3))
def test_a_spent_budget_is_always_near_too(tokens: int, money: float, budget: int, limit: float) -> None:
    told = config(token_budget=budget, cost_limit=limit)
    assert budget_error(tokens, money, told) is None or near_budget(tokens, money, told)


# --- a session --------------------------------------------------------------------------------


@dataclass
class SessionOf:
    events: list[Event]
    session_id: str = "s1"
    trace_id: str = "t1"
    step_count: int = 2
    extra: dict[str, Any] = field(default_factory=dict)


def meta(model: str, tokens_in: int, tokens_out: int, milliseconds: float) -> ProviderMeta:
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    return ProviderMeta(provider="p", model=model, usage=usage, duration_ms=milliseconds)


def result(name: str, milliseconds: float, *, is_error: bool = False) -> ToolResult:
    return ToolResult(tool_name=name, duration_ms=milliseconds, is_error=is_error)


FIXTURE: list[Event] = [
    UserMessage(content="hi"),
    result("early", 5.0),
    meta("gpt-5.4", 1000, 100, 250.0),
    ToolCall(tool_name="bash"),
    ToolCall(tool_name="grep"),
    AssistantMessage(content=""),
    result("bash", 30.0, is_error=True),
    result("grep", 12.5),
    ErrorEvent(message="near"),
    meta("claude-opus-4-6", 2000, 50, 100.0),
    AssistantMessage(content="done"),
]


@pytest.mark.covers("TOK-01", "TOK-13", "TOK-14")
def test_metrics_sum_up_steps_and_give_each_tool_call_to_its_step(home: Path) -> None:
    metrics = session_metrics(SessionOf(FIXTURE), price_table(home))
    assert metrics.to_dict() == {
        "session_id": "s1",
        "trace_id": "t1",
        "total_steps": 2,
        "total_tool_calls": 2,
        "total_errors": 2,
        "total_input_tokens": 3000,
        "total_output_tokens": 150,
        "total_tokens": 3150,
        "total_cost": pytest.approx(0.004 + 0.01125),
        "total_provider_duration_ms": 350.0,
        "total_tool_duration_ms": 47.5,
        "steps": [
            {
                "step": 1,
                "provider_duration_ms": 250.0,
                "input_tokens": 1000,
                "output_tokens": 100,
                "cost": pytest.approx(0.004),
                "tool_calls": [
                    {"tool_name": "bash", "duration_ms": 30.0, "is_error": True},
                    {"tool_name": "grep", "duration_ms": 12.5, "is_error": False},
                ],
                "total_tool_duration_ms": 42.5,
            },
            {
                "step": 2,
                "provider_duration_ms": 100.0,
                "input_tokens": 2000,
                "output_tokens": 50,
                "cost": pytest.approx(0.01125),
                "tool_calls": [],
                "total_tool_duration_ms": 0.0,
            },
        ],
    }


@pytest.mark.covers("TOK-09")
def test_each_answer_costs_what_the_model_that_gave_it_costs(home: Path) -> None:
    steps = session_metrics(SessionOf(FIXTURE), price_table(home)).steps
    assert [step.cost for step in steps] == [pytest.approx(0.004), pytest.approx(0.01125)]


def test_an_empty_session_has_zeros() -> None:
    metrics = session_metrics(SessionOf([], step_count=0))
    assert (metrics.total_tokens, metrics.total_cost, metrics.steps) == (0, 0.0, [])


@pytest.mark.parametrize(("provider", "tokens"), [("anthropic", 1330), ("openai", 1030), ("", 1330)])
def test_tokens_of_a_cache_are_in_the_window_once(provider: str, tokens: int) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 30, "cache_read_tokens": 200, "cache_write_tokens": 100}
    assert context_tokens(provider, usage) == tokens
