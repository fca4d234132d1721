"""How long an answer may get, where the settings may say so under the vendor's own name for it, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aar.messages.settings import ProviderConfig

__all__ = ["capped", "usual_limit"]


def usual_limit(config: ProviderConfig, extra: Mapping[str, Any], *names: str) -> int:
    """Tokens of an answer, 0 for no limit: what stands in `extra` under one of `names`, else `max_tokens`."""
    for name in names:
        if name in extra:
            return extra[name] if _is_limit(extra[name]) else 0
    return config.max_tokens


def capped(options: dict[str, Any], limit: int | None, *names: str) -> dict[str, Any]:
    """`options` with those of `names` that are among them at most `limit`, which a request that has one is held to."""
    if limit is None:
        return options
    found = {name: options[name] for name in names if options.get(name) is not None}
    return options | {name: min(value, limit) if _is_limit(value) else limit for name, value in found.items()}


def _is_limit(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
