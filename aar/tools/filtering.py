"""Which tools a model gets: filters one after another, each of which only takes away."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from aar.messages.loading import LOAD_TOOL, waits
from aar.tools.registry import ToolRegistry, ToolSpec

if TYPE_CHECKING:
    from aar.messages.settings import ToolConfig

__all__ = ["Filtered", "filtered", "left_out", "split"]

_MAGIC = frozenset("*?[")


class Filtered(NamedTuple):
    """`offered` is what the model gets, `deferred` what it may load."""

    offered: ToolRegistry
    deferred: tuple[str, ...] = ()


def filtered(tools: ToolRegistry, config: ToolConfig, absent: Collection[str] = ()) -> ToolRegistry:
    """Those of `tools` that all filters let through and that are not `absent`, as their definitions want them."""
    kept = [spec for spec in tools.list_tools() if spec.name not in absent and left_out(spec.name, config) is None]
    return ToolRegistry([_redefined(spec, config.definitions.get(spec.name, {})) for spec in kept])


def split(tools: ToolRegistry, config: ToolConfig, absent: Collection[str], loaded: Collection[str]) -> Filtered:
    """What `filtered` leaves, without those that wait to be loaded. Nothing waits where nothing could load it."""
    kept = filtered(tools, config, absent)
    if not config.deferred or LOAD_TOOL not in kept:
        return Filtered(kept)
    waiting = tuple(sorted(name for name in kept.names() if waits(name, config.deferred, loaded)))
    return Filtered(ToolRegistry([spec for spec in kept.list_tools() if spec.name not in waiting]), waiting)


def _redefined(spec: ToolSpec, definition: Mapping[str, Any]) -> ToolSpec:
    """Other words for the model, and whether it runs beside others; what it may do stays what it is."""
    changes: dict[str, Any] = {}
    words = [str(definition.get("description", spec.description)), str(definition.get("usage", ""))]
    words += [f"Example: {example}" for example in definition.get("examples", ())]
    text = "\n".join(part for part in words if part)
    if text != spec.description:
        changes["description"] = text
    if "parallel" in definition:
        changes["execution"] = "parallel" if definition["parallel"] else "sequential"
    return replace(spec, **changes) if changes else spec


def left_out(name: str, config: ToolConfig) -> str | None:
    """Why a model does not get this tool, or `None` when it does."""
    for layer, patterns in config.filters.items():
        if reason := _refusal(name, patterns):
            return f"{layer}: {reason}"
    if config.definitions.get(name, {}).get("disabled"):
        return "definitions: disabled"
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
