"""A command with everything it forks, as one scope: when the block is left, nothing of it is alive."""

from __future__ import annotations

import logging
import marshal
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Literal, NamedTuple

import trio

from aar.processes.confinement import Confinement, NotConfined
from aar.processes.guard import current_guard
from aar.processes.orphans import MARKER, end_marked, new_marker

__all__ = ["Process", "ProcessStatistics", "open_process"]

SWEEP_SECONDS = 1.0

logger = logging.getLogger(__name__)

START_SECONDS = 1.0  # that a keeper may take to say whether a forked command runs


class ProcessStatistics(NamedTuple):
    """`seconds` since the start; `returncode` is None while the command runs."""

    pid: int
    seconds: float
    returncode: int | None


class Process:
    """A command that runs in its own session, without a terminal. Made by `open_process`.

    `stdin` is there when it was asked for; `stderr` is None when it is merged into `stdout`. Reading is up to the
    caller: a pipe that nobody reads stops the command once it is full.
    """

    def __init__(
        self,
        control: socket.socket,
        stdin: trio.lowlevel.FdStream | None,
        stdout: trio.lowlevel.FdStream,
        stderr: trio.lowlevel.FdStream | None,
    ) -> None:
        self.pid = 0
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._control = control
        self._keeper = 0
        self._lock = trio.Lock()
        self._unread = b""
        self._running = False
        self._closed = False
        self._gone = False
        self._failure: tuple[str, int] | None = None
        self._returncode: int | None = None
        self._started_at = trio.current_time()

    @property
    def returncode(self) -> int | None:
        """The exit status, or the negative signal number, or None while the command runs. Never waits."""
        if self._returncode is None and not self._closed:
            self._read_nowait()
        return self._returncode

    async def wait(self) -> int:
        """Wait for the command itself, not for what it left in the background, and return its exit status."""
        async with self._lock:
            while (status := self.returncode) is None:
                await self._readable()
        return status

    def statistics(self) -> ProcessStatistics:
        return ProcessStatistics(self.pid, trio.current_time() - self._started_at, self.returncode)

    # --- the conversation with the keeper ---

    async def _start(self, order: bytes, *, program: str, folder: str) -> None:
        """Give the order and wait until the command runs. Raises `OSError` with the name of what is wrong."""
        message = memoryview(len(order).to_bytes(4, "big") + order)
        while message:
            try:
                message = message[self._control.send(message) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._control)
        while not (self._running or self._failure or self._closed):
            with trio.move_on_after(START_SECONDS if self.pid else float("inf")) as wait:
                await self._readable()
            if wait.cancelled_caught:
                break  # it has been forked, and may have stopped its keeper before that could say more
            self._read_nowait()
        if self._failure is not None:
            step, number = self._failure
            if step.startswith("wall:"):
                raise NotConfined(number, step.removeprefix("wall:"))
            raise OSError(number, os.strerror(number), folder if step == "chdir" else program)
        if not self.pid:
            raise BlockingIOError("The command could not be started: its keeper did not answer. Try again")

    async def _readable(self) -> None:
        await trio.lowlevel.wait_readable(self._control)

    def _read_nowait(self) -> None:
        try:
            received = self._control.recv(4096)
        except BlockingIOError:
            return
        except ConnectionResetError:
            received = b""
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            self._note(line.decode().split())
        if not received:
            self._lose_keeper()

    def _lose_keeper(self) -> None:
        """It said all, was killed (the kernel then kills the command as well), or does not answer any more."""
        self._closed = True
        if self._returncode is None:
            self._returncode = -signal.SIGKILL

    def _note(self, words: list[str]) -> None:
        match words:
            case ["forked", pid, keeper]:
                self.pid, self._keeper = int(pid), int(keeper)
            case ["running"]:
                self._running = True
            case ["exited", status]:
                self._returncode = int(status)
            case ["failed", step, number]:
                self._failure = (step, int(number))
                self._returncode = 127  # what shells say; for a start that we no longer wait for
            case ["gone"]:
                self._gone = True

    async def _end(self, seconds: float) -> bool:
        """Tell the keeper to end everything and wait for it. Returns whether it did within `seconds`.

        The outputs stay open until then: a command that says goodbye must not die of SIGPIPE.
        """
        if self.stdin is not None:
            self.stdin.close()
        with suppress(OSError):  # the keeper may be gone already
            self._control.shutdown(socket.SHUT_WR)
        with trio.move_on_after(seconds):
            async with self._lock:
                while not self._closed:
                    await self._readable()
                    self._read_nowait()
        return self._gone

    def _kill_keeper(self) -> None:
        """Only while its end of the control socket is open, for so long its id belongs to it."""
        if self._keeper and not self._closed:
            with suppress(OSError):
                os.kill(self._keeper, signal.SIGKILL)


@asynccontextmanager
async def open_process(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes | Literal["empty", "pipe"] = "empty",
    merge_stderr: bool = False,
    term_grace: float = 0.2,
    kill_grace: float = 1.0,
    marker: str | None = None,
    confinement: Confinement | None = None,
) -> AsyncIterator[Process]:
    """Run `argv` in `cwd` with exactly `env` and the marker, in a session of its own, for the length of the block.

    However the block is left, the command and all its descendants, also those in other sessions, get SIGTERM, then,
    `term_grace` seconds later, SIGKILL until none is left. That is waited for, `kill_grace` seconds longer at most.
    They end the same way when this process dies. Standard input is `stdin`, a pipe to `Process.stdin`, or nothing.
    With a `confinement` the command runs within its walls, from its first instruction on, or not at all.

    Raises `OSError` (`FileNotFoundError`, `PermissionError`, ...) when the command cannot be started, `NotConfined`
    when its walls cannot be put up, and `ValueError` for a NUL in an argument or a variable.
    """
    marker = marker or new_marker()
    order = _order(argv, cwd, {**env, MARKER: marker}, term_grace, confinement)
    async with current_guard() as guard:
        with ExitStack() as ours:
            with ExitStack() as theirs:
                process, descriptors = _plumb(ours, theirs, stdin, merge_stderr)
                await guard.request_keeper(descriptors)
            try:
                await process._start(order, program=argv[0], folder=cwd)
                yield process
            finally:
                with trio.CancelScope(shield=True):
                    if not await process._end(term_grace + kill_grace):
                        await _sweep(process, marker)


def _order(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], term_grace: float, confinement: Confinement | None
) -> bytes:
    if any("\0" in text for text in (*argv, cwd, *env, *env.values())):
        raise ValueError("A command, its folder and its environment cannot contain a NUL character")
    variables = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    walls = None if confinement is None else confinement.order()
    return marshal.dumps(([os.fsencode(word) for word in argv], os.fsencode(cwd), variables, float(term_grace), walls))


def _plumb(
    ours: ExitStack, theirs: ExitStack, stdin: bytes | Literal["empty", "pipe"], merge_stderr: bool
) -> tuple[Process, list[int]]:
    """The control socket and the pipes: our ends in a process still to start, theirs as descriptors to hand over."""
    control, their_control = socket.socketpair()
    ours.callback(control.close)
    ours.callback(trio.lowlevel.notify_closing, control)
    theirs.callback(their_control.close)
    control.setblocking(False)
    our_stdin, their_stdin = _plumb_stdin(ours, theirs, stdin)
    stdout, their_stdout = _output_pipe(ours, theirs)
    stderr, their_stderr = (None, their_stdout) if merge_stderr else _output_pipe(ours, theirs)
    process = Process(control, our_stdin, stdout, stderr)
    return process, [their_control.fileno(), their_stdin, their_stdout, their_stderr]


def _plumb_stdin(
    ours: ExitStack, theirs: ExitStack, stdin: bytes | Literal["empty", "pipe"]
) -> tuple[trio.lowlevel.FdStream | None, int]:
    if stdin == "pipe":
        their_end, our_end = os.pipe2(os.O_CLOEXEC)
        theirs.callback(os.close, their_end)
        return _stream(ours, our_end), their_end
    if stdin == "empty":
        their_end = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    else:  # a file in memory: nobody has to feed it
        assert isinstance(stdin, bytes)
        their_end = os.memfd_create("stdin")
        with open(their_end, "wb", closefd=False) as file:
            file.write(stdin)
        os.lseek(their_end, 0, os.SEEK_SET)
    theirs.callback(os.close, their_end)
    return None, their_end


def _output_pipe(ours: ExitStack, theirs: ExitStack) -> tuple[trio.lowlevel.FdStream, int]:
    our_end, their_end = os.pipe2(os.O_CLOEXEC)
    theirs.callback(os.close, their_end)
    return _stream(ours, our_end), their_end


def _stream(ours: ExitStack, descriptor: int) -> trio.lowlevel.FdStream:
    stream = trio.lowlevel.FdStream(descriptor)
    ours.callback(stream.close)
    return stream


async def _sweep(process: Process, marker: str) -> None:
    """The keeper was killed, stopped or starved. End it, and find what it left by the marker."""
    process._kill_keeper()
    process._lose_keeper()
    with trio.move_on_after(SWEEP_SECONDS):
        left = await end_marked(marker)
        if left:
            logger.warning("processes %s could not be ended", left)
