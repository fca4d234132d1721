"""Settings without their secrets: for people to look at, for journals to keep, for logs to leave out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from aar.messages.settings import AgentConfig, ProviderConfig

__all__ = ["masked", "secret_values", "without_keys"]

MASK = "********"

_SECRET_NAME = re.compile(r"api.?key|(^|[_-])key$|auth(?!_header)|token$|secret|passw|credential|cookie", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY_SECRET = re.compile(r"([?&](?:api[_-]?key|key|token|access_token|secret|sig)=)[^&#\s]+", re.IGNORECASE)


def masked(config: AgentConfig) -> dict[str, Any]:
    """All settings as plain data, with keys, header values and passwords shown as asterisks."""
    return _providers_changed(config, _mask)


def without_keys(config: AgentConfig) -> dict[str, Any]:
    """All settings as plain data without any secret: what a session records. Loads as settings again."""
    return _providers_changed(config, _strip)


def secret_values(config: AgentConfig) -> list[str]:
    """The secrets in these settings, longest first: what must never be logged."""
    found: set[str] = set()
    for provider in _providers(config):
        found.update(_secrets_in(provider))
    return sorted((value for value in found if len(value) >= 4), key=lambda value: (-len(value), value))


def _providers(config: AgentConfig) -> Iterator[ProviderConfig]:
    if isinstance(config.provider, ProviderConfig):
        yield config.provider
    yield from config.providers.values()


def _secrets_in(provider: ProviderConfig) -> Iterator[str]:
    yield provider.api_key
    yield from _texts(_headers(provider.extra))
    for name, value in provider.extra.items():
        if _is_secret(name, value):
            yield from _texts(value)
    login = urlsplit(provider.base_url).password if "@" in provider.base_url else None
    yield login or ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield value.split(" ", 1)[-1]  # the token of "Bearer TOKEN"
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)


def _headers(extra: dict[str, Any]) -> dict[str, Any]:
    headers = extra.get("extra_headers")
    return headers if isinstance(headers, dict) else {}


def _is_secret(name: str, value: Any) -> bool:
    return isinstance(value, str) and bool(value) and bool(_SECRET_NAME.search(name))


def _providers_changed(config: AgentConfig, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    data = config.model_dump(mode="json")
    if isinstance(data["provider"], dict):
        data["provider"] = change(data["provider"])
    data["providers"] = {name: change(provider) for name, provider in data["providers"].items()}
    return data


def _mask(provider: dict[str, Any]) -> dict[str, Any]:
    extra = {name: MASK if _is_secret(name, value) else value for name, value in provider["extra"].items()}
    if headers := _headers(extra):
        extra["extra_headers"] = dict.fromkeys(headers, MASK)
    return {
        **provider,
        "api_key": MASK if provider["api_key"] else "",
        "base_url": _QUERY_SECRET.sub(rf"\1{MASK}", _URL_LOGIN.sub(f"{MASK}@", provider["base_url"])),
        "extra": extra,
    }


def _strip(provider: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in provider.items() if key != "api_key"}
    extra = provider["extra"].items()
    kept["extra"] = {name: value for name, value in extra if name != "extra_headers" and not _is_secret(name, value)}
    kept["base_url"] = _QUERY_SECRET.sub(r"\1", _URL_LOGIN.sub("", provider["base_url"]))
    return kept
