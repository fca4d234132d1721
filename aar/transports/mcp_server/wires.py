"""Standard input and output as the two streams that the MCP package reads and writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from aar.errors import ClientGone
from aar.transports.stdio.lines import LineBuffer
from aar.transports.stdio.streams import Outlet, read_some, take_stdio

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

__all__ = ["serve_stdio"]


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client until its end of input, or until it reads no more. The streams can be cancelled at any time."""
    stdio = take_stdio()
    outlet = Outlet(stdio.write)
    async with _streams(partial(read_some, stdio.read), outlet) as (read, write):
        await server.run(read, write, server.create_initialization_options())


@asynccontextmanager
async def _streams(read_more: Any, outlet: Outlet) -> AsyncIterator[tuple[Any, Any]]:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    to_server, read = anyio.create_memory_object_stream[Any](0)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def take_in() -> None:
        buffer = LineBuffer()
        async with to_server:
            while data := await read_more():
                buffer.feed(data)
                for line in buffer.lines():
                    await to_server.send(_message(line))

    def _message(line: bytes | None) -> Any:
        if line is None:
            return ValueError("a line is too long")
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:
            return error  # the package answers it

    async def give_out() -> None:
        async with from_server:
            async for message in from_server:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await outlet.write(text.encode() + b"\n")

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_in)
            nursery.start_soon(give_out)
            yield read, write
            nursery.cancel_scope.cancel()
    except* ClientGone:
        pass
    finally:
        outlet.close()
