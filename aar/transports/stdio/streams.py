"""Standard input and output, taken over for the protocol: nothing else in the process can read or write them.

Neither ever holds the event loop up, and neither is switched to non-blocking: whoever started us may share them.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from typing import NamedTuple

import trio

from aar.errors import ClientGone

__all__ = ["Outlet", "Stdio", "read_some", "take_stdio"]

_CHUNK = 256 * 1024
_ATOMIC = 4096  # bytes that a pipe which is ready takes without waiting


class Stdio(NamedTuple):
    """Descriptors of our own. Children do not inherit them."""

    read: int
    write: int


def take_stdio() -> Stdio:
    """From here on descriptor 0 is empty, and what anybody writes to 1 goes to standard error."""
    mine = Stdio(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return mine


async def read_some(descriptor: int) -> bytes:
    """The next bytes; none at the end of the input, and when it cannot be read any more."""
    try:
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            try:
                return os.read(descriptor, _CHUNK)
            except BlockingIOError:
                continue
    except PermissionError:
        pass  # a regular file is always ready, so the kernel does not watch it
    except OSError:
        return b""
    try:
        return await trio.to_thread.run_sync(
            os.read, descriptor, _CHUNK, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
        )
    except OSError:
        return b""


class Outlet:
    """Writes to one descriptor for one task at a time. Raises `ClientGone` when nobody reads it any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._thread = trio.CapacityLimiter(1)
        mode = os.fstat(descriptor).st_mode
        self._socket = socket.socket(fileno=os.dup(descriptor)) if stat.S_ISSOCK(mode) else None
        self._is_pipe = stat.S_ISFIFO(mode)
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        try:
            if self._socket is not None:
                await self._send(self._socket, memoryview(data))
            elif self._is_pipe:
                await self._fill(memoryview(data))
            else:
                await self._in_thread(memoryview(data))
        except OSError as error:
            raise ClientGone(f"standard output: {error.strerror or error}") from error

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    async def _send(self, peer: socket.socket, left: memoryview) -> None:
        while left:
            try:
                left = left[peer.send(left[:_CHUNK], socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(peer)

    async def _fill(self, left: memoryview) -> None:
        while left:
            for _ in range(64):
                if not self._ready.poll(0):
                    await trio.lowlevel.wait_writable(self._descriptor)
                try:
                    left = left[os.write(self._descriptor, left[:_ATOMIC]) :]
                except BlockingIOError:  # others write here, too, and somebody has made it so
                    await trio.lowlevel.wait_writable(self._descriptor)
                if not left:
                    return
            await trio.lowlevel.checkpoint()  # other tasks get their turn in between

    async def _in_thread(self, left: memoryview) -> None:
        while left:
            try:
                written = await trio.to_thread.run_sync(
                    os.write, self._descriptor, left[:_CHUNK], abandon_on_cancel=True, limiter=self._thread
                )
                left = left[written:]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._descriptor)
