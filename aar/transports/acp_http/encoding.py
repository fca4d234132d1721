"""JSON that may be long, made in pieces: others get their turn in between."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from types import TracebackType
from typing import Any

import trio
from quart.wrappers.response import ResponseBody

__all__ = ["Pieces", "encoded", "encoded_events"]

PIECE = 64 * 1024  # characters, about
MOST_PARTS = 1000  # of which a piece is made

_ENCODER = json.JSONEncoder()


async def encoded(data: dict[str, Any]) -> list[bytes]:
    return await _joined(_ENCODER.iterencode(data))


async def encoded_events(events: list[dict[str, Any]]) -> list[bytes]:
    """`{"events": [...]}` with those there are now."""
    parts = (chain([", "] if place else [], _parts(event)) for place, event in enumerate(events[:]))
    return await _joined(chain(['{"events": ['], chain.from_iterable(parts), ["]}"]))


def _parts(event: dict[str, Any]) -> Iterator[str]:
    """Only an event with a whole run is long; for all others one step is much faster."""
    return _ENCODER.iterencode(event) if "run" in event else iter((_ENCODER.encode(event),))


async def _joined(parts: Iterable[str]) -> list[bytes]:
    pieces: list[bytes] = []
    some: list[str] = []
    size = 0
    for part in parts:
        some.append(part)
        size += len(part)
        if size >= PIECE or len(some) >= MOST_PARTS:
            pieces.append("".join(some).encode())
            some, size = [], 0
            await trio.lowlevel.checkpoint()
    return [*pieces, "".join(some).encode()]


class Pieces(ResponseBody):
    """A body that is sent piece by piece."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.size = sum(map(len, pieces))
        self._left = iter(pieces)

    async def __aenter__(self) -> Pieces:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing is open."""

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._left:
            return piece
        raise StopAsyncIteration
