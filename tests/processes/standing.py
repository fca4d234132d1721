"""What everybody does when something should have happened by now: a wait that is over says where they stand."""

from __future__ import annotations

import os
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from aar.kernel.alone import errors_alone

__all__ = ["told_where_it_stands"]


@asynccontextmanager
async def told_where_it_stands(*, seconds: float) -> AsyncIterator[None]:
    """A block that fails after `seconds`, with the tasks of this process and the state of all that it has started."""
    standing: list[str] = []

    async def look() -> None:
        await trio.sleep(seconds)
        standing.extend(_tasks(trio.lowlevel.current_root_task()))
        standing.extend(_processes(os.getpid()))
        nursery.cancel_scope.cancel()

    with errors_alone():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            yield
            nursery.cancel_scope.cancel()
    if standing:
        pytest.fail("\n".join([f"after {seconds} seconds:", *standing]))


def _tasks(task: trio.lowlevel.Task | None) -> Iterator[str]:
    if task is None:
        return
    frames = traceback.StackSummary.extract(task.iter_await_frames())
    yield " < ".join([task.name, *(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))])
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _tasks(child)


def _processes(pid: int, indent: str = "") -> Iterator[str]:
    try:
        for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name)):
            yield indent + " ".join([task.name, *_facts(task)])
            for child in (task / "children").read_text().split():
                yield from _processes(int(child), f"{indent}    ")
    except OSError as error:
        yield f"{indent}{pid} {error}"


def _facts(task: Path) -> Iterator[str]:
    status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
    yield from (f"{name}={status[name].strip()}" for name in ("Name", "State", "SigPnd", "ShdPnd", "SigBlk"))
    yield from (f"{name}={(task / name).read_text().strip()}" for name in ("wchan", "syscall"))
    yield (task / "cmdline").read_bytes().replace(b"\0", b" ")[:200].decode(errors="replace")
