"""Standing decisions of a session: what 'always' and 'never' were said to, and what was allowed beforehand."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from aar.messages.settings import SafetyConfig
from aar.messages.tools import SideEffect
from aar.safety.arguments import command_of, paths_of
from aar.safety.facts import ToolFacts
from aar.safety.parts import Part, parts_of
from aar.safety.paths import PathGuard

__all__ = ["Grants", "approval_key"]


def approval_key(
    tool: ToolFacts,
    arguments: Mapping[str, Any],
    safety: SafetyConfig,
    cwd: str,
    *,
    guard: PathGuard | None = None,
) -> str:
    """What 'always' holds for: this text, as JSON `[tool, kind, ...]`.

    Commands: the exact command, the folder it runs in, and whatever else shapes it. Files: the session's folder for
    paths inside it, else the resolved path. Tools that reach outside, and all others: the tool, in this
    edition where it has one.
    """
    effects = frozenset(tool.side_effects)
    guard = guard or PathGuard(cwd, safety)
    if SideEffect.EXECUTE in effects:
        return _key(tool.name, "execute", *_command_parts(arguments, guard))
    if SideEffect.WRITE in effects or (SideEffect.READ in effects and SideEffect.EXTERNAL not in effects):
        kind = "write" if SideEffect.WRITE in effects else "read"
        return _key(tool.name, kind, *_places(arguments, guard))
    return _key(tool.name, "tool", *([tool.edition] if tool.edition else []))


def _key(*parts: str) -> str:
    return json.dumps(parts, ensure_ascii=True)


def _command_parts(arguments: Mapping[str, Any], guard: PathGuard) -> list[str]:
    folder = arguments.get("cwd")
    where = guard.resolve(folder) if isinstance(folder, str) and folder else guard.real_cwd
    command = command_of(arguments)
    is_said = command or arguments.get("command") == ""
    said = {"timeout", "command" if is_said else "", "cwd" if isinstance(folder, str) else ""}
    rest = {name: value for name, value in arguments.items() if name not in said and value is not None}
    more = [json.dumps(rest, sort_keys=True, default=str)] if rest else []
    return [_trimmed(command), where, *more]


def _trimmed(command: str) -> str:
    """Without the blanks around it, as shells see them; after a backslash a blank is none."""
    trimmed = command.strip(" \t\n")
    return command.lstrip(" \t\n") if trimmed.endswith("\\") else trimmed


def _places(arguments: Mapping[str, Any], guard: PathGuard) -> list[str]:
    paths = paths_of(arguments)
    if not paths:  # nothing tells two calls apart but all they say
        return ["call", json.dumps(dict(arguments), sort_keys=True, default=str)]
    return sorted({_place(path, guard) for path in paths})


def _place(path: str, guard: PathGuard) -> str:
    resolved = guard.resolve(path)
    inside = resolved == guard.real_cwd or resolved.startswith(guard.real_cwd.rstrip("/") + "/")
    return guard.real_cwd + os.sep if inside and not guard.stands_alone(path) else resolved


@dataclass(frozen=True)
class Grants:
    """Approval keys that are allowed or denied for good, and `entries`: tool names or `tool:prefix*`.

    Never changed in place: every method answers with new grants.
    """

    allowed: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    entries: tuple[str, ...] = ()

    def verdict(self, tool_name: str, key: str, arguments: Mapping[str, Any]) -> Literal["allow", "deny"] | None:
        """The standing decision about a call that would be asked about, or `None`. A denial is stronger."""
        if key in self.denied:
            return "deny"
        if key in self.allowed or self._entry_allows(tool_name, arguments):
            return "allow"
        return None

    def allow(self, key: str) -> Grants:
        return replace(self, allowed=self.allowed | {key}, denied=self.denied - {key})

    def deny(self, key: str) -> Grants:
        return replace(self, denied=self.denied | {key}, allowed=self.allowed - {key})

    def auto_approve(self, entry: str) -> Grants:
        """Allow a whole tool, or `tool:prefix*`: calls whose command, paths or texts start so."""
        return self if entry in self.entries else replace(self, entries=(*self.entries, entry))

    def revoke(self, name: str) -> Grants:
        """Forget every decision about a tool and its entries, or one entry: it asks again."""
        return Grants(
            allowed=frozenset(key for key in self.allowed if _tool_of(key) != name),
            denied=frozenset(key for key in self.denied if _tool_of(key) != name),
            entries=tuple(entry for entry in self.entries if name not in (entry, entry.partition(":")[0])),
        )

    def _entry_allows(self, tool_name: str, arguments: Mapping[str, Any]) -> bool:
        if tool_name in self.entries:
            return True
        patterns = [rest for tool, colon, rest in (each.partition(":") for each in self.entries) if tool == tool_name]
        parts = _effect_parts(arguments) if patterns else []
        if command_of(arguments) or paths_of(arguments):
            return bool(parts) and all(any(part.fits(one) for one in patterns) for part in parts)
        return any(part.fits(one) for one in patterns for part in parts)


def _effect_parts(arguments: Mapping[str, Any]) -> list[Part]:
    """What decides about a call: each part of its command, else its paths, else every text it has."""
    command = command_of(arguments)
    paths = [Part("" if _climbs(path) else path) for path in paths_of(arguments)]
    if command:
        try:
            return parts_of(command) + paths
        except ValueError:
            return [Part("")]
    return paths or [Part(value) for value in arguments.values() if isinstance(value, str)]


def _climbs(path: str) -> bool:
    return ".." in path.replace("\\", "/").split("/")


def _tool_of(key: str) -> str:
    try:
        parts = json.loads(key)
    except ValueError:
        return key
    return parts[0] if isinstance(parts, list) and parts else key
