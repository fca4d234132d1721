"""One command from start to end, its output kept in memory of a fixed size."""

from __future__ import annotations

import codecs
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import trio

from aar.processes.confinement import Confinement
from aar.processes.group import Process, open_process
from aar.processes.output import Clip, fit

__all__ = ["CHUNK_BYTES", "LATE_OUTPUT_SECONDS", "Finished", "run_command"]

CHUNK_BYTES = 65_536
LATE_OUTPUT_SECONDS = 0.1
LAST_READS = 16


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command has left. `exit_code` is negative for a signal, and -1 when the time was up."""

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool


async def run_command(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float | None,
    output_limit: int,
    report: Callable[[str], None] | None = None,
    confinement: Confinement | None = None,
    stdin: bytes | Literal["empty"] = "empty",
) -> Finished:
    """Run `argv` with `stdin` as its standard input and leave nothing of it behind.

    After `timeout` seconds (None: never) it is ended and what it wrote so far is kept. `stdout` and `stderr` have at
    most `output_limit` characters together; of longer output the head and the tail remain, and memory stays flat.
    Reading stops a moment after the command itself has ended, also when a background process still holds its pipes.
    Bytes that are no UTF-8 are replaced. `report` gets the text of both as it comes, up to `output_limit` characters.
    `confinement` puts walls around it.

    Raises what `open_process` raises.
    """
    recording = _Recording(output_limit, report)
    with trio.move_on_after(math.inf if timeout is None else timeout):
        async with open_process(argv, cwd=cwd, env=env, confinement=confinement, stdin=stdin) as process:
            await recording.follow(process)
    stdout, stderr = fit(recording.stdout, recording.stderr, output_limit)
    if recording.exit_code is None:
        return Finished(stdout, stderr, -1, timed_out=True)
    return Finished(stdout, stderr, recording.exit_code, timed_out=False)


class _Recording:
    """What is known of a command so far, whenever its time is up."""

    def __init__(self, limit: int, report: Callable[[str], None] | None) -> None:
        self.stdout, self.stderr = Clip(limit), Clip(limit)
        self.exit_code: int | None = None
        self._report = report
        self._room_to_report = limit

    async def follow(self, process: Process) -> None:
        assert process.stderr is not None
        async with trio.open_nursery() as readers:
            readers.start_soon(self._read, process.stdout, self.stdout)
            readers.start_soon(self._read, process.stderr, self.stderr)
            self.exit_code = await process.wait()
            readers.cancel_scope.deadline = trio.current_time() + LATE_OUTPUT_SECONDS

    async def _read(self, stream: trio.lowlevel.FdStream, clip: Clip) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        try:
            while chunk := await stream.receive_some(CHUNK_BYTES):
                self._keep(clip, decode(chunk))
        finally:
            for chunk in _rest(stream.fileno()):
                self._keep(clip, decode(chunk))
            self._keep(clip, decode(b"", final=True))

    def _keep(self, clip: Clip, text: str) -> None:
        clip.add(text)
        if self._report is not None and text and self._room_to_report:
            shown = text[: self._room_to_report]
            self._room_to_report -= len(shown)
            self._report(shown)


def _rest(descriptor: int) -> Iterator[bytes]:
    """What stands in the pipe when reading is cut off, bounded because somebody may go on filling it."""
    for _ in range(LAST_READS):
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except OSError:  # empty, or closed
            return
        if not chunk:
            return
        yield chunk
