"""`aar models`: the models that the settings name, and those that their providers offer."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import trio

from aar.actors.pricing import current_price
from aar.config import aar_home
from aar.display import plain
from aar.errors import AarError
from aar.messages.provider import ModelInfo
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.providers import open_provider
from aar.providers.base import as_provider_error, explain
from aar.transports.cli.exits import DONE, FAILED, run_to_code
from aar.transports.cli.finding import with_model
from aar.transports.cli.flags import SettingFlags
from aar.transports.cli.opening import loaded_settings
from aar.transports.cli.screen import Screen
from aar.usage import Price

__all__ = ["models"]

ASKING_TIMEOUT = 15.0  # seconds that a provider may take to list its models
SHOWN = 40  # models of one provider that people are shown


class _Offer(NamedTuple):
    """What one provider said. `problem` is why it did not."""

    models: tuple[ModelInfo, ...]
    prices: dict[str, Price]
    problem: str = ""


def models(*, output: str, flags: SettingFlags) -> int:
    """List the models of the settings, and what each of their providers offers."""

    async def work() -> int:
        screen = Screen()
        config = await with_model(loaded_settings(flags), screen)
        profiles = _profiles(config)
        sources = {_source(profile): profile for profile in profiles.values()}
        offers: dict[str, _Offer] = {}
        async with trio.open_nursery() as nursery:
            for source, profile in sources.items():
                nursery.start_soon(_ask, source, profile, offers)
        if output == "json":
            await screen.say(json.dumps(_as_json(config, profiles, offers), ensure_ascii=False, indent=2) + "\n")
        else:
            await screen.say(_as_text(config, profiles, offers))
        return FAILED if all(offer.problem for offer in offers.values()) else DONE

    return run_to_code(work)


def _profiles(config: AgentConfig) -> dict[str, ProviderConfig]:
    """By key; the active one has none (an empty key) when it is no profile."""
    active = config.resolve_provider()
    return {**({} if active in config.providers.values() else {"": active}), **config.providers}


def _source(profile: ProviderConfig) -> str:
    """Profiles of one account have one list of models."""
    return json.dumps([profile.name, profile.base_url, profile.api_key, profile.extra], sort_keys=True, default=str)


async def _ask(source: str, profile: ProviderConfig, offers: dict[str, _Offer]) -> None:
    try:
        with trio.fail_after(ASKING_TIMEOUT):
            provider = open_provider(profile)
            try:
                found = await provider.models()
            finally:
                with trio.CancelScope(shield=True):  # an adapter's own limit bounds it
                    await provider.aclose()
            names = {model.name for model in found} | {profile.model}
            prices = {name: await current_price(profile.name, name, aar_home(os.environ)) for name in sorted(names)}
        offers[source] = _Offer(found, {name: price for name, price in prices.items() if price is not None})
    except trio.TooSlowError:
        offers[source] = _Offer((), {}, f"no answer within {ASKING_TIMEOUT:g} s")
    except AarError as error:
        offers[source] = _Offer((), {}, explain(as_provider_error(error, profile.name)))


# --- for people -------------------------------------------------------------------------------


def _as_text(config: AgentConfig, profiles: dict[str, ProviderConfig], offers: dict[str, _Offer]) -> str:
    active = config.resolve_provider()
    lines = ["Configured:"]
    for key, profile in profiles.items():
        offer = offers[_source(profile)]
        known = _info(profile, offer)
        mark = "*" if profile == active else " "
        words = [f"{key}  " if key else "", profile.label, *_facts(known, offer.prices.get(profile.model))]
        lines.append(f"  {mark} {words[0]}{'  '.join(words[1:])}")
    if config.fallback_providers:
        lines.append(f"  When one cannot be reached: {', '.join(config.fallback_providers)}")
    told: set[str] = set()
    for profile in profiles.values():
        if _source(profile) not in told:
            told.add(_source(profile))
            lines += ["", *_offered(profile, offers[_source(profile)])]
    return plain("\n".join(lines)) + "\n"


def _offered(profile: ProviderConfig, offer: _Offer) -> list[str]:
    where = f"{profile.name} at {_shown_address(profile.base_url)}" if profile.base_url else profile.name
    if offer.problem:
        return [f"{where}: {offer.problem}"]
    if not offer.models:
        return [f"{where} does not list its models."]
    rows = [
        f"    {'  '.join([model.name, *_facts(model, offer.prices.get(model.name))])}" for model in offer.models[:SHOWN]
    ]
    more = len(offer.models) - len(rows)
    return [f"{where} offers:", *rows, *([f"    ... and {more} more: aar models --output json"] if more else [])]


def _facts(model: ModelInfo, price: Price | None) -> list[str]:
    found: list[str] = []
    if model.context_window:
        found.append(f"{_tokens(model.context_window)} context")
    if model.max_output:
        found.append(f"{_tokens(model.max_output)} output")
    if price is not None:
        found.append(f"${price.input_per_million:g} in / ${price.output_per_million:g} out per million tokens")
    if model.abilities:
        found.append(", ".join(model.abilities))
    return found


def _tokens(count: int) -> str:
    return f"{count // 1000}k" if count >= 1000 else str(count)


def _shown_address(url: str) -> str:
    """Without what may be a password or a key."""
    scheme, found, rest = url.partition("://")
    address = (rest if found else scheme).split("?")[0].rpartition("@")[2]
    return f"{scheme}://{address}" if found else address


def _info(profile: ProviderConfig, offer: _Offer) -> ModelInfo:
    """The model of a profile, with what its provider and the settings say of it."""
    found = next((model for model in offer.models if model.name == profile.model), ModelInfo(profile.model))
    return found._replace(context_window=profile.context_window) if profile.context_window else found


# --- for programs -----------------------------------------------------------------------------


def _as_json(
    config: AgentConfig, profiles: dict[str, ProviderConfig], offers: dict[str, _Offer]
) -> dict[str, list[dict[str, Any]]]:
    active = config.resolve_provider()
    configured: list[dict[str, Any]] = []
    offered: dict[str, dict[str, Any]] = {}
    for key, profile in profiles.items():
        source = _source(profile)
        offer = offers[source]
        named = {"profile": key or None, "provider": profile.name, "active": profile == active}
        configured.append({**named, **_row(_info(profile, offer), offer)})
        offered.setdefault(
            source,
            {
                "provider": profile.name,
                "base_url": _shown_address(profile.base_url) or None,
                "problem": offer.problem or None,
                "models": [_row(model, offer) for model in offer.models],
            },
        )
    return {"configured": configured, "offered": list(offered.values())}


def _row(model: ModelInfo, offer: _Offer) -> dict[str, Any]:
    price = offer.prices.get(model.name)
    return {
        "model": model.name,
        "context_window": model.context_window,
        "max_output": model.max_output,
        "abilities": list(model.abilities),
        "price": price._asdict() if price is not None else None,
    }
