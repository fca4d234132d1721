"""Safety rules of one request: stricter than those of the server, or looser where the server allows that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Never

from pydantic import BaseModel, ValidationError

from aar.config.unknown import nearest
from aar.messages.settings import SafetyConfig
from aar.transports.http.refused import Refused

__all__ = ["rules_of"]

_FLAGS = (
    "read_only",
    "require_approval_for_writes",
    "require_approval_for_execute",
    "read_before_write",
    "log_all_commands",
)
_EVERYTHING = ("*", "**")


def rules_of(given: Any, server: SafetyConfig, *, may_loosen: bool) -> dict[str, Any] | None:
    """What is to hold instead of the server's own rules, as a merge patch; `None` when nothing changes.

    `denied_paths`, `deny` and `confirm` come on top of the server's, unless rules may be loosened: then all fields
    replace them.
    Raises `Refused`: 400 for what is no rule, 403 for what would loosen one.
    """
    if given is None:
        return None
    asked = _validated(given)
    rules = asked if may_loosen else dict(_tightened(asked, server))
    return _changes(rules, server.model_dump()) or None


def _changes(rules: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What is not as it is now."""
    found: dict[str, Any] = {}
    for name, value in rules.items():
        old = now.get(name)
        change = _changes(value, old) if isinstance(value, dict) and isinstance(old, dict) else value
        if change != ({} if isinstance(change, dict) else old):
            found[name] = change
    return found


def _validated(given: Any) -> dict[str, Any]:
    """The fields that were given, and no others."""
    if not isinstance(given, dict):
        raise Refused(400, 'Invalid safety: it must be an object, such as {"read_only": true}')
    _check_names(given, SafetyConfig, "safety")
    try:
        found = SafetyConfig.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("safety", *first["loc"]))
        raise Refused(400, f"Invalid {where}: {first['msg']}") from error
    return found.model_dump(exclude_unset=True)


def _check_names(given: dict[str, Any], model: type[BaseModel], where: str) -> None:
    """A rule whose name was mistyped would be missing without a word."""
    for name, value in given.items():
        field = model.model_fields.get(name)
        if field is None:
            guess = nearest(name, list(model.model_fields))
            advice = f"Did you mean '{guess}'?" if guess else f"Known: {', '.join(model.model_fields)}."
            raise Refused(400, f"Unknown field '{where}.{name[:100]}'. {advice}")
        inner = field.annotation
        if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, BaseModel):
            _check_names(value, inner, f"{where}.{name}")


# --- no looser than they are ------------------------------------------------------------------


def _tightened(asked: dict[str, Any], server: SafetyConfig) -> Iterator[tuple[str, Any]]:
    for name, value in asked.items():
        match name:
            case "denied_paths" | "deny" | "confirm":
                there = getattr(server, name)
                yield name, [*there, *(one for one in value if one not in there)]
                continue
            case "allowed_paths":
                _check_paths(value, server.allowed_paths)
            case "sandbox":
                if _changes(value, server.sandbox.model_dump()):
                    _refuse(
                        name,
                        "it cannot be changed, for none is stricter in all: behind walls fewer questions are asked",
                    )
            case "acp_approval_timeout":
                limit = server.acp_approval_timeout or float("inf")
                if (value or float("inf")) > limit:
                    _refuse(name, f"{limit:g} seconds at most")
            case _ if name in _FLAGS:
                if getattr(server, name) and not value:
                    _refuse(name, "it can only be turned on")
            case _:
                _refuse(name, "it cannot be changed")
        yield name, value


def _refuse(name: str, limit: str) -> Never:
    raise Refused(
        403,
        f"safety.{name}: a request may only make the rules of the server stricter: {limit}. "
        "To allow more, the server must be started with --allow-loosening",
    )


def _check_paths(asked: Sequence[str], allowed: Sequence[str]) -> None:
    """No patterns at all allow everything."""
    if not allowed:
        return
    if not asked:
        _refuse("allowed_paths", "an empty list would allow every path")
    for pattern in asked:
        if not any(_is_within(pattern, one) for one in allowed):
            _refuse("allowed_paths", f"'{pattern[:100]}' is not within {', '.join(allowed)}")


def _is_within(pattern: str, allowed: str) -> bool:
    """Whether whatever fits `pattern` surely fits `allowed`. Where that is not plain to see the answer is no.

    `<cwd>` stays as it is: the session need not be one of the server's own folder.
    """
    if pattern == allowed or allowed in _EVERYTHING:
        return True
    start = allowed.removesuffix("**")
    if not allowed.endswith("/**") or "[" in start or ".." in pattern.split("/"):
        return False
    return pattern.startswith(start) or (_is_relative(pattern) and f"<cwd>/{pattern}".startswith(start))


def _is_relative(pattern: str) -> bool:
    """Whether it starts with a plain name, and so in the session's folder."""
    return (pattern[:1].isalnum() or pattern[:1] in (".", "_")) and pattern[1:2] != ":"
