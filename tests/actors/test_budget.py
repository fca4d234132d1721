"""Reserving before a call what it may take."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.actors.budget import LEAST_OUTPUT, Budget, BudgetTaken
from aar.journal.state import Session
from aar.messages.events import ErrorEvent, ProviderMeta
from aar.messages.provider import History, ProviderRequest
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.messages.tools import ToolSchema
from aar.testing import ScriptedProvider, facts_of, open_test_runtime
from aar.usage import Price

PRICE = Price(input_per_million=1.0, output_per_million=2.0)


class Spent:
    """The journal of a session that has spent this much."""

    def __init__(self, tokens: int = 0, dollars: float = 0.0) -> None:
        self.session = Session()
        self.session.total_input_tokens = tokens
        self.session.total_cost = dollars


def settings(max_tokens: int = 1000, **limits: Any) -> AgentConfig:
    return AgentConfig(
        provider=ProviderConfig(name="scripted", model="m", max_tokens=max_tokens),
        tools={"enabled_builtins": []},  # type: ignore[arg-type]
        **limits,
    )


def request(system: str = "", max_tokens: int | None = None) -> ProviderRequest:
    return ProviderRequest(History(), system=system, max_tokens=max_tokens)


def allowed(budget: Budget, config: AgentConfig, asked: ProviderRequest | None = None) -> int | None:
    with budget.reserve(config, asked or request(), PRICE) as limited:
        return limited.max_tokens


def test_without_a_limit_the_request_is_left_alone() -> None:
    asked = request()
    with Budget(Spent(10_000_000)).reserve(settings(), asked, PRICE) as limited:  # type: ignore[arg-type]
        assert limited is asked


def test_an_answer_may_be_as_long_as_what_is_left_of_the_tokens() -> None:
    config = settings(token_budget=2000)
    assert allowed(Budget(Spent(500)), config) is None  # type: ignore[arg-type]
    assert allowed(Budget(Spent(1400)), config) == 600  # type: ignore[arg-type]
    assert allowed(Budget(Spent(1400)), config, request("x" * 400)) == 500  # type: ignore[arg-type]
    assert allowed(Budget(Spent(1400)), config, request(max_tokens=50)) == 50  # type: ignore[arg-type]
    assert allowed(Budget(Spent(1999)), config) == LEAST_OUTPUT  # type: ignore[arg-type]


def test_an_answer_may_cost_as_much_as_is_left_of_the_money() -> None:
    config = settings(cost_limit=0.01)
    assert allowed(Budget(Spent(dollars=0.0)), config) is None  # type: ignore[arg-type]
    assert allowed(Budget(Spent(dollars=0.009)), config) == 500  # type: ignore[arg-type]


def test_an_answer_without_a_limit_of_its_own_gets_the_one_of_the_budget() -> None:
    assert allowed(Budget(Spent()), settings(max_tokens=0, token_budget=300)) == 300  # type: ignore[arg-type]


def test_what_a_model_may_think_beyond_its_answer_is_reserved_and_limited_too() -> None:
    budget, config = Budget(Spent()), settings(token_budget=20_000)  # type: ignore[arg-type]
    with budget.reserve(config, request(), PRICE, 14_000) as first, budget.reserve(config, request(), PRICE) as second:
        assert (first.max_tokens, second.max_tokens) == (None, None)
        with budget.reserve(config, request(), PRICE, 14_000) as third:
            assert third.max_tokens == 5000


def test_the_tools_are_part_of_what_a_call_reserves() -> None:
    tools = (ToolSchema("t", "x" * 400, {}),)
    asked = ProviderRequest(History(), tools=tools)
    assert allowed(Budget(Spent(1400)), settings(token_budget=2000), asked) == 500  # type: ignore[arg-type]


def test_a_limit_of_money_means_nothing_for_a_model_without_a_price() -> None:
    with Budget(Spent()).reserve(settings(cost_limit=0.01), request(), None) as limited:  # type: ignore[arg-type]
        assert limited.max_tokens is None


def test_a_second_call_gets_what_the_first_has_left_and_a_third_nothing() -> None:
    budget, config = Budget(Spent()), settings(token_budget=1500)  # type: ignore[arg-type]
    with budget.reserve(config, request(), PRICE) as first, budget.reserve(config, request(), PRICE) as second:
        assert (first.max_tokens, second.max_tokens) == (None, 500)
        with pytest.raises(BudgetTaken, match="reserved by calls that are running"):
            allowed(budget, config)
    assert allowed(budget, config) is None


@given(limit=st.integers(100, 5000), asked=st.lists(st.integers(LEAST_OUTPUT, 3000), max_size=8))
def test_however_many_calls_run_at_once_they_stay_within_the_limit(limit: int, asked: list[int]) -> None:
    budget = Budget(Spent())  # type: ignore[arg-type]
    granted = 0
    with ExitStack() as stack:
        for most in asked:
            config = settings(max_tokens=most, token_budget=limit)
            try:
                limited = stack.enter_context(budget.reserve(config, request(), None))
            except BudgetTaken:
                break
            granted += limited.max_tokens or most
    assert granted < limit + LEAST_OUTPUT


async def test_the_model_is_told_how_long_its_answer_may_be_and_the_session_ends_at_its_budget(tmp_path: Path) -> None:
    provider = ScriptedProvider().text("one").usage(500, 100).text("two").usage(300, 200).text("three").usage(1, 1)
    async with open_test_runtime(provider, settings(token_budget=1000), home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        stops = [(await session.prompt("go")).stop for _ in range(2)]
        assert stops == ["end_turn", "budget_exceeded"]
        limits = [one.max_tokens for one in provider.requests]
        assert limits[0] is not None
        assert limits[0] < 1000
        assert limits[1] is not None
        assert 16 <= limits[1] <= 400
        facts = facts_of(session)
        assert [fact.usage["input_tokens"] for fact in facts if isinstance(fact, ProviderMeta)] == [500, 300]
        messages = [fact.message for fact in facts if isinstance(fact, ErrorEvent) and not fact.recoverable]
        assert messages == ["Token budget exceeded (1100/1000)"]
