"""Settings without their secrets: for people to look at, for journals to keep, for logs to leave out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from aar.messages.settings import AgentConfig, ProviderConfig

__all__ = ["holds_secret", "masked", "repeated", "secret_values", "without_keys"]

MASK = "********"

_SECRET_NAME = re.compile(r"api.?key|(^|[_-])key$|auth(?!_header)|token$|secret|passw|credential|cookie", re.IGNORECASE)
_PASSWORD_NAME = re.compile(r"api.?key|secret|passw|credential", re.IGNORECASE)
_MAY_BE_A_KEY = re.compile(r"^(?:sk|pk|rk)-|://|[A-Za-z0-9_-]{20}")
_URL_LOGIN = re.compile(r"(?:(?<=://)|^)[^/?#\s]*@")
_QUERY_VALUE = re.compile(r"([?&](?!(?:api[_-])?version=)[^=&#]*=)([^&#]+)", re.IGNORECASE)  # a version is no secret
_BARE_QUERY = re.compile(r"(?<=\?)[^=&#]+(?=#|$)")
_ADDRESS_NAME = re.compile(r"(?:^|_)(?:ur[il]|endpoint|address|proxy)$", re.IGNORECASE)


def masked(config: AgentConfig) -> dict[str, Any]:
    """All settings as plain data, with keys, header values and passwords shown as asterisks."""
    return _changed(config, _mask, _mask_extra, MASK)


def without_keys(config: AgentConfig) -> dict[str, Any]:
    """All settings as plain data without any secret: what a session records. Loads as settings again."""
    return _changed(config, _strip, _strip_extra, "")


def secret_values(config: AgentConfig) -> list[str]:
    """The secrets in these settings, longest first: what must never be logged."""
    found: set[str] = set()
    for provider in _providers(config):
        found.update(_secrets_in(provider))
    found.update(_in_extra({"settings": config.extensions.settings, "local": config.extensions.local}))
    found.update(_in_address(config.safety.sandbox.wsl.rootfs_url))
    return sorted((value for value in found if len(value) >= 4), key=lambda value: (-len(value), value))


def holds_secret(settings: dict[str, Any]) -> bool:
    """Whether some of these settings, as plain data, hold a key, a header or a password."""
    return any(_in_extra(settings))


def repeated(value: Any) -> str:
    """How an error shows a value that it found: in full, unless it may be a key that came to the wrong place."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and (len(value) > 30 or _MAY_BE_A_KEY.search(value)):
        return f"a text of {len(value)} characters"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]  # as the file has it
    return repr(value)


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
        yield from _texts(value) if _is_secret(name, value) else _inside(name, value)


def _inside(name: str, value: Any) -> Iterator[str]:
    if _is_address(name, value):
        yield from _in_address(value)
    elif isinstance(value, dict):
        yield from _in_extra(value)
    elif isinstance(value, list):
        for item in value:
            yield from _inside(name, item)


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
    elif _is_number(value):
        yield str(value)


def _is_secret(name: str, value: Any) -> bool:
    """By its name; a number is one only where no count of something has such a name (`stop_token`)."""
    if isinstance(value, dict | list):
        return "headers" in name.lower() or bool(_SECRET_NAME.search(name))
    if _is_number(value):
        return bool(_PASSWORD_NAME.search(name))
    return isinstance(value, str) and bool(value) and bool(_SECRET_NAME.search(name))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_address(name: str, value: Any) -> bool:
    return isinstance(value, str) and ("://" in value or bool(_ADDRESS_NAME.search(name)))


def _address(address: str, mask: str) -> str:
    """The URL with `mask` for the login and for every value of the query."""
    address = _URL_LOGIN.sub(f"{mask}@" if mask else "", address, count=1)
    return _BARE_QUERY.sub(mask, _QUERY_VALUE.sub(rf"\1{mask}", address))


Change = Callable[[dict[str, Any]], dict[str, Any]]


def _changed(config: AgentConfig, change: Change, change_extra: Change, mask: str) -> dict[str, Any]:
    data = config.model_dump(mode="json")
    if isinstance(data["provider"], dict):
        data["provider"] = change(data["provider"])
    data["providers"] = {name: change(provider) for name, provider in data["providers"].items()}
    for told in (data["extensions"]["settings"], data["extensions"]["local"], data["shell_hooks"]):
        for name, values in told.items():
            told[name] = change_extra(values) if isinstance(values, dict) else values
    wsl = data["safety"]["sandbox"]["wsl"]
    wsl["rootfs_url"] = _address(wsl["rootfs_url"], mask)
    return data


def _mask(provider: dict[str, Any]) -> dict[str, Any]:
    return {
        **provider,
        "api_key": MASK if provider["api_key"] else "",
        "base_url": _address(provider["base_url"], MASK),
        "extra": _mask_extra(provider["extra"]),
    }


def _mask_extra(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _hidden(value) if _is_secret(name, value) else _shown(name, value, MASK, _mask_extra)
        for name, value in values.items()
    }


def _hidden(value: Any) -> Any:
    """The names stay, so that one sees what was told."""
    if isinstance(value, dict):
        return {name: _hidden(inner) for name, inner in value.items()}
    return [_hidden(inner) for inner in value] if isinstance(value, list) else MASK


def _shown(name: str, value: Any, mask: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A value that is no secret by its name, with those inside it changed."""
    if _is_address(name, value):
        return _address(value, mask)
    if isinstance(value, dict):
        return change(value)
    return [_shown(name, item, mask, change) for item in value] if isinstance(value, list) else value


def _strip(provider: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in provider.items() if key != "api_key"}
    kept["extra"] = _strip_extra(provider["extra"])
    kept["base_url"] = _address(provider["base_url"], "")
    return kept


def _strip_extra(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _shown(name, value, "", _strip_extra) for name, value in values.items() if not _is_secret(name, value)
    }
