"""`/model NAME`, wherever it is said: what to change in the settings to use another model."""

from __future__ import annotations

from typing import Any

from aar.config.merge import API_KEY_VARIABLES
from aar.errors import InvalidSetting
from aar.messages.settings import AgentConfig, ProviderConfig

__all__ = ["KNOWN_PROVIDERS", "model_patch"]

KNOWN_PROVIDERS = {*API_KEY_VARIABLES, "ollama", "local"}
_OPEN = {"generic", "ollama", "local"}  # these serve models of any name
_BY_PREFIX = {
    "claude": "anthropic",
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "chatgpt": "openai",
    "gemini": "gemini",
}


def model_patch(config: AgentConfig, name: str) -> dict[str, Any]:
    """The change that makes this model the active one.

    `name` is a key of `providers`, `provider/model`, or a model's name: one that tells its vendor goes there, unless
    the active provider serves models of any name or has an address of its own. Raises `InvalidSetting`.
    """
    active = config.resolve_provider()
    if name in config.providers:
        return {"provider": name}
    provider, slash, model = name.partition("/")
    if slash and model and provider in KNOWN_PROVIDERS:
        return _switched(active, provider, model)
    if active.base_url or active.name in _OPEN:
        return {"provider": {"model": name}}
    if slash:
        known = ", ".join(sorted([*KNOWN_PROVIDERS, *config.providers]))
        raise InvalidSetting(f"There is no provider or profile '{provider}'. Known: {known}")
    vendor = next((vendor for prefix, vendor in _BY_PREFIX.items() if name.startswith(prefix)), "ollama")
    return _switched(active, vendor, name)


def _switched(active: ProviderConfig, provider: str, model: str) -> dict[str, Any]:
    """Another provider gets nothing of this one's settings; the same one keeps its own."""
    if provider == active.name:
        return {"provider": {"model": model}}
    return {"provider": {"name": provider, "model": model}}
