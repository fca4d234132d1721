"""Settings without their secrets: for people to look at, for journals to keep, for logs to leave out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from aar.messages.settings import AgentConfig, ProviderConfig

__all__ = ["masked", "secret_values", "without_keys"]

MASK = "********"

_SECRET_NAME = re.compile(r"api.?key|(^|[_-])key$|auth(?!_header)|token$|secret|passw|credential|cookie", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?:(?<=://)|^)[^/?#\s]*@")
_QUERY_VALUE = re.compile(r"([?&](?!(?:api[_-])?version=)[^=&#]*=)([^&#]+)", re.IGNORECASE)  # a version is no secret
_BARE_QUERY = re.compile(r"(?<=\?)[^=&#]+(?=#|$)")
_ADDRESS_NAME = re.compile(r"(?:^|_)(?:ur[il]|endpoint|address|proxy)$", re.IGNORECASE)


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
    yield from _in_address(provider.base_url)
    yield from _in_extra(provider.extra)


def _in_extra(values: dict[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if _is_secret(name, value):
            yield from _texts(value)
        elif _is_address(name, value):
            yield from _in_address(value)
        elif isinstance(value, dict):
            yield from _in_extra(value)


def _in_address(address: str) -> Iterator[str]:
    """The password and the values of the query, as they are written and as they are meant."""
    for login in _URL_LOGIN.findall(address)[:1]:
        password = login[:-1].partition(":")[2] or login[:-1]
        yield from (password, unquote(password))
    for _, value in _QUERY_VALUE.findall(address):
        yield from (value, unquote(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield value.split(" ", 1)[-1]  # the token of "Bearer TOKEN"
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _is_secret(name: str, value: Any) -> bool:
    if isinstance(value, dict | list):
        return "headers" in name.lower()
    return isinstance(value, str) and bool(value) and bool(_SECRET_NAME.search(name))


def _is_address(name: str, value: Any) -> bool:
    return isinstance(value, str) and ("://" in value or bool(_ADDRESS_NAME.search(name)))


def _address(address: str, mask: str) -> str:
    """The URL with `mask` for the login and for every value of the query."""
    address = _URL_LOGIN.sub(f"{mask}@" if mask else "", address, count=1)
    return _BARE_QUERY.sub(mask, _QUERY_VALUE.sub(rf"\1{mask}", address))


def _providers_changed(config: AgentConfig, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    data = config.model_dump(mode="json")
    if isinstance(data["provider"], dict):
        data["provider"] = change(data["provider"])
    data["providers"] = {name: change(provider) for name, provider in data["providers"].items()}
    return data


def _mask(provider: dict[str, Any]) -> dict[str, Any]:
    return {
        **provider,
        "api_key": MASK if provider["api_key"] else "",
        "base_url": _address(provider["base_url"], MASK),
        "extra": _mask_extra(provider["extra"]),
    }


def _mask_extra(values: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in values.items():
        if _is_secret(name, value):
            shown[name] = dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK
        elif _is_address(name, value):
            shown[name] = _address(value, MASK)
        else:
            shown[name] = _mask_extra(value) if isinstance(value, dict) else value
    return shown


def _strip(provider: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in provider.items() if key != "api_key"}
    kept["extra"] = _strip_extra(provider["extra"])
    kept["base_url"] = _address(provider["base_url"], "")
    return kept


def _strip_extra(values: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if _is_secret(name, value):
            continue
        if _is_address(name, value):
            kept[name] = _address(value, "")
        else:
            kept[name] = _strip_extra(value) if isinstance(value, dict) else value
    return kept
