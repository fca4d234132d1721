"""What a call costs: by the user's own prices, by those that vendors publish, by the ones that Aar knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aar.messages.events import ProviderMeta
from aar.messages.provider import Usage
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.testing import ScriptedProvider, facts_of, open_test_runtime
from aar.usage import cost, published_cost, published_price

COUNTED = Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=500)


class Vendor(ScriptedProvider):
    """Answers in the name of a vendor."""

    def __init__(self, name: str, model: str) -> None:
        super().__init__(ProviderConfig(name=name, model=model))
        self.name = name


async def recorded_cost(home: Path, provider: ScriptedProvider) -> float:
    provider.text("hello").usage(1000, 100, cache_read_tokens=500)
    config = AgentConfig(tools={"enabled_builtins": []})  # type: ignore[arg-type]
    async with open_test_runtime(provider, config, home=home) as runtime:
        session = await runtime.sessions.open(str(home))
        await session.prompt("go")
        (meta,) = [fact for fact in facts_of(session) if isinstance(fact, ProviderMeta)]
        assert session.snapshot().total_cost == meta.data["cost"]
        spent: float = meta.data["cost"]
        return spent


@pytest.mark.parametrize(
    ("provider", "model"), [("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-4o"), ("gemini", "gemini-2.5-flash")]
)
async def test_a_vendors_model_costs_what_the_vendor_publishes(tmp_path: Path, provider: str, model: str) -> None:
    price = published_price(provider, model)
    assert price is not None
    plain = 1000 if provider == "anthropic" else 500  # the others count tokens of the cache among the input
    expected = plain * price.input_per_million + 500 * price.cache_read_per_million + 100 * price.output_per_million
    assert published_cost(provider, model, COUNTED) == pytest.approx(expected / 1e6)
    assert await recorded_cost(tmp_path, Vendor(provider, model)) == pytest.approx(expected / 1e6)


async def test_the_users_own_price_comes_before_the_published_one(tmp_path: Path) -> None:
    (tmp_path / "pricing.json").write_text(json.dumps({"gpt-4o": {"input_per_million": 1000, "output_per_million": 0}}))
    assert await recorded_cost(tmp_path, Vendor("openai", "gpt-4o")) == pytest.approx(1.0)


async def test_a_model_that_nobody_publishes_a_price_of_costs_what_the_own_table_says_or_nothing(
    tmp_path: Path,
) -> None:
    assert published_price("openai", "gemma3:4b") is None
    assert await recorded_cost(tmp_path, Vendor("openai", "gemma3:4b")) == cost(COUNTED, "gemma3:4b", provider="openai")
    assert await recorded_cost(tmp_path, Vendor("openai", "our-own-model")) == 0.0


async def test_models_of_other_servers_are_never_looked_up(tmp_path: Path) -> None:
    assert await recorded_cost(tmp_path, Vendor("generic", "gpt-4o")) == 0.0


def test_a_long_prompt_may_cost_more_for_each_token() -> None:
    short, long = (published_cost("gemini", "gemini-2.5-pro", Usage(input_tokens=n)) for n in (1000, 400_000))
    assert long > short * 400
