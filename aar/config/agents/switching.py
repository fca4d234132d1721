"""From an agent and a mode to settings: a pure function, and the one change that brings a session there.

What an agent says goes over the settings that there are, what a mode says over that, and what the user overrides over
all. The change names every setting that agents and modes may touch, so that nothing of the one before stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from aar.config.agents.entities import SETTINGS
from aar.config.agents.inheritance import Whole
from aar.config.agents.narrowing import narrowed, narrowed_safety
from aar.config.agents.templates import render
from aar.config.switching import KNOWN_PROVIDERS
from aar.config.unknown import nearest
from aar.errors import ConfigError, InvalidSetting
from aar.messages.settings import AgentConfig, ToolConfig, merge_patch, merge_settings

__all__ = ["Facts", "Switch", "switched"]

_ADDED = ("deny", "confirm", "auto")  # rules of all layers hold together
_NULL_IS_A_VALUE = ("context_window", "token_budget", "cost_limit")
_LAYERS = ("agent", "mode")


@dataclass(frozen=True)
class Facts:
    """What a switch depends on besides: where the session works, its tools, and what the user gave with flags.

    `tools` gives the names of those that the settings leave.
    `fixed` are settings that flags have set (`safety.read_only`): agents may tighten them. `variables` are for
    templates.
    """

    workspace: str = ""
    tools: Callable[[ToolConfig], Sequence[str]] = lambda config: ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    fixed: Collection[str] = ()


class Switch(NamedTuple):
    """`patch` brings a session that was opened with the plain settings to `config`.

    `origins` says where each setting that changed was said; `remarks` are for people to read.
    """

    patch: Mapping[str, Any]
    config: AgentConfig
    origins: Mapping[str, str]
    remarks: tuple[str, ...]


def switched(
    plain: AgentConfig,
    agent: Whole | None,
    mode: Whole | None,
    facts: Facts,
    fallbacks: Sequence[tuple[str, Switch]] = (),
) -> Switch:
    """The settings with this agent and mode in force. Blocking, for it fills templates in.

    `fallbacks` are what to switch to when the model of this agent cannot be reached. Raises `ConfigError`.
    """
    layers = [(kind, one) for kind, one in zip(_LAYERS, (agent, mode), strict=True) if one is not None]
    growing = _Growing(plain, {kind: one.name for kind, one in layers}, facts)
    for kind, one in layers:
        growing.add(kind, one)
    growing.override(facts.overrides)
    for kind, one in layers:
        growing.say(kind, one)
    if agent is not None and not (agent.is_foreign and fallbacks):
        growing.fall_back_to(fallbacks)
    return growing.done()


class _Growing:
    """Settings that grow layer by layer. `provider` is apart: a change may not repeat its key."""

    def __init__(self, plain: AgentConfig, names: Mapping[str, str], facts: Facts) -> None:
        self._plain = plain
        self._facts = facts
        self._names = {"agent": "", "mode": "", **names}
        self._config = plain.model_copy(update=self._names)
        self._provider: dict[str, Any] | str | None = None
        self._origins: dict[str, str] = {}
        self._remarks: list[str] = []

    # --- layers ---

    def add(self, kind: str, layer: Whole) -> None:
        said = dict(layer.said)
        left: list[str] = []
        if layer.is_foreign:
            said, left = narrowed(self._config, said)
        elif self._facts.fixed and isinstance(said.get("safety"), dict):
            fixed = {name.removeprefix("safety.") for name in self._facts.fixed if name.startswith("safety.")}
            said["safety"], left = narrowed_safety(self._config, said["safety"], fixed)
        if left:
            why = "its project is not trusted" if layer.is_foreign else "flags have set them, and may only be tightened"
            self._remarks.append(f"The {kind} {layer.name} may not change {', '.join(left)}: {why}.")
        patch = self._patch_of(kind, layer, said)
        self._apply(patch, f"{kind} {layer.name}: ", layer.origins)
        for path, place in layer.origins.items():
            if path not in left and path.split(".")[0] not in left:
                self._origins[_setting(path, kind)] = place

    def _patch_of(self, kind: str, layer: Whole, said: Mapping[str, Any]) -> dict[str, Any]:
        patch = {key: said[key] for key in SETTINGS if key in said}
        if isinstance(patch.get("safety"), dict):
            patch["safety"] = self._safety(patch["safety"], layer)
        tools = dict(said.get("tools") or {})
        filters = [*tools.pop("only", []), *(f"!{name}" for name in tools.pop("without", []))]
        if filters:
            tools["filters"] = {kind: filters}
        if "definitions" in tools:
            tools["definitions"] = merge_patch(self._config.tools.definitions, tools["definitions"])
        if tools:
            patch["tools"] = tools
        if "provider" in said or "model" in said:
            self._choose(said, layer)
        return patch

    def _safety(self, said: Mapping[str, Any], layer: Whole) -> dict[str, Any]:
        now = self._config.safety
        added = {key: list(dict.fromkeys([*getattr(now, key), *said[key]])) for key in _ADDED if key in said}
        filled = {key: self._filled(value, layer) for key, value in said.items()}
        return {**filled, **added}

    def _filled(self, value: Any, layer: Whole) -> Any:
        """Paths may have names in them, such as `{{ workspace }}`."""
        if isinstance(value, str) and not layer.is_foreign:
            names = {**self._names, "workspace": self._facts.workspace, "vars": dict(self._facts.variables)}
            return render(value, names, *_place(layer.origins.get("safety", f"{layer.entity.path}:1")))
        if isinstance(value, dict):
            return {key: self._filled(one, layer) for key, one in value.items()}
        return [self._filled(one, layer) for one in value] if isinstance(value, list) else value

    def _choose(self, said: Mapping[str, Any], layer: Whole) -> None:
        """`provider: KEY`, `provider: NAME` or an object; `model` goes over each of them."""
        told, model = said.get("provider"), said.get("model")
        if isinstance(told, str) and told in self._plain.providers:
            if model is None:
                self._provider = told
                return
            told = self._profile(told, layer)
        elif isinstance(told, str):
            if told not in KNOWN_PROVIDERS:
                raise ConfigError(f"{layer.origins['provider']}: {self._no_provider(told)}")
            told = {"name": told, "model": ""}
        provider = dict(told or {})
        if model is not None:
            provider["model"] = model
        self._provider = provider if "name" in provider else {"name": None, **provider}

    def _no_provider(self, name: str) -> str:
        known = sorted([*self._plain.providers, *KNOWN_PROVIDERS])
        guess = nearest(name, known)
        advice = f'Did you mean "{guess}"?' if guess else f"There are: {', '.join(known)}."
        return f"there is no provider or profile '{name[:80]}'. {advice}"

    def _profile(self, key: str, layer: Whole) -> dict[str, Any]:
        profile = self._plain.providers[key]
        if profile.api_key:
            place = layer.origins.get("model", str(layer.entity.path))
            raise ConfigError(f"{place}: the profile {key} has a key of its own: make a profile for the other model.")
        return profile.model_dump(mode="json", exclude={"api_key"}, exclude_defaults=True) | {"name": profile.name}

    def override(self, overrides: Mapping[str, Any]) -> None:
        for path, value in overrides.items():
            top, _, rest = path.partition(".")
            if top != "provider":
                self._apply(_nested(path, value), "--override: ", {})
            elif self._provider is not None and rest:
                told = self._provider
                start = (
                    self._plain.providers[told].model_dump(mode="json", exclude={"api_key"})
                    if isinstance(told, str)
                    else told
                )
                self._provider = merge_patch(start, _nested(rest, value))
            self._origins[path] = "--override"

    def _apply(self, patch: Mapping[str, Any], where: str, origins: Mapping[str, str]) -> None:
        if not patch:
            return
        try:
            self._config = AgentConfig.model_validate(merge_settings(self._config.model_dump(), dict(patch)))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            path = ".".join(str(part) for part in first["loc"])
            raise InvalidSetting(f"{origins.get(path, where.rstrip(': '))}: {path}: {first['msg']}") from error

    # --- texts ---

    def say(self, kind: str, layer: Whole) -> None:
        """Add its texts to the prompt, filled in; those of a project that is not trusted stand as they are."""
        texts = [
            one.text if layer.is_foreign else render(one.text, self._variables(), one.source, one.line)
            for one in layer.texts
        ]
        said = "\n\n".join(text.strip() for text in texts if text.strip())
        if said:
            self._config = self._config.model_copy(update={"prompts": {**self._config.prompts, kind: said}})
            self._origins[f"prompts.{kind}"] = f"{layer.texts[-1].source}:{layer.texts[-1].line}"

    def _variables(self) -> dict[str, Any]:
        config, provider = self._settled(), self._settled().resolve_provider()
        safety = config.safety
        rules = {key: getattr(safety, key) for key in _ADDED}
        return {
            **self._names,
            "workspace": self._facts.workspace,
            "tools": list(self._facts.tools(config.tools)),
            "provider": provider.name,
            "model": {
                "name": provider.model,
                "max_tokens": provider.max_tokens,
                "context_window": config.effective_context_window,
            },
            "sandbox": safety.sandbox.mode,
            "policy": {"read_only": safety.read_only, "allowed_paths": safety.allowed_paths, **rules},
            "vars": dict(self._facts.variables),
        }

    # --- the end ---

    def fall_back_to(self, fallbacks: Sequence[tuple[str, Switch]]) -> None:
        entries = [{"agent": name, "patch": dict(switch.patch)} for name, switch in fallbacks]
        self._config = self._config.model_copy(update={"fallback_agents": entries})

    def _settled(self) -> AgentConfig:
        return self._config if self._provider is None else self._config.patched({"provider": self._provider})

    def done(self) -> Switch:
        try:
            config = self._settled()
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InvalidSetting(f"provider: {first['msg']}") from error
        patch = {key: self._change(key) for key in ("agent", "mode", "prompts", "tools", "fallback_agents", *SETTINGS)}
        return Switch({**patch, "provider": self._provider}, config, self._origins, tuple(self._remarks))

    def _change(self, key: str) -> Any:
        """The whole value where it differs from the plain one; else `null`, which takes what was there before back."""
        before, after = getattr(self._plain, key), getattr(self._config, key)
        if before == after:
            return before if key in _NULL_IS_A_VALUE else None
        value = after.model_dump(mode="json") if hasattr(after, "model_dump") else after
        if key == "prompts":
            return {**dict.fromkeys(_LAYERS), **value}
        if key == "tools":
            value["filters"] = {**dict.fromkeys(_LAYERS), **value["filters"]}
        return value


def _setting(path: str, kind: str) -> str:
    """Which setting a key of a file stands for."""
    if path in ("tools.only", "tools.without"):
        return f"tools.filters.{kind}"
    return {"model": "provider.model", "provider": "provider.name", "fallback": "fallback_agents"}.get(path, path)


def _nested(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    found: dict[str, Any] = value
    return found


def _place(origin: str) -> tuple[str, int]:
    source, _, line = origin.rpartition(":")
    return source, int(line) if line.isdigit() else 1
