"""An application on ports of this machine, from the first connection to the last."""

from __future__ import annotations

import importlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from aar.errors import TransportError
from aar.transports.http.listening import cut_connections, raise_file_limit
from aar.transports.http.traffic import Traffic

__all__ = ["load_server", "serving"]

ANSWERING = 2.0  # seconds for the last answers, once nothing is going on any more
CUTTING = 1.0  # seconds more, and then connections are cut whose other end does not read


async def load_server(*modules: str) -> None:
    """Import the server and these modules in a thread, since that takes a while and a signal should not wait for it.

    Raises `TransportError` when a package is missing.
    """

    def load() -> None:
        for name in ("hypercorn.trio", *modules):
            importlib.import_module(name)

    try:
        await trio.to_thread.run_sync(load, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
    except ImportError as error:
        raise TransportError("Serving HTTP needs packages that are not there: pip install 'aar-agent[web]'") from error


@asynccontextmanager
async def serving(
    app: Any, sockets: list[socket.socket], before_end: Callable[[], Awaitable[None]]
) -> AsyncIterator[list[str]]:
    """The addresses. When the block is left `before_end` is called, clients get their last answers, and it is over."""
    raise_file_limit()
    traffic = Traffic(app)
    port, stop, over = sockets[0].getsockname()[1], trio.Event(), trio.Event()

    async def serve(*, task_status: trio.TaskStatus[list[str]]) -> None:
        from hypercorn.trio import serve

        try:
            async with trio.open_nursery() as beside:
                beside.start_soon(traffic.close_idle_connections, port)
                await serve(traffic, _server_settings(sockets), shutdown_trigger=stop.wait, task_status=task_status)
                beside.cancel_scope.cancel()
        finally:
            over.set()

    async with trio.open_nursery() as nursery:
        addresses = await nursery.start(serve)
        try:
            yield addresses
        finally:
            with trio.CancelScope(shield=True):
                await before_end()
                stop.set()
                traffic.end_waiting()
                with trio.move_on_after(ANSWERING + CUTTING):
                    await over.wait()
                cut_connections(port)


def _server_settings(sockets: list[socket.socket]) -> Any:
    from hypercorn.config import Config

    settings = Config()
    settings.bind = [f"fd://{one.detach()}" for one in sockets]
    settings.errorlog = logging.getLogger("hypercorn.error")
    settings.graceful_timeout = ANSWERING
    settings.include_server_header = False
    return settings
