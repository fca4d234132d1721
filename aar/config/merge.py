"""Flags over environment over file over defaults, and which of them each setting came from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aar.config.files import exposed_keys, read_settings, user_config_file, validated
from aar.config.masking import repeated
from aar.config.unknown import nearest, unknown_settings
from aar.errors import InvalidSetting, UnknownSetting
from aar.messages.settings import AgentConfig, ProviderConfig

__all__ = ["API_KEY_VARIABLES", "Loaded", "all_origins", "merge_config"]

API_KEY_VARIABLES: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "generic": "GENERIC_API_KEY",
}
"""The variable that holds a provider's key. A provider that is not named here gets no key from the environment."""

_NAMED_MODELS = {*API_KEY_VARIABLES, "ollama"} - {"generic"}  # these do nothing without a model's name

_DEFAULT_PROVIDER = ProviderConfig.model_fields["name"].default

_FLAGS = {
    "model": "provider.model",
    "base_url": "provider.base_url",
    "api_key": "provider.api_key",
    "read_only": "safety.read_only",
    "allowed_paths": "safety.allowed_paths",
    "theme": "tui.theme",
}
_SPECIAL = ("provider", "require_approval", "restrict_to_cwd", "denied_paths")
_FREE_FORM = re.compile(r"(?:provider|providers\..+)\.(?:extra|json_schema)|tui\.layout|safety\.sandbox\.local")


class Loaded(NamedTuple):
    """Settings in force, with `provider` always an object.

    `origins` names for each setting (`provider.model`) where it came from: `flag`, `environment`,
    `file <path>` or `default`. `warnings` are sentences for the user. `plain` is what would be in force without the
    agent and the mode that are named; `None` when there is neither.
    """

    config: AgentConfig
    origins: Mapping[str, str]
    warnings: tuple[str, ...]
    plain: AgentConfig | None = None

    @property
    def provider_was_chosen(self) -> bool:
        """Whether a flag or file said anything about the provider or its model, so that none is to be looked for.

        The default provider as `aar init` writes it, whole and unchanged, says nothing.
        """
        told = ("provider.name", "provider.model", "provider.base_url")
        return any(self.origins[name] == "flag" or self.origins[name].startswith("file ") for name in told)

    def watched(self) -> Loaded:
        """For somebody who may be looking: answers come as they are made, unless a setting says otherwise."""
        if self.origins["streaming"] != "default":
            return self
        return self._replace(config=self.config.model_copy(update={"streaming": True}))


def merge_config(
    *,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Loaded:
    """Settings from flags, environment and file.

    `file` replaces the user's own and must exist; without it `config.json` in `aar_home()` is read when it is
    there. `flags` has flag names (`model`, `require_approval`) or setting paths (`safety.read_only`); `None` means
    not given. `provider` is a key of `providers`, else a provider's name. Raises `ConfigError`.
    """
    chosen = file.expanduser() if file is not None else user_config_file(environ)
    raw = read_settings(chosen) if file is not None or chosen.exists() else {}
    warnings = [*unknown_settings(raw, str(chosen)), *exposed_keys(raw, chosen)]
    raw = _without_starter_provider(raw)
    origins = dict.fromkeys(_leaves(raw), f"file {chosen}")
    merged = _Merged(raw, origins)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    merged.choose_provider(given.pop("provider", None), chosen)
    merged.apply_flags(given)
    merged.name_server()
    merged.fill_in_model(warnings)
    merged.apply_environment(environ)
    config = validated(merged.raw, merged.source_of)
    return Loaded(config, all_origins(config, merged.origins), tuple(warnings))


def _without_starter_provider(raw: dict[str, Any]) -> dict[str, Any]:
    """`aar init` writes the whole default provider to be edited. Left as it is, nobody has chosen it."""
    if "provider" not in raw or raw["provider"] != ProviderConfig().model_dump(mode="json"):
        return raw
    return {name: value for name, value in raw.items() if name != "provider"}


class _Merged:
    """Raw settings that grow from the file to what is in force, and the origin of each."""

    def __init__(self, raw: dict[str, Any], origins: dict[str, str]) -> None:
        self.raw = raw
        self.origins = origins

    def set(self, path: str, value: Any, origin: str) -> None:
        *parents, last = path.split(".")
        raw = dict(self.raw)
        level = raw
        for name in parents:
            inner = level.get(name)
            if name == "sandbox" and isinstance(inner, str):
                inner = {"mode": inner}
            if inner is not None and not isinstance(inner, dict):
                return  # the file is wrong here, and validation is going to say so
            level[name] = dict(inner or {})
            level = level[name]
        level[last] = value
        self.raw = raw
        self.origins[path] = origin

    def source_of(self, path: str) -> str:
        while path:
            if path in self.origins:
                return self.origins[path].removeprefix("file ")
            path = path.rpartition(".")[0]
        return "settings"

    # the provider: a profile's key, a provider's name, or what the file says

    def choose_provider(self, flag: Any, file: Path) -> None:
        """Turns a key of `providers` into the object, so that further settings have a place to go."""
        profiles = self.raw.get("providers")
        profiles = profiles if isinstance(profiles, dict) else {}
        if isinstance(flag, str) and flag in profiles:
            self._take(profiles[flag], f"providers.{flag}", "flag", file)
            return
        told = self.raw.get("provider")
        if isinstance(told, str):
            self._follow(told, profiles, file, required=flag is None)
        if flag is not None:
            self._rename(str(flag))

    def _follow(self, key: str, profiles: dict[str, Any], file: Path, *, required: bool) -> None:
        if key in profiles:
            self._take(profiles[key], f"providers.{key}", f"file {file}", file)
        elif required:
            available = ", ".join(sorted(profiles)) or "(none)"
            told = f"'{key}'" if repeated(key) == repr(key) else f"({repeated(key)})"
            text = f"Provider key {told} not found in providers dict. Available: {available}"
            if not profiles:
                text += '. Without profiles a provider is an object: {"name": ..., "model": ...}'
            raise InvalidSetting(f"{file}: provider: {text}")
        else:
            self._forget_provider({})

    def _take(self, profile: Any, path: str, origin: str, file: Path) -> None:
        if not isinstance(profile, dict):
            raise InvalidSetting(f"{file}: {path}: must be an object, but found {repeated(profile)}.")
        self._forget_provider(profile)
        self.origins.update({f"provider.{name}": f"file {file}" for name in profile})
        self.origins["provider.name"] = origin

    def _rename(self, name: str) -> None:
        """Another provider than the file's gets nothing of it: no key, address or model of somebody else."""
        told = self.raw.get("provider")
        known = told if isinstance(told, dict) else {}
        if known.get("name", _DEFAULT_PROVIDER) != name:
            self._forget_provider({})
        self.set("provider.name", name, "flag")

    def _forget_provider(self, instead: dict[str, Any]) -> None:
        self.origins = {path: origin for path, origin in self.origins.items() if path.split(".")[0] != "provider"}
        self.raw = {**self.raw, "provider": dict(instead)}

    def name_server(self) -> None:
        """A flag that gives nothing but an address means a server that speaks the common format."""
        if self.origins.get("provider.base_url") == "flag" and "provider.name" not in self.origins:
            self.set("provider.name", "generic", "flag")

    def fill_in_model(self, warnings: list[str]) -> None:
        """The default model belongs to the default provider; no other provider would know it."""
        provider = self.raw.get("provider")
        if not isinstance(provider, dict) or provider.get("model") or "model" in provider:
            return
        name = provider.get("name", _DEFAULT_PROVIDER)
        if name == _DEFAULT_PROVIDER:
            return
        self.raw = {**self.raw, "provider": {**provider, "model": ""}}
        if name in _NAMED_MODELS:
            warnings.append(f"No model is named for provider {name}: add --model NAME, or provider.model to the file.")

    # flags and environment

    def apply_flags(self, given: Mapping[str, Any]) -> None:
        for name, value in given.items():
            if name == "require_approval":
                self.set("safety.require_approval_for_writes", value, "flag")
                self.set("safety.require_approval_for_execute", value, "flag")
            elif name == "restrict_to_cwd":
                if "allowed_paths" not in given:
                    self.set("safety.allowed_paths", ["<cwd>/**"] if value else [], "flag")
            elif name == "denied_paths":
                self.set("safety.denied_paths", [*self._denied(), *value], "flag")
            else:
                self.set(_path_of(name), value, "flag")

    def _denied(self) -> list[Any]:
        """More denied paths never lift the ones that are denied already."""
        safety = self.raw.get("safety")
        told = safety.get("denied_paths") if isinstance(safety, dict) else None
        return list(told) if isinstance(told, list) else list(AgentConfig().safety.denied_paths)

    def apply_environment(self, environ: Mapping[str, str]) -> None:
        provider = self.raw.get("provider")
        provider = provider if isinstance(provider, dict) else {}
        name = provider.get("name", _DEFAULT_PROVIDER)
        key = environ.get(API_KEY_VARIABLES.get(name, ""), "").strip()
        if key and self.origins.get("provider.api_key") != "flag":
            self.set("provider.api_key", key, "environment")
        extra = provider.get("extra")
        has_address = provider.get("base_url") or (isinstance(extra, dict) and extra.get("endpoint"))
        endpoint = environ.get("GENERIC_ENDPOINT", "").strip()
        if name == "generic" and endpoint and not has_address:
            self.set("provider.base_url", endpoint, "environment")


def _path_of(flag: str) -> str:
    if flag in _FLAGS:
        return _FLAGS[flag]
    known = _leaves(AgentConfig().model_dump())
    if flag in known:
        return flag
    guess = nearest(flag, [*_FLAGS, *_SPECIAL, *known])
    raise UnknownSetting(f'There is no setting "{flag}".' + (f' Did you mean "{guess}"?' if guess else ""))


def _leaves(raw: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Paths of all settings: objects are opened, except those whose keys are the user's own."""
    found: list[str] = []
    for name, value in raw.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value and not _FREE_FORM.fullmatch(path):
            found.extend(_leaves(value, f"{path}."))
        else:
            found.append(path)
    return found


def all_origins(config: AgentConfig, origins: Mapping[str, str]) -> dict[str, str]:
    """An origin for every setting in force. `sandbox` may have been told as one word."""
    told = dict(origins)
    if "safety.sandbox" in told:
        told.setdefault("safety.sandbox.mode", told["safety.sandbox"])
    return {path: told.get(path, "default") for path in _leaves(config.model_dump())}
