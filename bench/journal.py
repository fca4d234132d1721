"""What durability costs: many sessions that append and sync at once, against the same appends one after another."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from aar.journal.jsonl import JsonlStore
from aar.journal.store import SessionLog
from aar.messages.events import Recorded, UserMessage
from bench.table import Row, median, print_rows, rounds

SESSIONS = 64
FOLDER = os.environ.get("AAR_BENCH_FOLDER") or None  # on the disk to be measured; a folder in memory syncs for nothing


@asynccontextmanager
async def _logs() -> AsyncIterator[list[SessionLog]]:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        store = JsonlStore(folder)
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(store.open(f"s{n}", create=True)) for n in range(SESSIONS)]


async def _append(log: SessionLog, seq: int) -> None:
    await log.append(seq - 1, [Recorded(seq, "t", UserMessage(content="one fact that must not be lost"))], sync=True)


def _measure(*, at_once: bool) -> float:
    """Milliseconds until all sessions have synced one fact. Their files are there already."""

    async def main() -> float:
        async with _logs() as logs:
            await _all(logs, 1, at_once=True)
            start = time.perf_counter()
            await _all(logs, 2, at_once=at_once)
            return (time.perf_counter() - start) * 1000

    return trio.run(main)


async def _all(logs: list[SessionLog], seq: int, *, at_once: bool) -> None:
    if not at_once:
        for log in logs:
            await _append(log, seq)
        return
    async with trio.open_nursery() as nursery:
        for log in logs:
            nursery.start_soon(_append, log, seq)


def main() -> None:
    together, apart = rounds(9, lambda: _measure(at_once=True), lambda: _measure(at_once=False), pick=median)
    name = f"{SESSIONS} durable appends at once, time"
    print_rows([Row(name, f"{together:.0f} ms", f"{apart:.0f} ms", together / apart, "x", 0.5)])


if __name__ == "__main__":
    main()
