"""Model APIs, one adapter each, imported only when it is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from aar.errors import InvalidSetting, MissingPackage
from aar.messages.settings import ProviderConfig

if TYPE_CHECKING:
    from aar.providers.base import Provider

__all__ = ["PROVIDERS", "check_provider_name", "open_provider"]

PROVIDERS = {
    "anthropic": "aar.providers.anthropic:AnthropicProvider",
    "gemini": "aar.providers.gemini:GeminiProvider",
    "generic": "aar.providers.generic:GenericProvider",
    "local": "aar.providers.local:LocalProvider",
    "ollama": "aar.providers.ollama:OllamaProvider",
    "openai": "aar.providers.openai:OpenAIProvider",
}


def check_provider_name(name: str) -> None:
    """Raises `InvalidSetting`, a `ValueError`, for a name that no adapter has."""
    if name not in PROVIDERS:
        raise InvalidSetting(f"Unknown provider: '{name}'. Available: {', '.join(sorted(PROVIDERS))}")


def open_provider(config: ProviderConfig) -> Provider:
    """The adapter that `config.name` names. Nothing is connected yet; whoever opened it awaits its `aclose`.

    Raises `MissingPackage` when the adapter or what it needs is not installed, and `ConfigError` for an unknown name
    and when the adapter cannot work with its settings.
    """
    check_provider_name(config.name)
    module_name, _, class_name = PROVIDERS[config.name].partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise _missing(config.name, error) from error
    adapter: type[Provider] = getattr(module, class_name)
    return adapter(config)


def _missing(name: str, error: ModuleNotFoundError) -> MissingPackage:
    return MissingPackage(
        f"The provider '{name}' needs the package '{error.name}': pip install 'aar-agent[{name}]'", provider=name
    )
