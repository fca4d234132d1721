"""An extension's private events: from one part of it to another, and never to anybody else."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from aar.extensions.calling import call_within
from aar.kernel.others import to_pass_on

__all__ = ["EventBus", "Listener"]

LISTENER_TIMEOUT = 10.0  # seconds
MOST_SCHEDULED = 256  # calls that may wait

Listener = Callable[[Any], Any]
L = TypeVar("L", bound=Listener)


class EventBus:
    """Made by Aar, one for each extension. `on` may be used at any time."""

    def __init__(self, name: str, logger: logging.Logger, limiter: trio.CapacityLimiter) -> None:
        self._name = name
        self._logger = logger
        self._limiter = limiter
        self._listeners: dict[str, list[Listener]] = {}
        self._token = trio.lowlevel.current_trio_token()
        self._send, self._scheduled = trio.open_memory_channel[tuple[str, Listener, Any]](MOST_SCHEDULED)

    @property
    def names(self) -> frozenset[str]:
        """Events that somebody listens to."""
        return frozenset(self._listeners)

    def on(self, name: str) -> Callable[[L], L]:
        """Decorator: call this function, sync or async, with the payload of each such event."""

        def add(listener: L) -> L:
            self._listeners.setdefault(name, []).append(listener)
            return listener

        return add

    def emit(self, name: str, payload: Any = None) -> None:
        """Call the synchronous listeners now; asynchronous ones are called soon. For any thread; never waits.

        What a listener raises is logged.
        """
        for listener in list(self._listeners.get(name, ())):
            if inspect.iscoroutinefunction(listener):
                self._schedule(name, listener, payload)
                continue
            try:
                listener(payload)
            except BaseException as error:  # a wall: the one who emits is not to blame
                if to_pass_on(error) is not None:
                    raise
                self._logger.error("a listener to %r failed", name, exc_info=error)

    async def emit_async(self, name: str, payload: Any = None) -> None:
        """Call all listeners, one after the other, and wait for them. What one raises is logged."""
        for listener in list(self._listeners.get(name, ())):
            await self._call(name, listener, payload)

    async def _call(self, name: str, listener: Listener, payload: Any) -> None:
        try:
            await call_within(LISTENER_TIMEOUT, f"a listener to {name!r}", listener, payload, limiter=self._limiter)
        except Exception as error:  # a wall, as above
            self._logger.error("%s", error, exc_info=error)

    def _schedule(self, name: str, listener: Listener, payload: Any) -> None:
        if trio.lowlevel.in_trio_task():
            self._put(name, listener, payload)
            return
        try:
            self._token.run_sync_soon(self._put, name, listener, payload)
        except trio.RunFinishedError:
            self._logger.info("%r was emitted when all was over", name)

    def _put(self, name: str, listener: Listener, payload: Any) -> None:
        try:
            self._send.send_nowait((name, listener, payload))
        except trio.WouldBlock:
            self._logger.warning("%d events wait already: %r was dropped", MOST_SCHEDULED, name)

    async def run(self) -> None:
        """Make the scheduled calls until cancelled: the body of a service."""
        async for name, listener, payload in self._scheduled:
            await self._call(name, listener, payload)
