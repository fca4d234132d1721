"""Which models the settings name, and which ones their providers offer: for lists that people choose from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trio

from aar.actors.pricing import current_price
from aar.errors import AarError, ConfigError, ProviderUnauthorized
from aar.messages.provider import ModelInfo
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.providers import open_provider
from aar.providers.base import as_provider_error, explain
from aar.usage import Price

__all__ = ["Offer", "Profile", "look_up", "profiles_of"]

ASKING_TIMEOUT = 15.0  # seconds that a provider may take to list its models


@dataclass(frozen=True)
class Offer:
    """What one provider offers. `prices` are by the names of models; `problem` is why it could not tell."""

    models: tuple[ModelInfo, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class Profile:
    """A model of the settings. `key` is its name among the `providers`, empty for one that has none."""

    key: str
    settings: ProviderConfig
    is_active: bool

    @property
    def source(self) -> str:
        """The same for all profiles of one account: they have one list of models."""
        own = self.settings
        return json.dumps([own.name, own.base_url, own.api_key, own.extra], sort_keys=True, default=str)

    def info(self, offer: Offer) -> ModelInfo:
        """The model with what its provider and the settings say of it."""
        name, window = self.settings.model, self.settings.context_window
        found = next((model for model in offer.models if model.name == name), ModelInfo(name))
        return found._replace(context_window=window) if window else found


def profiles_of(config: AgentConfig) -> list[Profile]:
    """The active model first when it is no profile, then the profiles in their order."""
    active = config.resolve_provider()
    alone = [] if active in config.providers.values() else [Profile("", active, True)]
    return alone + [Profile(key, one, one == active) for key, one in config.providers.items()]


async def look_up(profiles: list[Profile], home: Path) -> dict[str, Offer]:
    """What each source offers; all are asked at the same time, and one that fails harms no other."""
    offers: dict[str, Offer] = {}
    async with trio.open_nursery() as nursery:
        for source, settings in {profile.source: profile.settings for profile in profiles}.items():
            named = {profile.settings.model for profile in profiles if profile.source == source}
            nursery.start_soon(_ask, source, settings, named, home, offers)
    return offers


async def _ask(source: str, settings: ProviderConfig, named: set[str], home: Path, offers: dict[str, Offer]) -> None:
    models: tuple[ModelInfo, ...] = ()
    problem = ""
    try:
        with trio.fail_after(ASKING_TIMEOUT):
            models = await _offered(settings)
    except trio.TooSlowError:
        problem = f"No answer within {ASKING_TIMEOUT:g} s."
    except AarError as error:
        problem = _problem(error, settings.name)
    names = sorted(named | {model.name for model in models})
    prices = {name: await current_price(settings.name, name, home) for name in names}
    offers[source] = Offer(models, {name: price for name, price in prices.items() if price is not None}, problem)


def _problem(error: AarError, provider: str) -> str:
    """Why a provider could not tell: for a refused key with the place where it is set."""
    if isinstance(error, ConfigError):
        return str(error)
    failed = as_provider_error(error, provider)
    what = explain(failed)
    if isinstance(failed, ProviderUnauthorized) and not failed.advice:
        what = f"{what} {failed}"
    return what


async def _offered(settings: ProviderConfig) -> tuple[ModelInfo, ...]:
    provider = open_provider(settings)
    try:
        return await provider.models()
    finally:
        with trio.CancelScope(shield=True):  # bounded by the adapter itself
            await provider.aclose()
