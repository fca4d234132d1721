"""What many sessions cost: CPU of a turn among ten and among a thousand, memory of an idle one and of a long one."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from functools import partial

import trio

from aar.client import SessionHandle
from aar.journal.jsonl import JsonlStore
from aar.providers.scripted import ScriptedProvider
from aar.runtime import open_runtime
from bench import bare
from bench.server import open_server
from bench.steps import settings
from bench.table import Row, cpu, is_quick, median, print_rows, rounds

FEW, TURNS = 10, 5
MANY, IDLE, LONG_TURNS = (100, 150, 200) if is_quick() else (1_000, 1_000, 1_000)
TEXT = "What a person or a model says in one message of a conversation. " * 4


def _turns(url: str, sessions: int, times: int = 1) -> float:
    """Milliseconds of CPU per turn when all sessions run their turns at the same time."""

    async def main() -> float:
        async with open_runtime(settings(url)) as runtime:
            handles = [await runtime.sessions.open("/") for _ in range(sessions)]
            start = cpu()
            async with trio.open_nursery() as nursery:
                for handle in handles:
                    nursery.start_soon(_talk, handle)
            return (cpu() - start) / (sessions * TURNS)

    return median([trio.run(main) for _ in range(times)])


async def _talk(handle: SessionHandle) -> None:
    for _ in range(TURNS):
        ended = await handle.run("go")
        if ended.stop != "end_turn":
            raise RuntimeError(f"a turn ended as {ended.stop}")


def _bare_turns(url: str, sessions: int) -> float:
    async def talk() -> None:
        messages: list[dict[str, object]] = []
        async with bare.new_client() as client:
            for _ in range(TURNS):
                messages.append({"role": "user", "content": "go"})
                await bare.run(client, url, messages, {})

    async def main() -> float:
        start = cpu()
        async with trio.open_nursery() as nursery:
            for _ in range(sessions):
                nursery.start_soon(talk)
        return (cpu() - start) / (sessions * TURNS)

    return trio.run(main)


def _cpu_rows() -> list[Row]:
    gc.set_threshold(50_000, 20, 20)  # as the command `aar` does, and as a program with many sessions should
    with open_server() as server:
        url = server.url("/text")
        few, many, plain = rounds(
            1 if is_quick() else 3,
            partial(_turns, url, FEW, 3 if is_quick() else 10),
            partial(_turns, url, MANY),
            partial(_bare_turns, url, MANY),
            pick=median,
        )
    return [
        Row(f"turn among {MANY:,} sessions, CPU", f"{many:.2f} ms", f"{few:.2f} ms among {FEW}", many / few, "x", 1.3),
        Row(f"turn among {MANY:,} sessions, added CPU", f"{many:.2f} ms", f"{plain:.2f} ms", many - plain, "ms"),
    ]


# --- memory: each number in a process of its own ----------------------------------------------


def _in_child(what: str) -> float:
    command = [sys.executable, "-m", "bench.sessions", what, *(["--quick"] if is_quick() else [])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _resident() -> float:
    """Bytes of memory that this process occupies."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _traced() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _idle(used: Callable[[], float]) -> float:
    """Bytes for each open session on disk that has had one turn and waits for the next."""

    async def main() -> float:
        provider = ScriptedProvider().text("Done.").forever()
        provider.requests = _Forgetful()
        with tempfile.TemporaryDirectory() as folder:
            async with open_runtime(settings("http://x"), provider=provider, store=JsonlStore(folder)) as runtime:
                for _ in range(20):  # what is needed once is not counted
                    await (await runtime.sessions.open("/")).run("go")
                before = used()
                for _ in range(IDLE):
                    await (await runtime.sessions.open("/")).run("go")
                return (used() - before) / IDLE

    return trio.run(main)


def _long() -> float:
    """Bytes that each turn of a long session keeps."""

    async def main() -> float:
        provider = ScriptedProvider().text(TEXT).forever()
        provider.requests = _Forgetful()
        with tempfile.TemporaryDirectory() as folder:
            async with open_runtime(settings("http://x"), provider=provider, store=JsonlStore(folder)) as runtime:
                session = await runtime.sessions.open("/")
                for number in range(LONG_TURNS):
                    if number == 100:
                        before = _traced()
                    await session.run(f"{number} {TEXT}")
                return (_traced() - before) / (LONG_TURNS - 100)

    return trio.run(main)


def _history() -> float:
    """Bytes of the same turns in the list of a bare loop."""
    messages = []
    before = _traced()
    for number in range(LONG_TURNS):
        messages.append({"role": "user", "content": f"{number} {TEXT}"})
        messages.append({"role": "assistant", "content": "".join(list(TEXT))})
    return (_traced() - before) / LONG_TURNS


class _Forgetful(list):  # type: ignore[type-arg]
    """A script keeps every request for tests to look at; here that would be counted as Aar's."""

    def append(self, request: object) -> None:
        pass


def _memory_rows() -> list[Row]:
    idle_rss, idle_traced = _in_child("idle-resident"), _in_child("idle-traced")
    long, history = _in_child("long"), _in_child("history")
    return [
        Row("idle session, resident memory", _kib(idle_rss), "nothing", idle_rss / 1024, "KiB", 50.0),
        Row("idle session, traced memory", _kib(idle_traced), "nothing", idle_traced / 1024, "KiB", 50.0),
        Row("turn of a long session, kept memory", _kib(long), _kib(history), (long - history) / 1024, "KiB", 10.0),
    ]


def _kib(size: float) -> str:
    return f"{size / 1024:.1f} KiB"


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what in ("idle-traced", "long", "history"):
        tracemalloc.start()
    match what:
        case "idle-resident":
            print(_idle(_resident))
        case "idle-traced":
            print(_idle(_traced))
        case "long":
            print(_long())
        case "history":
            print(_history())
        case _:
            print_rows(_cpu_rows())
            print_rows(_memory_rows())


if __name__ == "__main__":
    main()
