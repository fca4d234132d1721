"""Runs of `aar` without the cost of a start: processes forked from one that has imported it, by `warm_program.py`.

They are processes like any other, with streams, signals, a terminal and an exit code of their own. What matters for a
start alone (what is imported and when, Python's own variables) needs `sys.executable -m aar`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import trio

from tests.transports.cli.warm_program import LIMIT

__all__ = ["WarmProcess", "WarmProgram"]

ROOT = Path(__file__).parents[3]
END_TIMEOUT = 30.0  # seconds; only after a failure does it take that long


class WarmProcess:
    """What `trio.Process` offers, for a process that is not our child."""

    def __init__(self, pid: int, answers: socket.socket) -> None:
        self.pid = pid
        self.stdin: Any = None
        self.stdout: Any = None
        self.stderr: Any = None
        self._answers = answers
        self._code: int | None = None
        answers.setblocking(False)

    @property
    def returncode(self) -> int | None:
        """`None` while it runs."""
        if self._code is None:
            with suppress(BlockingIOError):
                self._code = int(self._answers.recv(100))
                self._answers.close()
        return self._code

    async def wait(self) -> int:
        while (code := self.returncode) is None:
            await trio.lowlevel.wait_readable(self._answers)
        return code

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class WarmProgram:
    """One process that has imported Aar; it ends with `close`, or with the process that made it."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        program = Path(__file__).with_name("warm_program.py")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(program), str(theirs.fileno())],
                env={**kept, "PYTHONPATH": str(ROOT)},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        self._requests.close()
        self._process.wait(timeout=END_TIMEOUT)

    def can_run(self, arguments: Sequence[str], variables: Mapping[str, str]) -> bool:
        """Not what Python itself looks at when it starts, and no megabytes of arguments."""
        is_usual = not any(name.startswith(("PYTHON", "LANG", "LC_")) for name in variables)
        return is_usual and len(json.dumps(arguments)) < LIMIT // 2

    async def start(
        self,
        arguments: Sequence[str],
        *,
        streams: Sequence[int],
        cwd: Path,
        env: Mapping[str, str],
        own_session: bool = False,
        on_terminal: bool = False,
    ) -> WarmProcess:
        """`streams` are three descriptors, which stay the caller's; a terminal becomes the controlling one."""
        request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
        request |= {"own_session": own_session or on_terminal, "on_terminal": on_terminal}
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._requests, [json.dumps(request).encode()], [*streams, theirs.fileno()])
        answers.setblocking(False)
        await trio.lowlevel.wait_readable(answers)
        return WarmProcess(int(answers.recv(100)), answers)

    async def open(
        self,
        arguments: Sequence[str],
        *,
        stdin: Any,
        stdout: Any,
        stderr: Any,
        cwd: Path,
        env: Mapping[str, str],
        own_session: bool = False,
    ) -> WarmProcess:
        """Start it with streams as `trio.lowlevel.open_process` takes and gives them."""
        ours: list[Any] = [None, None, None]
        with ExitStack() as theirs:
            streams: list[int] = []
            for number, wanted in enumerate((stdin, stdout, stderr)):
                if wanted == subprocess.PIPE:
                    reading, writing = os.pipe()
                    its, mine = (writing, reading) if number else (reading, writing)
                    ours[number] = trio.lowlevel.FdStream(mine)
                    theirs.callback(os.close, its)
                elif wanted == subprocess.DEVNULL:
                    its = os.open(os.devnull, os.O_RDWR)
                    theirs.callback(os.close, its)
                else:
                    its = streams[1] if wanted == subprocess.STDOUT else wanted
                streams.append(its if isinstance(its, int) else its.fileno())
            process = await self.start(arguments, streams=streams, cwd=cwd, env=env, own_session=own_session)
        process.stdin, process.stdout, process.stderr = ours
        return process

    async def run(
        self, arguments: Sequence[str], *, stdin: bytes, cwd: Path, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        """Start it, and wait until it and its output have ended. Cancelling kills it."""
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        feed, *ends = (trio.lowlevel.FdStream(end) for end in (pipes[0][1], pipes[1][0], pipes[2][0]))
        outputs: list[bytes] = [b"", b""]
        try:
            process = await self.start(arguments, streams=theirs, cwd=cwd, env=env)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_feed, feed, stdin)
                for at, end in enumerate(ends):
                    nursery.start_soon(_collect, end, outputs, at)
                code = await process.wait()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        return subprocess.CompletedProcess(list(arguments), code, *outputs)


async def _feed(stream: trio.lowlevel.FdStream, data: bytes) -> None:
    async with stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(data)


async def _collect(stream: trio.lowlevel.FdStream, outputs: list[bytes], at: int) -> None:
    async with stream:
        outputs[at] = b"".join([data async for data in stream])
