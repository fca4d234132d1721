"""What a project that nobody has trusted may say: it may forbid more, and allow nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from aar.errors import ConfigError
from aar.messages.settings import AgentConfig, SafetyConfig

__all__ = ["narrowed", "narrowed_safety", "stricter"]

_KEPT = ("description", "inherit", "hidden", "mode", "agents_md")
_LIMITS = ("max_steps", "timeout", "token_budget", "cost_limit")  # 0 is none, where 0 may stand


def narrowed(config: AgentConfig, said: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What of `said` makes `config` no wider, and the keys that were left out."""
    kept: dict[str, Any] = {}
    left: list[str] = []
    for key, value in said.items():
        if key in _KEPT:
            kept[key] = value
        elif key == "tools":
            kept[key], more = _tools(config, value)
            left += more
        elif key == "safety":
            kept[key], more = narrowed_safety(config, value, None)
            left += more
        elif (key in _LIMITS and _is_lower(value, getattr(config, key))) or (
            key == "provider" and isinstance(value, str) and value in config.providers
        ):
            kept[key] = value
        else:
            left.append(key)
    return kept, left


def narrowed_safety(
    config: AgentConfig, said: Mapping[str, Any], fixed: Collection[str] | None
) -> tuple[dict[str, Any], list[str]]:
    """As `narrowed`, for `safety`; with `fixed`, only these of its keys are held to it."""
    kept: dict[str, Any] = {}
    left: list[str] = []
    for key, value in said.items():
        is_free = fixed is not None and key not in fixed
        if is_free or key in ("deny", "confirm") or (value is True and key in _STRICTER):
            kept[key] = value
        elif key == "denied_paths" and isinstance(value, list):
            kept[key] = list(dict.fromkeys([*config.safety.denied_paths, *value]))
        else:
            left.append(f"safety.{key}")
    return kept, left


def stricter(one: SafetyConfig, other: SafetyConfig, cwd: str) -> SafetyConfig:
    """Rules that allow what both of them allow in the folder `cwd`. Where `one` has a sandbox, that one counts.

    Raises `ConfigError` when `other` allows paths of which nobody can tell whether `one` does.
    """
    return one.model_copy(
        update={
            **{key: getattr(one, key) or getattr(other, key) for key in _STRICTER},
            **{key: _joined(getattr(one, key), getattr(other, key)) for key in ("deny", "confirm", "denied_paths")},
            "auto": [rule for rule in one.auto if rule in other.auto],
            "allowed_paths": _allowed_by_both(one.allowed_paths, other.allowed_paths, cwd),
            "sandbox": other.sandbox if one.sandbox.mode == "local" else one.sandbox,
        }
    )


def _joined(one: list[str], other: list[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


def _allowed_by_both(one: list[str], other: list[str], cwd: str) -> list[str]:
    """An empty list allows everything."""
    if not one or not other or one == other:
        return one or other
    inside = [path for path in other if any(_is_inside(path, folder, cwd) for folder in one)]
    if len(inside) < len(other):
        inside += [path for path in one if any(_is_inside(path, folder, cwd) for folder in other)]
    if not inside:
        raise ConfigError(f"its allowed_paths {', '.join(other)} are not within those of the session")
    return list(dict.fromkeys(inside))


def _is_inside(path: str, folder: str, cwd: str) -> bool:
    path, folder = (name.replace("<cwd>", cwd.rstrip("/")) for name in (path, folder))
    beginning = folder.removesuffix("**")
    is_whole = beginning != folder and beginning.endswith("/") and not set(beginning) & set("*?[")
    return path == folder or (is_whole and path.startswith(beginning) and ".." not in path)


_STRICTER = (
    "read_only",
    "require_approval_for_writes",
    "require_approval_for_execute",
    "read_before_write",
    "log_all_commands",
)


def _tools(config: AgentConfig, said: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    kept = {
        key: value
        for key, value in said.items()
        if key in ("only", "without") or _is_lower(value, getattr(config.tools, key))
    }
    return kept, [f"tools.{key}" for key in said if key not in kept]


def _is_lower(value: Any, limit: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value > 0 and (limit == 0 or value <= limit)
