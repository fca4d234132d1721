"""One agent, mode or command as its file says it, with every key checked and none inherited yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from aar.config.agents.documents import Document, parse_document
from aar.config.agents.homes import SourceFile
from aar.config.masking import holds_secret, repeated
from aar.config.unknown import nearest
from aar.errors import ConfigError
from aar.messages.settings import AgentConfig, ProviderConfig, merge_patch

__all__ = ["Entity", "Kind", "entity_of", "SETTINGS"]

Kind = Literal["agent", "mode", "command"]

_LIMITS = ("max_steps", "timeout", "max_retries", "token_budget", "cost_limit", "context_window", "context_strategy")
SETTINGS = (*_LIMITS, "agents_md", "guardrails", "safety")
"""Settings of an agent that have the same name in the config file."""

_KEYS: Mapping[Kind, tuple[str, ...]] = {
    "agent": ("description", "inherit", "hidden", "mode", "provider", "model", "tools", "fallback", *SETTINGS),
    "mode": ("description", "inherit", "hidden", "tools", "safety"),
    "command": ("description", "inherit", "hidden"),
}
_TOOL_KEYS = ("only", "without", "definitions", "max_output_chars", "command_timeout")
_LISTS: tuple[tuple[str, ...], ...] = (("inherit",), ("fallback",), ("tools", "only"), ("tools", "without"))
_TEXTS: tuple[tuple[str, ...], ...] = (("description",), ("mode",), ("model",))


@dataclass(frozen=True)
class Entity:
    """`said` is the front matter; `lines` says where each key stands.

    `is_foreign`: it belongs to a project that is not trusted.
    """

    kind: Kind
    name: str
    path: Path
    said: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    body: str = ""
    body_line: int = 1
    is_foreign: bool = False

    @property
    def description(self) -> str:
        return str(self.said.get("description", ""))

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(self.said.get("inherit", ()))

    @property
    def is_hidden(self) -> bool:
        """Left out of lists: a base that others inherit from."""
        return bool(self.said.get("hidden", False))

    def place(self, path: tuple[str, ...]) -> str:
        """File and line of a key, or of the nearest one above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.path}:{self.lines.get(path, 1)}"


def entity_of(kind: Kind, file: SourceFile, *, is_foreign: bool = False) -> Entity:
    """Raises `ConfigError`: file, line, what is wrong and what was probably meant."""
    document = parse_document(file.text, str(file.path))
    found = Entity(
        kind, file.name, file.path, _listed(document), document.lines, document.body, document.body_line, is_foreign
    )
    problem = next(_problems(found), None)
    if problem is not None:
        path, text = problem
        raise ConfigError(f"{found.place(path)}: {text}")
    return found


def _listed(document: Document) -> dict[str, Any]:
    """One name may stand where a list of names is meant."""
    said = dict(document.settings)
    if isinstance(said.get("tools"), dict):
        said["tools"] = dict(said["tools"])
    for path in _LISTS:
        inside = said if len(path) == 1 else said.get(path[0])
        if isinstance(inside, dict) and isinstance(inside.get(path[-1]), str):
            inside[path[-1]] = [inside[path[-1]]]
    return said


Problem = tuple[tuple[str, ...], str]


def _problems(entity: Entity) -> Iterator[Problem]:
    known = _KEYS[entity.kind]
    for key in entity.said:
        if key not in known:
            yield (key,), _unknown(key, known)
    yield from _wrong_kinds(entity.said)
    yield from _wrong_tools(entity.said.get("tools", {}))
    yield from _wrong_provider(entity.said.get("provider"))
    yield from _wrong_settings(entity.said)


def _unknown(key: str, known: tuple[str, ...]) -> str:
    guess = nearest(key, list(known))
    advice = f'Did you mean "{guess}"?' if guess else f"Known here: {', '.join(sorted(known))}."
    return f'unknown key "{key[:80]}". {advice}'


def _wrong_kinds(said: Mapping[str, Any]) -> Iterator[Problem]:
    for path in _TEXTS:
        if path[0] in said and not isinstance(said[path[0]], str):
            yield path, f"{path[0]} must be a text, but found {repeated(said[path[0]])}. Put it in quotes."
    for path in _LISTS:
        inside: Any = said if len(path) == 1 else said.get(path[0])
        value = inside.get(path[-1], []) if isinstance(inside, dict) else []
        if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            yield path, f"{'.'.join(path)} must be a list of texts, but found {repeated(value)}."
    if not isinstance(said.get("hidden", False), bool):
        yield ("hidden",), "hidden must be true or false."


def _wrong_tools(tools: Any) -> Iterator[Problem]:
    if not isinstance(tools, dict):
        yield ("tools",), "tools must be lines of `key: value`, such as `only: [read_file]`."
        return
    for key in tools:
        if key not in _TOOL_KEYS:
            yield ("tools", key), _unknown(key, _TOOL_KEYS)


def _wrong_provider(provider: Any) -> Iterator[Problem]:
    if provider is None or isinstance(provider, str):
        return
    if not isinstance(provider, dict):
        yield ("provider",), "provider must be a name, or lines of `key: value`."
        return
    if holds_secret({"provider": provider}):
        yield ("provider",), "keys do not belong here: put them into a profile of the config file or the environment."
    for key in provider:
        if key not in ProviderConfig.model_fields:
            yield ("provider", key), _unknown(key, tuple(ProviderConfig.model_fields))


def _wrong_settings(said: Mapping[str, Any]) -> Iterator[Problem]:
    from aar.config.unknown import unknown_paths

    told = {key: said[key] for key in SETTINGS if key in said and said[key] is not None}
    for path, known in unknown_paths(told):
        yield path, _unknown(path[-1], tuple(known))
    tools = said.get("tools", {})
    told["tools"] = {key: value for key, value in tools.items() if key not in ("only", "without")}
    if isinstance(said.get("provider"), dict):
        told["provider"] = said["provider"]
    try:
        AgentConfig.model_validate(merge_patch({}, told))
    except ValidationError as error:
        for item in error.errors(include_url=False):
            path = tuple(str(part) for part in item["loc"] if part != "ProviderConfig")
            if item["loc"] != ("provider", "str"):
                text = str(item["msg"]).removeprefix("Value error, ")
                yield path, f"{'.'.join(path)}: {text}, but found {repeated(item['input'])}."
