"""The list of models at `/v1/models`, from OpenAI and from the many servers that have one like it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aar.errors import BadProviderReply
from aar.messages.provider import ModelInfo

__all__ = ["parse_models"]

# OpenAI itself tells none of them; these are the words of gateways, vLLM, LM Studio and llama.cpp (below `meta`).
_WINDOWS = ("context_window", "context_length", "max_model_len", "max_context_length", "n_ctx", "n_ctx_train")


def parse_models(body: Any, *, provider: str, server: str) -> tuple[ModelInfo, ...]:
    """The models by name. Raises `BadProviderReply` when this is no such list."""
    try:
        return tuple(sorted((_model(entry) for entry in body["data"]), key=lambda model: model.name))
    except (AttributeError, KeyError, TypeError) as error:
        raise BadProviderReply(f"{server} lists no models", provider=provider) from error


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    meta = entry.get("meta")
    told = {**(meta if isinstance(meta, Mapping) else {}), **entry}
    window = next((told[name] for name in _WINDOWS if _is_count(told.get(name))), None)
    return ModelInfo(str(entry["id"]), context_window=window)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
