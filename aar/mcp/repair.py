"""JSON that the package cannot read, although it is plain what was meant: half characters, and depths nobody needs."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["repaired", "whole_characters"]

DEPTH = 100  # levels; the package reads about 200
CUT = "... (nested too deeply)"
MOST_HALVES = 10_000  # of one message; what has more stays as it is, and is refused

_PASSED = rb"""(?:[^\\]++|\\[^u]|\\u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?![dD][89a-fA-F])))*+"""
_HALF = re.compile(rb"(" + _PASSED + rb")(\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\u?|\Z)", re.DOTALL)


def whole_characters(data: bytes) -> bytes:
    """JSON with U+FFFD for each escaped half of a surrogate pair: some programs cut a text in the middle of an emoji.

    `data` begins and ends outside of any escape.
    """
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _HALF.sub(_whole, data, count=MOST_HALVES)


def _whole(found: re.Match[bytes]) -> bytes:
    return found[1] + (b"\\ufffd" if len(found[2]) == 6 else found[2])


def repaired(found: Any) -> bytes:
    """This data as JSON that can be read: nothing below `DEPTH` levels, no half characters."""
    return json.dumps(_shallow(found, DEPTH), ensure_ascii=False).encode(errors="replace")


def _shallow(found: Any, depth: int) -> Any:
    if isinstance(found, dict):
        return {name: _shallow(one, depth - 1) for name, one in found.items()} if depth else CUT
    if isinstance(found, list):
        return [_shallow(one, depth - 1) for one in found] if depth else CUT
    return found
