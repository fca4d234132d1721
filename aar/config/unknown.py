"""Keys that no setting has, tools and log levels that there are none of, each with the nearest name that exists."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from aar.messages.settings import BUILTIN_TOOLS, MORE_TOOLS, AgentConfig

__all__ = ["nearest", "unknown_paths", "unknown_settings"]

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def unknown_settings(raw: Mapping[str, Any], source: str) -> list[str]:
    """One sentence per unknown key at any level, per unknown name among the built-in tools, and for a log level.

    `$schema` and keys that start with `_` are comments.
    """
    keys = [_sentence(source, path, known) for path, known in _unknown(raw, AgentConfig, ())]
    return [*keys, *_unknown_tools(raw, source), *_unknown_level(raw, source)]


def unknown_paths(raw: Mapping[str, Any]) -> list[tuple[tuple[str, ...], list[str]]]:
    """The path of each key that no setting has, and the names that are known there."""
    return list(_unknown(raw, AgentConfig, ()))


def nearest(name: str, known: list[str]) -> str | None:
    """The known name that `name` is most likely a slip of."""
    from difflib import get_close_matches

    folded = {candidate.lower().replace("-", "_"): candidate for candidate in known}
    found = get_close_matches(name.lower().replace("-", "_"), list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def _sentence(source: str, path: tuple[str, ...], known: list[str]) -> str:
    return f'{source}: unknown setting "{".".join(path)}" is ignored. {_advice(path[-1], known)}'


def _advice(name: str, known: list[str]) -> str:
    guess = nearest(name, known)
    return f'Did you mean "{guess}"?' if guess else f"Known here: {', '.join(sorted(known))}."


def _unknown_tools(raw: Mapping[str, Any], source: str) -> Iterator[str]:
    """A tool whose name was mistyped would be missing without a word."""
    tools = raw.get("tools")
    enabled = tools.get("enabled_builtins") if isinstance(tools, dict) else None
    for name in enabled if isinstance(enabled, list) else []:
        if isinstance(name, str) and name not in (*BUILTIN_TOOLS, *MORE_TOOLS):
            advice = _advice(name, [*BUILTIN_TOOLS, *MORE_TOOLS])
            yield f'{source}: tools.enabled_builtins: there is no tool "{name}". {advice}'


def _unknown_level(raw: Mapping[str, Any], source: str) -> Iterator[str]:
    """It counts as WARNING, which is not what somebody wanted who looks for more."""
    level = raw.get("log_level")
    if isinstance(level, str) and level.upper() not in _LEVELS:
        yield f'{source}: log_level: there is no level "{level[:30]}". {_advice(level, list(_LEVELS))}'


def _unknown(
    raw: Mapping[str, Any], model: type[BaseModel], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    fields = model.model_fields
    for key, value in raw.items():
        if key == "$schema" or key.startswith("_"):
            continue
        if key not in fields:
            yield (*path, key), list(fields)
            continue
        inner, is_map = _model_in(fields[key].annotation)
        if inner is None or not isinstance(value, dict):
            continue
        entries = value.items() if is_map else [(None, value)]
        for name, entry in entries:
            if isinstance(entry, dict):
                yield from _unknown(entry, inner, (*path, key) if name is None else (*path, key, name))


def _model_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The settings model inside an annotation, and whether it stands in a map of names."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _model_in(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        found = [_model_in(part) for part in get_args(annotation)]
        return next((entry for entry in found if entry[0] is not None), (None, False))
    if origin is dict:
        return _model_in(get_args(annotation)[1])[0], True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    return None, False
