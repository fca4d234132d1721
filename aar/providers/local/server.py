"""The child process: started while somebody serves it, and again when it is needed after it died."""

from __future__ import annotations

import json
import logging
import math
import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import trio

from aar.errors import ProviderError, ProviderUnavailable
from aar.processes.environment import child_environment
from aar.processes.group import Process, open_process

__all__ = ["ModelServer", "Running"]

_log = logging.getLogger(__name__)

SERVE_TIMEOUT = 5.0  # seconds until somebody runs `serve`
LAST_WORDS_TIMEOUT = 0.2  # seconds for what a dead server has left in its pipe
LAST_WORDS = 2_000  # bytes of its log that an error may need
LINE_LIMIT = 65_536  # bytes


@dataclass(frozen=True, slots=True)
class Running:
    """Where the server listens and the key that it wants. Both change when it is started again."""

    address: str
    api_key: str = field(repr=False)
    own_template: bool


@dataclass(frozen=True, slots=True)
class _Down:
    why: str


class ModelServer:
    """`program` reads `order` with an `api_key` as a line of JSON, loads the model and tells its address.

    It may take `start_timeout` seconds for that; `None` sets no limit.
    """

    def __init__(self, program: Sequence[str], order: Mapping[str, Any], *, start_timeout: float | None) -> None:
        self._program = program
        self._order = order
        self._start_timeout = start_timeout
        self._state: Running | _Down | None = None  # None while it starts
        self._changed = trio.Event()
        self._wanted = trio.Event()
        self._served = trio.Event()

    async def serve(self) -> None:
        """Run the server until cancelled; no process is left then.

        One that cannot start or dies is noted, and started again when the next answer is wanted.
        """
        self._served.set()
        try:
            while True:
                self._note(None)
                why = await self._run()
                _log.warning("%s", why)
                self._wanted = trio.Event()
                self._note(_Down(why))
                await self._wanted.wait()
        finally:
            self._served = trio.Event()
            self._note(_Down("The local model server was stopped."))

    async def want(self) -> None:
        """Start it again if it is down. Raises `ProviderError` when nobody runs `serve`, now or in a moment."""
        with trio.move_on_after(SERVE_TIMEOUT):
            await self._served.wait()
        if not self._served.is_set():
            raise ProviderError(
                "Nobody runs the local model server: use the provider through Aar's runtime, or run its `serve()`",
                provider="local",
            )
        if isinstance(self._state, _Down):
            self._state = None
            self._wanted.set()

    async def ready(self) -> Running:
        """Wait until the model is loaded. Raises `ProviderUnavailable` with the reason when it cannot be."""
        while self._state is None:
            await self._changed.wait()
        if isinstance(self._state, _Down):
            raise ProviderUnavailable(self._state.why, provider="local", retryable=False)
        return self._state

    def _note(self, state: Running | _Down | None) -> None:
        self._state = state
        self._changed.set()
        self._changed = trio.Event()

    # --- one process --------------------------------------------------------------------------

    async def _run(self) -> str:
        """One process from start to end, and why it ended."""
        try:
            async with open_process(self._program, cwd="/", env=child_environment(), stdin="pipe") as process:
                return await self._follow(process)
        except OSError as error:
            return f"The local model server could not be started: {error}."

    async def _follow(self, process: Process) -> str:
        log = _Tail()
        async with trio.open_nursery() as readers:
            assert process.stderr is not None
            readers.start_soon(log.read, process.stderr)
            why = await self._start(process)
            if not why:
                readers.start_soon(_Tail().read, process.stdout)
                why = f"The local model server ended with status {await process.wait()}."
            readers.cancel_scope.deadline = trio.current_time() + LAST_WORDS_TIMEOUT
        return f"{why} Its last words:\n{log.text}" if log.text else why

    async def _start(self, process: Process) -> str:
        """Give the order and note the address; the reason if that fails."""
        order = {**self._order, "api_key": secrets.token_urlsafe(32)}
        seconds = self._start_timeout
        with trio.move_on_after(math.inf if seconds is None else seconds) as limit:
            assert process.stdin is not None
            with suppress(trio.BrokenResourceError):  # it is dead already: its status says more
                await process.stdin.send_all(json.dumps(order).encode() + b"\n")
            line = await _first_line(process)
            if not line:
                return f"The local model server ended with status {await process.wait()} before it was ready."
        if limit.cancelled_caught:
            return f"The local model server was not ready after {seconds:g} s (provider.extra.start_timeout)."
        return self._take(line, order["api_key"])

    def _take(self, line: bytes, api_key: str) -> str:
        try:
            answer = json.loads(line)
            if "error" in answer:
                return f"The model {self._order['model']} could not be loaded: {answer['error']}."
            self._note(Running(str(answer["address"]), api_key, bool(answer["own_template"])))
        except (ValueError, KeyError, TypeError):
            return f"The local model server said something unexpected: {line[:200].decode(errors='replace')}."
        return ""


class _Tail:
    """The last bytes of a stream that must be read so that its writer does not block."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0

    async def read(self, stream: trio.lowlevel.FdStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for piece in stream:
                self._pieces.append(bytes(piece[-LAST_WORDS:]))
                self._size += len(self._pieces[-1])
                while self._size - len(self._pieces[0]) >= LAST_WORDS:
                    self._size -= len(self._pieces.popleft())

    @property
    def text(self) -> str:
        return b"".join(self._pieces)[-LAST_WORDS:].decode(errors="replace").strip()


async def _first_line(process: Process) -> bytes:
    """Without its end; empty when the output ends before."""
    received = b""
    async for piece in process.stdout:
        received += piece
        if b"\n" in received or len(received) > LINE_LIMIT:
            return received.split(b"\n", 1)[0]
    return b""
