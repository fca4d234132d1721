"""What goes to the client: one line of frames, in order, written by one task."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

from aar.errors import ClientGone

__all__ = ["Outbox", "Sink"]

ROOM = 256 * 1024  # bytes that may wait before whoever tells of a turn has to wait
MOST = 64 * 1024 * 1024  # bytes that may wait at all: a client that asks and asks, and never reads, is left


class Sink(Protocol):
    async def write(self, data: bytes) -> None: ...


class Outbox:
    """Frames that wait for the client, oldest first."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._stirred = trio.Event()
        self._room = trio.Event()
        self._is_writing = False
        self._idle = trio.Event()

    async def send(self, frame: bytes) -> None:
        """Put a frame behind the others as soon as there is room: a slow reader slows down what it reads of."""
        while self._size > ROOM:
            await self._room.wait()
        self.put(frame)

    def put(self, *frames: bytes) -> None:
        """The same for answers, which never wait. Nothing gets between these frames. Raises `ClientGone`."""
        self._frames.extend(frames)
        self._size += sum(map(len, frames))
        self._stirred.set()
        if self._size > MOST:
            raise ClientGone("the client reads nothing of what it asks for")

    async def write_all(self, sink: Sink) -> None:
        """Write whatever comes, for ever. Raises what `sink` raises."""
        while True:
            await self._stirred.wait()
            while self._frames:
                self._is_writing = True
                await sink.write(self._take())
                self._is_writing = False
            self._stirred = trio.Event()
            self._idle.set()
            self._idle = trio.Event()

    async def written(self) -> None:
        """Wait until all that was put has been written."""
        while self._frames or self._is_writing:
            await self._idle.wait()

    def _take(self) -> bytes:
        some: list[bytes] = []
        size = 0
        while self._frames and size < ROOM:
            some.append(self._frames.popleft())
            size += len(some[-1])
        self._size -= size
        self._room.set()
        self._room = trio.Event()
        return b"".join(some)
