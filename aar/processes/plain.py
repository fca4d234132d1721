"""One command without a keeper, for systems and programs that bring their own way of ending what a command starts."""

from __future__ import annotations

import codecs
import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import trio

from aar.processes.command import CHUNK_BYTES, LATE_OUTPUT_SECONDS, Finished
from aar.processes.output import Clip, fit

__all__ = ["run_plain"]

KILL_SECONDS = 1.0


async def run_plain(
    argv: Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str],
    timeout: float | None,
    output_limit: int,
    report: Callable[[str], None] | None = None,
    hold: Callable[[int], AbstractContextManager[None]] | None = None,
    encoding: str = "utf-8",
) -> Finished:
    """Run `argv` and read its output as `run_command` does. Works on Windows, too.

    Only the process itself is killed at the end; what it started is ended by `hold`, a block around its life that is
    given its id. With a `hold` standard input is a pipe that gets one line once the block is entered, and then ends: a
    program that waits for it does nothing before. Raises `OSError` when the program cannot be started.
    """
    recording = _Recording(output_limit, report, encoding)
    with trio.move_on_after(math.inf if timeout is None else timeout):
        await recording.follow(argv, cwd, env, hold)
    stdout, stderr = fit(*recording.clips, output_limit)
    code = recording.exit_code
    return Finished(stdout, stderr, -1 if code is None else code, timed_out=code is None)


class _Recording:
    def __init__(self, limit: int, report: Callable[[str], None] | None, encoding: str) -> None:
        self.clips = (Clip(limit), Clip(limit))
        self.exit_code: int | None = None
        self._report = report
        self._room_to_report = limit
        self._encoding = encoding

    async def follow(
        self,
        argv: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str],
        hold: Callable[[int], AbstractContextManager[None]] | None,
    ) -> None:
        process: trio.Process = await trio.lowlevel.open_process(
            list(argv),
            stdin=subprocess.PIPE if hold else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
        )
        try:
            with hold(process.pid) if hold else nullcontext():
                await self._read(process)
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(KILL_SECONDS):
                process.kill()
                await process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    await trio.aclose_forcefully(stream)

    async def _read(self, process: trio.Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        async with trio.open_nursery() as readers:
            readers.start_soon(self._drain, process.stdout, self.clips[0])
            readers.start_soon(self._drain, process.stderr, self.clips[1])
            if process.stdin is not None:
                readers.start_soon(_say_go, process.stdin)
            self.exit_code = await process.wait()
            readers.cancel_scope.deadline = trio.current_time() + LATE_OUTPUT_SECONDS

    async def _drain(self, stream: trio.abc.ReceiveStream, clip: Clip) -> None:
        decode = codecs.getincrementaldecoder(self._encoding)("replace").decode
        while chunk := await stream.receive_some(CHUNK_BYTES):
            self._keep(clip, decode(chunk))
        self._keep(clip, decode(b"", final=True))

    def _keep(self, clip: Clip, text: str) -> None:
        clip.add(text)
        if self._report is not None and text and self._room_to_report:
            shown = text[: self._room_to_report]
            self._room_to_report -= len(shown)
            self._report(shown)


async def _say_go(stdin: trio.abc.SendStream) -> None:
    try:
        await stdin.send_all(b"\n")
        await stdin.aclose()
    except trio.BrokenResourceError:
        return  # it has ended already
