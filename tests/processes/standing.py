"""What processes do that should have done something by now: a wait that is over says where each of them stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

__all__ = ["told_where_it_stands"]


@contextmanager
def told_where_it_stands(pid: int, *, seconds: float) -> Iterator[None]:
    """Fails after `seconds` with the state of the process `pid` and of all that it has started."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        pytest.fail("\n".join([f"after {seconds} seconds:", *_tree(pid)]))


def _tree(pid: int, indent: str = "") -> Iterator[str]:
    try:
        for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name)):
            yield indent + " ".join([task.name, *_facts(task)])
            for child in (task / "children").read_text().split():
                yield from _tree(int(child), f"{indent}    ")
    except OSError as error:
        yield f"{indent}{pid} {error}"


def _facts(task: Path) -> Iterator[str]:
    status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
    yield from (f"{name}={status[name].strip()}" for name in ("Name", "State", "SigPnd", "ShdPnd", "SigBlk"))
    yield from (f"{name}={(task / name).read_text().strip()}" for name in ("wchan", "syscall"))
    yield (task / "cmdline").read_bytes().replace(b"\0", b" ")[:200].decode(errors="replace")
