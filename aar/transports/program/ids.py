"""Sessions that are named by the beginning of their id, or by the name that somebody gave them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aar.errors import SessionNotFound

__all__ = ["Pages", "is_known", "whole_id"]

LEAST = 4  # characters of an id that stand for the whole one, when no other begins with them

Pages = Callable[[str], Awaitable[tuple[Any, str]]]
"""A page of entries after a cursor, and the cursor of the next one; both may be empty."""


async def whole_id(begun: str, pages: Pages) -> str:
    """The only stored id that begins so, or the only one of that name.

    Raises `SessionNotFound` when there is none, or more than one, and then names them.
    """
    found, named = await _meant(begun, pages)
    if len(found) > 1:
        raise SessionNotFound(f"{len(found)} sessions begin with {begun}: give more of the id. {', '.join(found[:5])}")
    if not found and len(named) > 1:
        raise SessionNotFound(f"{len(named)} sessions are named {begun}: give the id. {', '.join(named[:5])}")
    if not (found or named):
        raise SessionNotFound(f"Session {begun} not found. `aar sessions` lists those that are stored.")
    return (found or named)[0]


async def is_known(begun: str, pages: Pages) -> bool:
    """Whether there is any session that may be meant."""
    return any(await _meant(begun, pages))


async def _meant(begun: str, pages: Pages) -> tuple[list[str], list[str]]:
    """Ids that begin so, and ids of sessions of that name."""
    found: list[str] = []
    named: list[str] = []
    cursor, is_first = "", True
    while is_first or cursor:
        entries, cursor = await pages(cursor)
        if len(begun) >= LEAST:
            found += [entry.session_id for entry in entries if entry.session_id.startswith(begun)]
        named += [entry.session_id for entry in entries if entry.name == begun]
        is_first = False
    return found, named
