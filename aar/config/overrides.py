"""`--override a.b=value`: settings that nothing else changes, as they are typed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from aar.errors import ConfigError

__all__ = ["overrides_of", "variables_of"]


def overrides_of(texts: Iterable[str]) -> dict[str, Any]:
    """Values by paths of settings. A value is JSON; what is no JSON is a text. Raises `ConfigError`."""
    found: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise ConfigError(f"--override {text[:80]}: say a setting and its value, as in --override max_steps=10")
        found[path.strip()] = _value(value)
    return found


def variables_of(texts: Iterable[str]) -> dict[str, str]:
    """Texts by names, as `--set name=text` gives them. Raises `ConfigError`."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ConfigError(f"--set {text[:80]}: say a name and its text, as in --set ticket=1234")
        found[name.strip()] = value
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
