"""Which model to use when neither a flag nor the file says so. It is never chosen in silence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from aar.config import API_KEY_VARIABLES, Loaded
from aar.display import plain
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.transports.program.exits import FAILED, Told
from aar.transports.program.home import home_folder

__all__ = ["installed_remark", "with_model"]


class Teller(Protocol):
    """Whoever passes on what people should know."""

    async def tell(self, text: str) -> None: ...


async def with_model(loaded: Loaded, screen: Teller, environ: Mapping[str, str] = os.environ) -> AgentConfig:
    """The settings with a provider that can be used; on standard error, which one was found and what it is good for.

    Raises `Told` after showing how to get a model, when there is none.
    """
    config = loaded.config if _is_chosen(loaded) else await _with_found(loaded, screen, environ)
    if config.resolve_provider().name == "local":
        from aar.local import model_remark

        await _tell(screen, model_remark(config.resolve_provider()))
    return config


def _is_chosen(loaded: Loaded) -> bool:
    """A model's name alone, given as a flag, does not say whose it is."""
    if loaded.origins["provider.model"] != "flag":
        return loaded.provider_was_chosen or loaded.origins["provider.api_key"] == "flag"
    told = [loaded.origins[f"provider.{name}"] for name in ("name", "base_url", "api_key")]
    return any(origin == "flag" or origin.startswith("file ") for origin in told)


async def _with_found(loaded: Loaded, screen: Teller, environ: Mapping[str, str]) -> AgentConfig:
    from aar.local import find_model, three_ways

    model = loaded.config.resolve_provider().model if loaded.origins["provider.model"] == "flag" else ""
    found = await find_model(environ, model=model)
    for remark in found.remarks:
        await _tell(screen, remark)
    if found.provider is None:
        await screen.tell(three_ways())
        await _tell(screen, f"--model {model} does not say whose it is: add --provider NAME." if model else "")
        await _tell(screen, installed_remark(home_folder() / "models"))
        raise Told(FAILED)
    changes = {"api_key": _key_of(found.provider, environ)}
    return loaded.config.model_copy(update={"provider": found.provider.model_copy(update=changes)})


def installed_remark(folder: Path) -> str:
    """Which models are installed already, for somebody who was told how to get one."""
    from aar.local import installed_models

    names = ", ".join(file.name for file in installed_models(folder)[:5])
    return f"Installed already: {names}. To use one, add: --provider local --model FILE.gguf" if names else ""


def _key_of(provider: ProviderConfig, environ: Mapping[str, str]) -> str:
    """A server that was found on this machine gets no key: anybody can listen there."""
    if provider.extra.get("use_environment", True) is False:
        return provider.api_key
    return provider.api_key or environ.get(API_KEY_VARIABLES.get(provider.name, ""), "").strip()


async def _tell(screen: Teller, text: str) -> None:
    if text:
        await screen.tell(f"{plain(text)}\n")
