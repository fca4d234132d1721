"""`inherit`: what is absent comes from the parents, what is present replaces it; texts stand one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from aar.config.agents.collections import FileKeyed
from aar.config.agents.entities import Entity
from aar.errors import ConfigError
from aar.messages.settings import merge_patch, merge_settings

__all__ = ["Text", "Whole", "whole"]

NEVER_INHERITED = ("inherit", "hidden")


class Text(NamedTuple):
    """`source` and `line` say where it begins."""

    source: str
    line: int
    text: str
    is_foreign: bool


class Whole(NamedTuple):
    """An entity with all that it inherits. `origins` says for each key (`safety.read_only`) where it was said.

    `is_foreign`: something of it comes from a project that is not trusted.
    """

    entity: Entity
    said: Mapping[str, Any]
    origins: Mapping[str, str]
    texts: tuple[Text, ...]
    is_foreign: bool

    @property
    def name(self) -> str:
        return self.entity.name


def whole(known: FileKeyed[Entity], name: str) -> Whole:
    """Parents in their order, each before its heirs and each once. Raises `ConfigError` for a ring, with its path."""
    entity = known.find(name)
    chain = _in_order(known, entity, [])
    said: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for one in chain:
        own = {key: value for key, value in one.said.items() if one is entity or key not in NEVER_INHERITED}
        said = merge_settings(said, _with_definitions(said, own))
        for path in _leaves(own):
            origins = {key: place for key, place in origins.items() if not key.startswith(f"{path}.")}
            origins[path] = one.place(tuple(path.split(".")))
    texts = tuple(Text(str(one.path), one.body_line, one.body, one.is_foreign) for one in chain if one.body)
    return Whole(entity, said, origins, texts, any(one.is_foreign for one in chain))


def _with_definitions(said: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What two generations say of the same tool counts key by key, as everything else does."""
    before, after = said.get("tools"), own.get("tools")
    if not isinstance(before, dict) or not isinstance(after, dict) or "definitions" not in after:
        return dict(own)
    definitions = merge_patch(before.get("definitions", {}), after["definitions"])
    return {**own, "tools": {**after, "definitions": definitions}}


def _in_order(known: FileKeyed[Entity], entity: Entity, below: list[Entity]) -> list[Entity]:
    if entity in below:
        ring = " -> ".join(one.name for one in [*below[below.index(entity) :], entity])
        raise ConfigError(f"{below[-1].place(('inherit',))}: inherit runs in a ring: {ring}.")
    found: list[Entity] = []
    for name in entity.parents:
        try:
            parent = known.find(name)
        except ConfigError as error:
            raise ConfigError(f"{entity.place(('inherit',))}: {error}") from error
        found += [one for one in _in_order(known, parent, [*below, entity]) if one not in found]
    return [*found, entity]


def _leaves(said: Mapping[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in said.items():
        found += _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) and value else [f"{prefix}{name}"]
    return found
