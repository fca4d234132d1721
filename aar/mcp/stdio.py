"""A server as a child process: JSON lines over its standard streams, as a transport for the package `mcp`.

The package would start the process itself, past the process groups and keepers that see to it that nothing is left.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import trio

from aar.mcp.bounds import MESSAGE_LIMIT, Oversize, excess
from aar.mcp.pace import Pace
from aar.mcp.repair import repaired
from aar.messages.mcp import McpServer
from aar.processes.group import Process, open_process

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

__all__ = ["StdioLink"]

ENDLESS = 8  # times the longest message: a line that is longer has no end
LARGE = 256 * 1024  # bytes of a message that a thread looks at first, so that the others need not wait
OUTBOX = 64  # messages that wait until the server reads
SWAMPED = 256  # more that wait for room among those: the server asks, and does not read the answers
OTHERS_TURN = 100  # lines, after which everybody else comes first
EOF_GRACE = 1.0  # seconds between the end of its input and SIGTERM
TERM_GRACE = 0.5  # seconds between SIGTERM and SIGKILL
EXIT_SECONDS = 1.0  # between the end of a server's output and its own
LATE_SECONDS = 0.2  # for what stands in the pipe of a server that has ended
LOGGED_LINES = 1000  # of standard error and of what is no message, per process
LOGGED_LENGTH = 500
NOISE_EVERY = 0.003  # seconds between two pieces of 64 KiB of what is not logged any more
LAST_WORDS = 2000  # characters of standard error that a reason may repeat

logger = logging.getLogger(__name__)


class StdioLink:
    """One process and the pipes to it. `ended` is set as soon as nothing more can come of it; `why` says why."""

    def __init__(self, server: McpServer, *, cwd: str, env: Mapping[str, str], line_limit: int = MESSAGE_LIMIT) -> None:
        self._argv = [os.path.expanduser(server.command), *server.args]
        self._cwd = cwd
        self._env = env
        self._line_limit = line_limit
        self._words = _LastWords(server.name)
        self._thread = trio.CapacityLimiter(1)  # its messages are read one after the other
        self._is_left = False
        self.ended = trio.Event()
        self.why = ""

    @property
    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return self._words.text

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        """The process for the length of the block, as the two streams that a `Client` wants.

        Afterwards it gets the end of its input, then SIGTERM, then SIGKILL, with all that it forked. Raises `OSError`
        when it cannot be started, and `ValueError` for a NUL in its command.
        """
        from anyio import create_memory_object_stream

        outgoing = _Outgoing()
        pumping = trio.CancelScope(shield=True)  # the pipes are emptied until the very end, or it could not say goodbye
        async with open_process(
            self._argv, cwd=self._cwd, env=self._env, stdin="pipe", term_grace=TERM_GRACE
        ) as process:
            incoming, read_stream = create_memory_object_stream["SessionMessage | Exception"](0)
            with incoming, read_stream:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, process, incoming, outgoing, pumping)
                    try:
                        yield read_stream, outgoing
                    finally:
                        self._is_left = True
                        with trio.CancelScope(shield=True):
                            await _end_politely(process)
                        pumping.cancel()

    def _end(self, why: str, incoming: MemoryObjectSendStream[Any]) -> None:
        if not self.ended.is_set():
            self.why = "" if self._is_left else why  # what it does now it does because we have left
            self.ended.set()
        incoming.close()  # whoever waits for an answer hears of it now

    async def _pump(
        self, process: Process, incoming: MemoryObjectSendStream[Any], outgoing: _Outgoing, scope: trio.CancelScope
    ) -> None:
        assert process.stderr is not None
        with scope:
            async with trio.open_nursery() as pumps:
                pumps.start_soon(self._words.read, process.stderr)
                pumps.start_soon(self._write, process, outgoing)
                reading = trio.CancelScope()
                pumps.start_soon(self._read, process, incoming, outgoing, reading)
                status = await process.wait()
                reading.deadline = trio.current_time() + LATE_SECONDS  # what it forked may hold the pipe for ever
                with trio.move_on_after(LATE_SECONDS):
                    await self.ended.wait()
                self._end(f"it ended with status {status}", incoming)
        self._end("it was stopped", incoming)

    # --- what it says ---

    async def _read(
        self, process: Process, incoming: MemoryObjectSendStream[Any], outgoing: _Outgoing, scope: trio.CancelScope
    ) -> None:
        lines, pace = _Lines(self._line_limit), Pace()
        with scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for piece in process.stdout:
                if self.ended.is_set():
                    continue  # a goodbye that nobody wants any more, but the pipe must not fill
                await pace.keep(piece.count(b"\n"))
                for number, line in enumerate(lines.add(bytes(piece)), 1):
                    await self._take(line, incoming, outgoing)
                    if not number % OTHERS_TURN:
                        await trio.lowlevel.checkpoint()
                if lines.is_over:
                    self._end(f"it sent a message of more than {ENDLESS * self._line_limit:,} bytes", incoming)
        with trio.move_on_after(EXIT_SECONDS):  # the end of its output is nearly always that of the process
            await process.wait()
        status = process.returncode
        self._end("it closed its output" if status is None else f"it ended with status {status}", incoming)

    async def _take(self, line: bytes | Oversize, incoming: MemoryObjectSendStream[Any], outgoing: _Outgoing) -> None:
        if not line:
            return
        message = await self._message(line)
        if message is None:
            start = line[:LOGGED_LENGTH].decode(errors="replace") if isinstance(line, bytes) else "(it is too long)"
            self._words.log("wrote to its output what is no message", start)
            return
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, *_closed_errors()):
            await incoming.send(message)
        if outgoing.waiting > SWAMPED:
            self._end("it does not read what it is told", incoming)

    async def _message(self, line: bytes | Oversize) -> SessionMessage | None:
        if isinstance(line, Oversize):
            return _failed(line.id, f"it sent a message of more than {self._line_limit:,} bytes")
        if len(line) < LARGE:
            return _parsed(line)
        return await trio.to_thread.run_sync(
            _parsed_if_small, line, self._line_limit, abandon_on_cancel=True, limiter=self._thread
        )

    # --- what it is told ---

    async def _write(self, process: Process, outgoing: _Outgoing) -> None:
        assert process.stdin is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # it is going: the reader says why
            async for data in outgoing:
                await process.stdin.send_all(data)


def _closed_errors() -> tuple[type[Exception], ...]:
    from anyio import BrokenResourceError, ClosedResourceError

    return BrokenResourceError, ClosedResourceError


async def _end_politely(process: Process) -> None:
    """The end of its input, and a moment to leave by itself."""
    assert process.stdin is not None
    await process.stdin.aclose()
    with trio.move_on_after(EOF_GRACE):
        await process.wait()


def _parsed_if_small(line: bytes, limit: int) -> SessionMessage | None:
    problem = excess(line, limit)
    return _failed(_id_at_the_ends(line), f"it sent a message {problem}") if problem else _parsed(line)


def _parsed(line: bytes) -> SessionMessage | None:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        return _broken_answer(line)


def _broken_answer(line: bytes) -> SessionMessage | None:
    """An answer that is no proper one is mended, or fails its request, which would wait for ever otherwise."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        found = json.loads(line)
    except RecursionError:
        return _failed(_id_at_the_ends(line), "it sent a message that is nested too deeply")
    except ValueError:
        return None
    if not isinstance(found, dict) or "method" in found or not isinstance(found.get("id"), int | str):
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(repaired(found), by_name=False))
    except ValueError:
        return _failed(found["id"], "the server's answer is no proper JSON-RPC")


def _id_at_the_ends(line: bytes) -> int | str | None:
    ends = Oversize()
    ends.add(line)
    return ends.id


def _failed(request: int | str | None, why: str) -> SessionMessage | None:
    from mcp.shared.message import SessionMessage
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

    if request is None:
        return None
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=PARSE_ERROR, message=why)))


class _Lines:
    """Bytes to lines. Of one with more than `limit` bytes only its ends are kept; `is_over` when it has no end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun: list[bytes] = []
        self._size = 0
        self._over: Oversize | None = None
        self.is_over = False

    def add(self, piece: bytes) -> Iterator[bytes | Oversize]:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            self._keep(line)
            yield self._over or b"".join(self._begun).strip()
            self._begun, self._size, self._over = [], 0, None
        if rest:
            self._keep(rest)
        self.is_over = self._over is not None and self._over.size > ENDLESS * self._limit

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        self._begun.append(part)
        if self._over is None and self._size > self._limit:
            self._over = Oversize()
        if self._over is not None:
            for one in self._begun:
                self._over.add(one)
            self._begun = []


class _Outgoing:
    """The stream that a `Client` writes to. Waits while `OUTBOX` messages are unread.

    A notification does not wait: whoever cancels a call of a server that reads nothing must not wait for it, too.
    """

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[bytes](OUTBOX)

    async def send(self, item: SessionMessage, /) -> None:
        from anyio import BrokenResourceError

        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            if hasattr(item.message, "id"):
                await self._send.send(data)
            else:
                self._send.send_nowait(data)
        except trio.WouldBlock:
            await trio.lowlevel.checkpoint()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise BrokenResourceError from error

    @property
    def waiting(self) -> int:
        """Messages beyond those that have room."""
        return self._send.statistics().tasks_waiting_send

    async def aclose(self) -> None:
        self._send.close()
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> _Outgoing:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._receive.__aiter__()


class _LastWords:
    """Standard error: read so that the server does not block, logged up to a bound, its end kept."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept: deque[str] = deque()
        self._size = 0
        self._logged = 0

    @property
    def text(self) -> str:
        return "".join(self._kept)[-LAST_WORDS:].strip()

    async def read(self, stream: trio.lowlevel.FdStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for piece in stream:
                self._keep(bytes(piece).decode(errors="replace"))
                if self._logged > LOGGED_LINES:
                    await trio.sleep(NOISE_EVERY)

    def _keep(self, text: str) -> None:
        for line in text.splitlines() if self._logged <= LOGGED_LINES else ():
            self.log("says", line)
        self._kept.append(text[-LAST_WORDS:])
        self._size += len(self._kept[-1])
        while self._size - len(self._kept[0]) >= LAST_WORDS:
            self._size -= len(self._kept.popleft())

    def log(self, what: str, line: str) -> None:
        self._logged += 1
        if self._logged <= LOGGED_LINES:
            logger.info("MCP server %s %s: %s", self._name, what, line[:LOGGED_LENGTH])
        elif self._logged == LOGGED_LINES + 1:
            logger.info("MCP server %s says more, which is not logged", self._name)
