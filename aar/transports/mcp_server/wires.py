"""Standard input and output as the two streams that the MCP package reads and writes."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from aar.errors import ClientGone
from aar.messages.json_values import ENDS, id_at_the_ends
from aar.transports.stdio.lines import MOST_VALUES, LineBuffer, is_crowded
from aar.transports.stdio.outbox import Outbox
from aar.transports.stdio.streams import Outlet, read_some, take_stdio

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

__all__ = ["serve_stdio"]

LAST_WORDS = 1.0  # seconds for answers that are still to be written when the client has closed its input

logger = logging.getLogger(__name__)


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client until its end of input, or until it reads no more. The streams can be cancelled at any time."""
    stdio = take_stdio()
    outlet = Outlet(stdio.write)
    async with _streams(partial(read_some, stdio.read), outlet) as (read, write):
        await server.run(read, write, server.create_initialization_options())


@asynccontextmanager
async def _streams(read_more: Callable[[], Awaitable[bytes]], outlet: Outlet) -> AsyncIterator[tuple[Any, Any]]:
    import anyio
    from mcp.shared.message import SessionMessage

    outbox, is_empty = Outbox(), trio.Event()
    to_server, read = anyio.create_memory_object_stream[Any](0)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def take_in() -> None:
        buffer = LineBuffer()
        async with to_server:
            while data := await read_more():
                buffer.feed(data)
                for line in buffer.lines():
                    if line is not None and await is_crowded(line):
                        answer = _too_much(line)
                    elif (message := _message(line)) is not None:
                        await to_server.send(SessionMessage(message))
                        continue
                    else:
                        answer = _refusal(line)
                    if answer is not None:
                        outbox.put(_frame(answer))

    async def give_out() -> None:
        """Never waits for the client: each answer that waits to be taken here keeps a task of the server's."""
        async with from_server:
            async for message in from_server:
                outbox.put(_frame(message.message))
        is_empty.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.write_all, outlet)
            nursery.start_soon(take_in)
            nursery.start_soon(give_out)
            yield read, write
            with trio.move_on_after(LAST_WORDS):
                write.close()
                await is_empty.wait()
                await outbox.written()
            nursery.cancel_scope.cancel()
    except* ClientGone:
        pass
    finally:
        for one in (read, write, outlet):
            one.close()


def _frame(message: Any) -> bytes:
    return bytes(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")


def _message(line: bytes | None) -> Any:
    """The message of a line; `None` for what is none."""
    from mcp_types import jsonrpc_message_adapter

    for text in (line, _without_halves(line)):
        with suppress(ValueError):
            return jsonrpc_message_adapter.validate_json(text or b"", by_name=False)
    logger.warning("a line of the client is no message: %.200r", line)
    return None


def _without_halves(line: bytes | None) -> bytes:
    """The same with U+FFFD instead of halves of surrogate pairs, which some clients send and the package refuses."""
    try:
        text = json.dumps(json.loads(line or b""), ensure_ascii=False)
    except (ValueError, RecursionError):
        return b""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _refusal(line: bytes | None) -> Any:
    """What is said to a request that makes no sense, if it can be said which one: otherwise its sender would wait."""
    try:
        found = json.loads(line or b"")
    except (ValueError, RecursionError):
        return None
    request_id = found.get("id") if isinstance(found, dict) and "method" in found else None
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        return None
    return _refused(request_id, "This is no request of JSON-RPC 2.0.")


def _too_much(line: bytes) -> Any:
    logger.warning("a line of the client has more than %s values", f"{MOST_VALUES:,}")
    request_id = id_at_the_ends(line[:ENDS], line[-ENDS:])
    return None if request_id is None else _refused(request_id, f"A message may have {MOST_VALUES:,} values at most.")


def _refused(request_id: int | str, why: str) -> Any:
    from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=INVALID_REQUEST, message=why))
