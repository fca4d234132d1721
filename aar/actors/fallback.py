"""Going on with another model when the one in use cannot be reached.

One way: the session stays with the model it fell back to until somebody chooses another.
"""

from __future__ import annotations

import logging
from typing import Any

from aar.actors.configuring import apply_patch
from aar.actors.workbench import Workbench
from aar.errors import (
    ConfigError,
    InvalidSetting,
    MissingPackage,
    ProviderError,
    ProviderRateLimited,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.events import Notice
from aar.messages.settings import AgentConfig, merge_settings
from aar.providers.base import ended, explain

__all__ = ["fall_back"]

_OUT_OF_REACH = (ProviderUnavailable, ProviderUnauthorized, ProviderRateLimited)
_NO_CREDIT, _NO_SUCH_MODEL = 402, 404

logger = logging.getLogger(__name__)


async def fall_back(bench: Workbench, error: ProviderError | InvalidSetting) -> bool:
    """Record that the next of `fallback_agents`, or else of `fallback_providers`, answers from now on.

    False when there is none that could.

    What a model refuses, or cannot read, is no reason: the next one would get the same. A mistake in the settings, or
    a package that is missing, is one only for a fallback: of the model that was chosen, people want to know.
    """
    if not _is_out_of_reach(error, bench.config):
        return False
    reason = {"reason": "fallback", "kind": type(error).__name__, "detail": str(error)}
    if bench.config.fallback_agents:
        return await _next_agent(bench, error, reason)
    try:
        before = bench.config.resolve_provider()
        key = _next(bench.config)
        if key is None:
            return False
        after = (await apply_patch(bench, {"provider": key}, reason)).resolve_provider()
    except ValueError as refused:  # the settings name what there is not
        logger.warning("session %s cannot fall back: %s", bench.session_id, refused)
        return False
    text = f"{_why(error, before.label)} Going on with {after.label} instead of {before.label}."
    await bench.journal.append(Notice(kind="fallback", text=text, data={"provider": key}))
    return True


async def _next_agent(bench: Workbench, error: ProviderError | InvalidSetting, reason: dict[str, Any]) -> bool:
    """The first of `fallback_agents` takes over with all that it brings; those after it stay its fallbacks."""
    config = bench.config
    entry, *rest = config.fallback_agents
    name, patch = str(entry.get("agent", "")), entry.get("patch")
    if not name or not isinstance(patch, dict):
        logger.warning("session %s cannot fall back: fallback_agents has an entry that is none", bench.session_id)
        return False
    try:
        before = config.resolve_provider().label
        patch = {**patch, "agent": name, "fallback_agents": rest}
        after = await apply_patch(bench, patch | {"safety": _no_looser(bench, patch)}, reason)
    except ValueError as refused:
        logger.warning("session %s cannot fall back to the agent %s: %s", bench.session_id, name, refused)
        return False
    text = f"{_why(error, before)} Going on with the agent {name} ({after.resolve_provider().label})."
    await bench.journal.append(Notice(kind="fallback", text=text, data={"agent": name}))
    return True


def _no_looser(bench: Workbench, patch: dict[str, Any]) -> dict[str, Any]:
    """The rules of the next agent under those in force: nobody has chosen it now, so it may not do more."""
    from aar.config.agents.narrowing import stricter  # few sessions have such agents

    now = bench.config.safety
    wanted = bench.base.patched(merge_settings(bench.journal.session.patch, patch)).safety
    try:
        rules = stricter(now, wanted, bench.cwd)
    except ConfigError:  # its paths are others
        rules = now
    return rules.model_dump(mode="json")


def _why(error: ProviderError | InvalidSetting, label: str) -> str:
    return ended(explain(error)) if isinstance(error, ProviderError) else f"{label} cannot be used ({error})."


def _is_out_of_reach(error: ProviderError | InvalidSetting, config: AgentConfig) -> bool:
    if isinstance(error, ProviderError) and not isinstance(error, MissingPackage):
        return isinstance(error, _OUT_OF_REACH) or error.status in (_NO_CREDIT, _NO_SUCH_MODEL)
    try:
        return config.resolve_provider() in config.resolve_fallbacks().values()
    except ValueError:  # the settings name what there is not
        return False


def _next(config: AgentConfig) -> str | None:
    """The fallback after the model in use; the first one when that is none of them."""
    active, profiles = config.resolve_provider(), config.resolve_fallbacks()
    keys = list(profiles)
    used = [at for at, key in enumerate(keys) if profiles[key] == active]
    later = keys[used[-1] + 1 :] if used else keys
    return next(iter(later), None)
