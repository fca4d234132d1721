"""Which tools a model gets: filters one after another, each of which only takes away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from aar.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from aar.messages.settings import ToolConfig

__all__ = ["filtered", "left_out"]

_MAGIC = frozenset("*?[")


def filtered(tools: ToolRegistry, config: ToolConfig) -> ToolRegistry:
    """Those of `tools` that all filters let through."""
    return ToolRegistry([spec for spec in tools.list_tools() if left_out(spec.name, config) is None])


def left_out(name: str, config: ToolConfig) -> str | None:
    """Why a model does not get this tool, or `None` when it does."""
    for layer, patterns in config.filters.items():
        if reason := _refusal(name, patterns):
            return f"{layer}: {reason}"
    if name in config.opt_in and not _is_named(name, config.filters):
        return "opt_in: no filter names it in full"
    return None


def _refusal(name: str, patterns: Sequence[str]) -> str | None:
    wanted = [one for one in patterns if not one.startswith("!")]
    unwanted = next((one for one in patterns if one.startswith("!") and fnmatchcase(name, one[1:])), None)
    if unwanted is not None:
        return f"left out by {unwanted[1:]}"
    if wanted and not any(fnmatchcase(name, one) for one in wanted):
        return f"not among {', '.join(wanted)}"
    return None


def _is_named(name: str, filters: Mapping[str, Sequence[str]]) -> bool:
    return any(one == name and not _MAGIC & set(one) for patterns in filters.values() for one in patterns)
