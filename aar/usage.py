"""Tokens and money: prices, the cost of a call, budgets, and the numbers of a whole session."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeGuard

from aar.messages.events import ErrorEvent, Event, ProviderMeta, ToolCall, ToolResult
from aar.messages.provider import Usage
from aar.messages.settings import AgentConfig

__all__ = [
    "MeasuredSession",
    "Price",
    "SessionMetrics",
    "StepMetrics",
    "ToolMetrics",
    "budget_error",
    "context_tokens",
    "cost",
    "format_cost",
    "format_tokens",
    "is_published",
    "is_over_warning_threshold",
    "near_budget",
    "price_of",
    "price_table",
    "published_cost",
    "published_price",
    "reload_pricing_table",
    "session_metrics",
]

_log = logging.getLogger(__name__)

# Providers whose input tokens include those that were read from a cache or written to it.
_CACHE_WITHIN_INPUT = frozenset({"gemini", "generic", "local", "openai"})

# Our names of providers, and those of genai-prices.
_PUBLISHERS = {"anthropic": "anthropic", "gemini": "google", "openai": "openai"}


# --- prices -----------------------------------------------------------------------------------


class Price(NamedTuple):
    """USD per million tokens."""

    input_per_million: float = 0.0
    output_per_million: float = 0.0
    cache_read_per_million: float = 0.0
    cache_write_per_million: float = 0.0


def price_table(home: Path | None = None, *, only_own: bool = False) -> Mapping[str, Price]:
    """Prices by prefix of the model's name: the ones that Aar knows under those of `pricing.json` in `home`.

    `only_own` leaves out what Aar knows. `home` defaults to `$AAR_HOME` or `~/.aar`. Read once, then kept until
    `reload_pricing_table()`. Comments, malformed entries and unreadable files are passed over.
    """
    if home is None:
        chosen = os.environ.get("AAR_HOME", "").strip()
        home = Path(chosen).expanduser() if chosen else Path.home() / ".aar"
    return _own_table(home) if only_own else _table(home)


def reload_pricing_table() -> None:
    """Forget what was read: the next use reads the files again."""
    _table.cache_clear()
    _own_table.cache_clear()


@cache
def _table(home: Path) -> Mapping[str, Price]:
    from importlib.resources import files

    built_in = _prices(files("aar").joinpath("data", "pricing.json").read_bytes())
    return MappingProxyType({**built_in, **_own_table(home)})


@cache
def _own_table(home: Path) -> Mapping[str, Price]:
    file = home / "pricing.json"
    try:
        return MappingProxyType(_prices(file.read_bytes(), str(file)))
    except FileNotFoundError:
        return MappingProxyType({})
    except OSError as error:
        _log.warning("%s is passed over: %s", file, error.strerror)
        return MappingProxyType({})


def _prices(content: bytes, source: str = "pricing.json") -> dict[str, Price]:
    import json

    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        _log.warning("%s is passed over: %s", source, error)
        return {}
    if not isinstance(found, dict):
        _log.warning("%s is passed over: it must hold a JSON object {...}", source)
        return {}
    prices = {name: _price(entry) for name, entry in found.items() if not name.startswith("_")}
    if wrong := [name for name, price in prices.items() if price is None]:
        _log.warning("%s: no price in %s. A price has %s.", source, ", ".join(wrong), ", ".join(Price._fields))
    return {name: price for name, price in prices.items() if price is not None}


def _price(entry: Any) -> Price | None:
    if not isinstance(entry, dict):
        return None
    known = {name: entry[name] for name in Price._fields if name in entry}
    if not known or not all(_is_amount(value) for value in known.values()):
        return None
    return Price(**{name: float(value) for name, value in known.items()})


def _is_amount(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def price_of(model: str, prices: Mapping[str, Price] | None = None) -> Price | None:
    """The price under the longest key that starts the model's name, if any."""
    table = price_table() if prices is None else prices
    for length in range(len(model), 0, -1):
        if found := table.get(model[:length]):
            return found
    return None


def cost(
    usage: Usage | Mapping[str, int],
    model: str,
    prices: Mapping[str, Price] | None = None,
    *,
    provider: str = "",
) -> float:
    """What one call cost, in USD; 0 for a model without a price.

    `provider` says who counted: some count tokens of the cache among the input, and those are paid for once.
    """
    price = price_of(model, prices)
    if price is None:
        return 0.0
    tokens = usage if isinstance(usage, Usage) else Usage.of(dict(usage))
    plain_input = tokens.input_tokens
    if provider in _CACHE_WITHIN_INPUT:
        # Where the cache has no price of its own, its tokens cost what any others do.
        plain_input -= tokens.cache_read_tokens if price.cache_read_per_million else 0
        plain_input -= tokens.cache_write_tokens if price.cache_write_per_million else 0
    return (
        max(plain_input, 0) * price.input_per_million
        + tokens.output_tokens * price.output_per_million
        + tokens.cache_read_tokens * price.cache_read_per_million
        + tokens.cache_write_tokens * price.cache_write_per_million
    ) / 1_000_000


def context_tokens(provider: str, usage: Mapping[str, int]) -> int:
    """How much of its context window a model has in use after a call: all that it read, cached or not, and its answer.

    `provider` says who counted, as for `cost`.
    """
    tokens = Usage.of(dict(usage))
    cached = 0 if provider in _CACHE_WITHIN_INPUT else tokens.cache_read_tokens + tokens.cache_write_tokens
    return tokens.input_tokens + cached + tokens.output_tokens


# --- prices that others keep ------------------------------------------------------------------


def is_published(provider: str) -> bool:
    """Whether the prices of this provider are looked up in the data of genai-prices, when that is installed."""
    return provider in _PUBLISHERS


@cache
def published_price(provider: str, model: str) -> Price | None:
    """The price of a vendor's model at the time of the data, for short prompts; `None` for one it does not know.

    The first call loads the package, which takes about 0.3 s: make it in a thread.
    """
    try:
        from genai_prices import Usage as Counted
        from genai_prices import calc_price

        found = calc_price(Counted(), model_ref=model, provider_id=_PUBLISHERS[provider]).model_price
    except (ImportError, LookupError):
        return None

    def amount(value: Any) -> float:
        return float(getattr(value, "base", value) or 0)

    return Price(
        amount(found.input_mtok),
        amount(found.output_mtok),
        amount(found.cache_read_mtok),
        amount(found.cache_write_mtok),
    )


def published_cost(provider: str, model: str, usage: Usage) -> float:
    """What a call to a model with a `published_price` cost, in USD: long prompts may cost more per token."""
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    cached = usage.cache_read_tokens + usage.cache_write_tokens
    within = provider in _CACHE_WITHIN_INPUT
    counted = Counted(
        input_tokens=max(usage.input_tokens, cached) if within else usage.input_tokens + cached,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    return float(calc_price(counted, model_ref=model, provider_id=_PUBLISHERS[provider]).total_price)


# --- for people -------------------------------------------------------------------------------


def format_tokens(input_tokens: int, output_tokens: int) -> str:
    return f"{input_tokens}in / {output_tokens}out"


def format_cost(amount: float) -> str:
    """Four decimals below one cent, else two."""
    return f"${amount:.4f}" if amount < 0.01 else f"${amount:.2f}"


# --- budgets ----------------------------------------------------------------------------------


def budget_error(total_tokens: int, total_cost: float, config: AgentConfig) -> str | None:
    """What to say when the session has spent its tokens or its money. Limits count for the session's whole life."""
    tokens, money = config.effective_token_budget, config.effective_cost_limit
    if 0 < tokens <= total_tokens:
        return f"Token budget exceeded ({total_tokens}/{tokens})"
    if 0 < money <= total_cost:
        return f"Cost limit exceeded (${total_cost:.4f}/${money:.4f})"
    return None


def near_budget(total_tokens: int, total_cost: float, config: AgentConfig) -> bool:
    """Whether what is left is no more than the reserve of the guardrails."""
    tokens, money, rules = config.effective_token_budget, config.effective_cost_limit, config.guardrails
    if tokens > 0 and tokens - total_tokens <= rules.reserve_tokens:
        return True
    return money > 0 and money - total_cost <= money * rules.reserve_cost_fraction


def is_over_warning_threshold(total_tokens: int, total_cost: float, config: AgentConfig) -> bool:
    """Whether the display of tokens turns to its warning style. A limit of 0 never warns."""
    tokens, money = config.effective_token_budget, config.effective_cost_limit
    if tokens > 0 and total_tokens >= tokens * config.token_warning_threshold:
        return True
    return money > 0 and total_cost >= money * config.cost_warning_threshold


# --- a whole session --------------------------------------------------------------------------


class MeasuredSession(Protocol):
    @property
    def session_id(self) -> str: ...
    @property
    def trace_id(self) -> str: ...
    @property
    def step_count(self) -> int: ...
    @property
    def events(self) -> Iterable[Event]: ...


@dataclass(slots=True)
class ToolMetrics:
    tool_name: str
    duration_ms: float
    is_error: bool


@dataclass(slots=True)
class StepMetrics:
    """One answered model call (counted from 1) and the tools that ran before the next one. Cost in USD."""

    step: int
    provider_duration_ms: float
    input_tokens: int
    output_tokens: int
    cost: float
    tool_calls: list[ToolMetrics] = field(default_factory=list)
    total_tool_duration_ms: float = 0.0


@dataclass(slots=True)
class SessionMetrics:
    """Errors are failed tool results and error events; cost is by the model that answered, in USD."""

    session_id: str
    trace_id: str
    total_steps: int
    total_tool_calls: int = 0
    total_errors: int = 0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    total_tokens: int = 0
    total_cost: float = 0.0
    total_provider_duration_ms: float = 0.0
    total_tool_duration_ms: float = 0.0
    steps: list[StepMetrics] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def session_metrics(session: MeasuredSession, prices: Mapping[str, Price] | None = None) -> SessionMetrics:
    """The numbers of a session, from one pass over its events."""
    metrics = SessionMetrics(session.session_id, session.trace_id, session.step_count)
    for event in session.events:
        match event:
            case ProviderMeta():
                _count_step(metrics, event, prices)
            case ToolResult():
                _count_result(metrics, event)
            case ToolCall():
                metrics.total_tool_calls += 1
            case ErrorEvent():
                metrics.total_errors += 1
    return metrics


def _count_step(metrics: SessionMetrics, meta: ProviderMeta, prices: Mapping[str, Price] | None) -> None:
    usage = Usage.of(meta.usage)
    told = meta.data.get("cost")  # as it was worked out when the answer came
    spent = float(told) if _is_amount(told) else cost(usage, meta.model, prices, provider=meta.provider)
    number = len(metrics.steps) + 1
    metrics.steps.append(StepMetrics(number, meta.duration_ms, usage.input_tokens, usage.output_tokens, spent))
    metrics.total_input_tokens += usage.input_tokens
    metrics.total_output_tokens += usage.output_tokens
    metrics.total_tokens += usage.total
    metrics.total_cost += spent
    metrics.total_provider_duration_ms += meta.duration_ms


def _count_result(metrics: SessionMetrics, result: ToolResult) -> None:
    metrics.total_errors += result.is_error
    metrics.total_tool_duration_ms += result.duration_ms
    if metrics.steps:
        step = metrics.steps[-1]
        step.tool_calls.append(ToolMetrics(result.tool_name, result.duration_ms, result.is_error))
        step.total_tool_duration_ms += result.duration_ms
