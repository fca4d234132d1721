"""Names of tools as every model takes them: letters, digits, `_` and `-`, at most 64."""

from __future__ import annotations

import hashlib
import re

__all__ = ["NAME_LIMIT", "prefixed_name", "tool_name"]

NAME_LIMIT = 64
_OTHERS = re.compile(r"[^a-zA-Z0-9_-]")
_TAIL = 8  # characters that keep long names apart


def tool_name(name: str) -> str:
    """The name itself when it is one; else with `_` for what it must not have, and cut with a tail of its own."""
    fitting = _OTHERS.sub("_", name) or "tool"
    if len(fitting) <= NAME_LIMIT:
        return fitting
    tail = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_TAIL]
    return f"{fitting[: NAME_LIMIT - _TAIL - 1]}_{tail}"


def prefixed_name(server: str, name: str) -> str:
    """`<server>__<tool>`."""
    return tool_name(f"{server}__{name}")
