"""Who is told of the engine's events: all of them, in order, each awaited before the next."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aar.engine.events import EngineEvent

__all__ = ["FAILURES_ALLOWED", "Subscriber", "Subscribers"]

FAILURES_ALLOWED = 3  # exceptions of one subscriber; with the last it is told nothing more

Subscriber = Callable[[EngineEvent], Any]

logger = logging.getLogger(__name__)


class Subscribers:
    """`removed` are sentences about those that had to go, for whoever takes them out."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self._all: dict[object, Subscriber] = {}
        self._failures: dict[object, int] = {}

    def add(self, subscriber: Subscriber) -> Callable[[], None]:
        """Gives a function that removes it again. Raises `TypeError` for what is no function."""
        if not callable(subscriber):
            raise TypeError(f"a subscriber must be a function, not {subscriber!r}")
        key = object()
        self._all[key] = subscriber
        return lambda: self._forget(key)

    def _forget(self, key: object) -> None:
        self._all.pop(key, None)
        self._failures.pop(key, None)

    def due(self, event: EngineEvent) -> list[Callable[[], Awaitable[None]]]:
        """One call for each, to be made in order. One that raises costs the others nothing."""
        return [partial(self._tell, key, event) for key in self._all]

    async def _tell(self, key: object, event: EngineEvent) -> None:
        subscriber = self._all.get(key)
        if subscriber is None:  # removed meanwhile
            return
        try:
            result = subscriber(event)
            if inspect.isawaitable(result):
                await result
        except Exception as error:  # a wall: the application's own code
            self._failed(key, subscriber, error)

    def _failed(self, key: object, subscriber: Subscriber, error: Exception) -> None:
        logger.error("a subscriber of the engine failed", exc_info=error)
        count = self._failures[key] = self._failures.get(key, 0) + 1
        if count >= FAILURES_ALLOWED:
            self._forget(key)
            name = getattr(subscriber, "__qualname__", type(subscriber).__name__)
            self.removed.append(f"The subscriber {name} failed {count} times and is told nothing more: {error!r}")
