"""`aar models`: the models that the settings name, and those that their providers offer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aar.config import aar_home
from aar.display import plain
from aar.messages.settings import AgentConfig
from aar.transports.program.exits import DONE, FAILED, run_to_code
from aar.transports.program.finding import with_model
from aar.transports.program.flags import SettingFlags
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import for_people
from aar.transports.program.settings import loaded_settings

if TYPE_CHECKING:
    from aar.catalogue import Offer, Profile
    from aar.messages.provider import ModelInfo
    from aar.usage import Price

__all__ = ["models"]

SHOWN = 40  # models of one provider that people are shown


def models(*, output: str, flags: SettingFlags) -> int:
    """List the models of the settings, and what each of their providers offers."""

    async def work() -> int:
        from aar.catalogue import look_up, profiles_of

        screen = Screen()
        config = await with_model(loaded_settings(flags), screen)
        profiles = profiles_of(config)
        offers = await look_up(profiles, aar_home())
        if output == "json":
            await screen.say(json.dumps(_as_json(profiles, offers), ensure_ascii=False, indent=2) + "\n")
        else:
            await screen.say(plain(_as_text(config, profiles, offers)))
        return FAILED if all(offer.problem for offer in offers.values()) else DONE

    return run_to_code(work)


# --- for people -------------------------------------------------------------------------------


def _as_text(config: AgentConfig, profiles: list[Profile], offers: dict[str, Offer]) -> str:
    lines = ["Configured:"]
    for profile in profiles:
        offer = offers[profile.source]
        words = [profile.key, profile.settings.label.removesuffix("/")]
        facts = _facts(profile.info(offer), offer.prices.get(profile.settings.model))
        lines.append(f"  {'*' if profile.is_active else ' '} {'  '.join([*filter(None, words), *facts])}")
    if config.fallback_providers:
        lines.append(f"  When one cannot be reached: {', '.join(config.fallback_providers)}")
    for profile in {profile.source: profile for profile in profiles}.values():
        lines += ["", *_offered(profile, offers[profile.source])]
    return "\n".join(lines) + "\n"


def _offered(profile: Profile, offer: Offer) -> list[str]:
    address = _shown_address(profile.settings.base_url)
    where = f"{profile.settings.name} at {address}" if address else profile.settings.name
    if offer.problem:
        return [f"{where}: {for_people(offer.problem)}"]
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


# --- for programs -----------------------------------------------------------------------------


def _as_json(profiles: list[Profile], offers: dict[str, Offer]) -> dict[str, list[dict[str, Any]]]:
    configured: list[dict[str, Any]] = []
    offered: dict[str, dict[str, Any]] = {}
    for profile in profiles:
        offer = offers[profile.source]
        named = {"profile": profile.key or None, "provider": profile.settings.name, "active": profile.is_active}
        configured.append({**named, **_row(profile.info(offer), offer)})
        offered[profile.source] = {
            "provider": profile.settings.name,
            "base_url": _shown_address(profile.settings.base_url) or None,
            "problem": offer.problem or None,
            "models": [_row(model, offer) for model in offer.models],
        }
    return {"configured": configured, "offered": list(offered.values())}


def _row(model: ModelInfo, offer: Offer) -> dict[str, Any]:
    price = offer.prices.get(model.name)
    return {
        "model": model.name,
        "context_window": model.context_window,
        "max_output": model.max_output,
        "abilities": list(model.abilities),
        "price": price._asdict() if price is not None else None,
    }
