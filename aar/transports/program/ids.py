"""Ids of sessions that are not written out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aar.errors import SessionNotFound

__all__ = ["Pages", "whole_id"]

LEAST = 4  # characters of an id that stand for the whole one, when no other begins with them

Pages = Callable[[str], Awaitable[tuple[Any, str]]]
"""A page of entries after a cursor, and the cursor of the next one; both may be empty."""


async def whole_id(begun: str, pages: Pages) -> str:
    """The only stored id that begins so. Raises `SessionNotFound` when there is none, or more than one."""
    found: list[str] = []
    cursor, is_first = "", True
    while len(begun) >= LEAST and (is_first or cursor):
        entries, cursor = await pages(cursor)
        found += [entry.session_id for entry in entries if entry.session_id.startswith(begun)]
        is_first = False
    if len(found) > 1:
        raise SessionNotFound(f"{len(found)} sessions begin with {begun}: give more of the id. {', '.join(found[:5])}")
    if not found:
        raise SessionNotFound(f"Session {begun} not found. `aar sessions` lists those that are stored.")
    return found[0]
