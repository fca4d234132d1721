"""What a model costs, and what a call to it has cost.

The user's own prices count first, then those that vendors publish, then the few that Aar knows itself.
"""

from __future__ import annotations

from pathlib import Path

import trio

from aar.actors.workbench import Workbench
from aar.messages.events import ProviderMeta
from aar.messages.provider import ProviderResponse, Usage
from aar.providers.base import Provider
from aar.usage import Price, cost, is_published, price_of, price_table, published_cost, published_price

__all__ = ["current_price", "limiting_price", "meta_of"]

LOADING_TIMEOUT = 5.0  # seconds that the data of published prices may take; without them Aar's own count


async def meta_of(
    bench: Workbench, provider: Provider, response: ProviderResponse, milliseconds: float
) -> ProviderMeta:
    """What is recorded of an answer: the provider's own words, the time it took, and what it cost."""
    meta = response.meta or ProviderMeta(provider=provider.name, model=provider.config.model)
    price = await _cost(bench, meta.provider, meta.model or provider.config.model, Usage.of(meta.usage))
    return meta.model_copy(update={"duration_ms": milliseconds, "data": {**meta.data, "cost": price}})


async def limiting_price(bench: Workbench, provider: Provider) -> Price | None:
    """The price that a cost limit is worked out with, if there is a limit and a price."""
    if bench.config.effective_cost_limit <= 0:
        return None
    return await current_price(provider.name, provider.config.model, bench.home)


async def current_price(provider: str, model: str, home: Path) -> Price | None:
    """The price of a model, if any is known."""
    return await _published(provider, model, home) or price_of(model, price_table(home))


async def _cost(bench: Workbench, provider: str, model: str, usage: Usage) -> float:
    if not any(usage):
        return 0.0
    if await _published(provider, model, bench.home) is not None:
        return published_cost(provider, model, usage)
    return cost(usage, model, price_table(bench.home), provider=provider)


async def _published(provider: str, model: str, home: Path) -> Price | None:
    """The price that the vendor publishes, unless the user has one of their own."""
    if not is_published(provider) or price_of(model, price_table(home, only_own=True)) is not None:
        return None
    # An answer that has come is recorded, also when its turn is cancelled at this moment.
    with trio.move_on_after(LOADING_TIMEOUT, shield=True):
        return await trio.to_thread.run_sync(published_price, provider, model, abandon_on_cancel=True)
    return None
