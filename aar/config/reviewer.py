"""A second model that looks at what the first one wants to do, as the settings describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Literal

from aar.config.unknown import nearest
from aar.errors import InvalidSetting

__all__ = ["Mode", "Reviewer", "parse_reviewer"]

Mode = Literal["off", "log", "block"]

_CHOICES = {
    "tool_calls": ("off", "log", "block"),
    "user_messages": ("off", "log", "block"),
    "on_error": ("block", "allow"),
}
LONGEST_TIMEOUT = 600.0


@dataclass(frozen=True, kw_only=True)
class Reviewer:
    """`provider` is a key of `providers`. `tools` are patterns of the tools whose calls are looked at.

    `on_error` says what holds when there is no verdict within `timeout` seconds, or none at all. `prompt` stands for
    what the reviewer is told to look for.
    """

    provider: str
    tool_calls: Mode = "block"
    user_messages: Mode = "off"
    on_error: Literal["block", "allow"] = "block"
    timeout: float = 120.0
    tools: tuple[str, ...] = ("*",)
    prompt: str = ""

    def looks_at(self, tool: str) -> bool:
        return self.tool_calls != "off" and any(fnmatchcase(tool, pattern) for pattern in self.tools)


def parse_reviewer(said: Mapping[str, Any], providers: Mapping[str, Any]) -> Reviewer | None:
    """The reviewer of the setting `reviewer`; `None` when it is empty. Raises `InvalidSetting`."""
    if not said:
        return None
    known = [field.name for field in fields(Reviewer)]
    for key, value in said.items():
        if key not in known:
            found = nearest(key, known)
            raise _wrong(
                key, f"there is no such setting. Did you mean {found!r}?" if found else "there is no such setting"
            )
        if key in _CHOICES and value not in _CHOICES[key]:
            raise _wrong(key, f"must be one of {', '.join(_CHOICES[key])}, not {value!r}")
    if said.get("provider") not in providers:
        raise _wrong("provider", f"must be a key of `providers`; there are: {', '.join(sorted(providers)) or 'none'}")
    timeout, tools = said.get("timeout", 120.0), said.get("tools", ["*"])
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= LONGEST_TIMEOUT:
        raise _wrong("timeout", f"must be a number of seconds, {LONGEST_TIMEOUT:g} at most, not {timeout!r}")
    if not isinstance(tools, list) or not all(isinstance(one, str) for one in tools):
        raise _wrong("tools", "must be a list of patterns")
    if not isinstance(said.get("prompt", ""), str):
        raise _wrong("prompt", "must be a text")
    return Reviewer(**{**said, "tools": tuple(tools)})


def _wrong(key: str, why: str) -> InvalidSetting:
    return InvalidSetting(f"reviewer.{key}: {why}")
