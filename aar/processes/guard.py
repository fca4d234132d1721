"""Aar's side of the program in `keeper.py`: one guard process for each runtime, started with the first child."""

from __future__ import annotations

import array
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

import trio

from aar.processes.environment import child_environment
from aar.processes.orphans import reap_stale
from aar.processes.privacy import close_to_others

__all__ = ["Guard", "current_guard", "open_guard"]

KEEPER = Path(__file__).with_name("keeper.py")
STOP_SECONDS = 1.0

_guard_of_this_scope: ContextVar[Guard | None] = ContextVar("guard_of_this_scope", default=None)


class Guard:
    """The process that forks a keeper for each child. It ends when this process ends, however that happens."""

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._process: trio.Process | None = None
        self._requests: trio.socket.SocketType | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process, None before the first child."""
        return None if self._process is None else self._process.pid

    async def request_keeper(self, descriptors: Sequence[int]) -> None:
        """Hand a control socket and three standard streams to a new keeper, which gets copies of them.

        Starts the guard when it does not run, also when somebody has killed it.
        """
        async with self._lock:
            try:
                await self._send(descriptors)
            except (BrokenPipeError, ConnectionResetError):
                await self._stop()
                await self._send(descriptors)

    async def _send(self, descriptors: Sequence[int]) -> None:
        if self._requests is None:
            await self._start()
        assert self._requests is not None
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)  # a command may have stopped it
        await self._requests.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])

    async def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = await trio.lowlevel.open_process(
                    [sys.executable, "-I", "-S", str(KEEPER)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env=child_environment(),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self._requests = trio.socket.from_stdlib_socket(ours)
        close_to_others()  # before the first command, while the guard is still starting
        await reap_stale()  # what an Aar left behind that was killed together with its guard

    async def _stop(self) -> None:
        process, self._process = self._process, None
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.close()
        if process is not None:
            process.send_signal(signal.SIGCONT)
            with trio.CancelScope(shield=True):
                with trio.move_on_after(STOP_SECONDS):
                    await process.wait()
                process.kill()
                await process.wait()

    async def aclose(self) -> None:
        """End the guard and reap it. Keepers that still have work finish it."""
        async with self._lock:
            await self._stop()


@asynccontextmanager
async def open_guard() -> AsyncIterator[Guard]:
    """One guard for all children that tasks of this scope start. Costs nothing until the first one."""
    guard = Guard()
    token = _guard_of_this_scope.set(guard)
    try:
        yield guard
    finally:
        _guard_of_this_scope.reset(token)
        with trio.CancelScope(shield=True):
            await guard.aclose()


@asynccontextmanager
async def current_guard() -> AsyncIterator[Guard]:
    """The guard of this scope, or one of our own where nobody has opened one."""
    guard = _guard_of_this_scope.get()
    if guard is not None:
        yield guard
        return
    async with open_guard() as own:
        yield own
