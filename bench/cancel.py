"""How fast and how completely things end: streams, commands whose children hide, and Aar itself when it is killed."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import trio

from aar.client import SessionHandle
from aar.journal.jsonl import JsonlStore
from aar.messages.events import StreamChunk
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.providers.scripted import ScriptedProvider
from aar.runtime import open_runtime
from bench import bare
from bench.server import Server, open_server
from bench.startup import installed
from bench.steps import settings
from bench.table import Row, is_quick, median, print_rows

MARK = "AAR_BENCH_MARK"  # in the environment of all that one measurement starts, so that nothing of it can hide
CHILDREN = "(setsid sleep 60 &); (setsid sh -c 'sleep 60 & sleep 60' &); sleep 60"  # five processes
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
AT_ONCE = 3
LATEST = 5.0  # seconds after which a process counts as left behind


def marked(mark: str) -> list[int]:
    """The processes that carry this mark and are no zombies."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with suppress(OSError):
                if wanted in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
    return found


async def _until(count: int, mark: str, limit: float) -> float:
    """Milliseconds until at least (or, for 0, only) so many marked processes live."""
    start = trio.current_time()
    while trio.current_time() < start + limit:
        if len(marked(mark)) >= count if count else not marked(mark):
            break
        await trio.sleep(0.003)
    return (trio.current_time() - start) * 1000


# --- a stream ---------------------------------------------------------------------------------


async def _close_seen(server: Server, cancelled_at: int) -> float:
    closed = await trio.to_thread.run_sync(server.wait_for, "closed", abandon_on_cancel=True)
    return (closed - cancelled_at) / 1e6


async def _streams(server: Server, times: int) -> list[float]:
    """Milliseconds from `cancel` to the moment at which the server sees the connection close."""
    found = []
    config = settings(server.url("/silent")).model_copy(update={"streaming": True})
    async with open_runtime(config) as runtime:
        session = await runtime.sessions.open("/")
        for _ in range(times):
            async with session.running("go") as (_, ended):
                await _first_chunk(session)
                at = time.monotonic_ns()
                await session.cancel()
                found.append(await _close_seen(server, at))
                await ended()
    return found


async def _first_chunk(session: SessionHandle) -> None:
    with session.follow(after=session.seq) as records:
        async for record in records:
            if isinstance(record.event, StreamChunk):
                return


async def _bare_streams(server: Server, times: int) -> list[float]:
    found = []
    async with bare.new_client() as client:
        for _ in range(times):
            async with trio.open_nursery() as nursery:
                came = trio.Event()

                async def read(came: trio.Event = came) -> None:
                    async with client.stream("POST", server.url("/silent"), content=b"{}") as response:
                        async for _ in response.aiter_lines():
                            came.set()

                nursery.start_soon(read)
                await came.wait()
                at = time.monotonic_ns()
                nursery.cancel_scope.cancel()
            found.append(await _close_seen(server, at))
    return found


# --- a command that leaves children -----------------------------------------------------------


async def _command(start: Callable[[], Awaitable[object]], mark: str, limit: float) -> tuple[float, int]:
    """Milliseconds until all that the command started is gone, and how many were still there after `limit` s."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(start)
        await _until(5, mark, LATEST)
        at = trio.current_time()
        nursery.cancel_scope.cancel()
    left = await _until(0, mark, max(0.0, limit - (trio.current_time() - at)))
    survivors = marked(mark)
    for pid in survivors:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return (trio.current_time() - at) * 1000 if not survivors else left, len(survivors)


def _free_to_run(config: AgentConfig) -> AgentConfig:
    safety = SafetyConfig(require_approval_for_execute=False, allowed_paths=[])
    return config.model_copy(update={"safety": safety})


async def _commands(times: int) -> list[float]:
    found = []
    provider = ScriptedProvider()
    async with open_runtime(_free_to_run(settings("http://x")), provider=provider) as runtime:
        for _ in range(times):
            mark = uuid.uuid4().hex
            provider.call("bash", command=f"export {MARK}={mark}; {CHILDREN}")
            session = await runtime.sessions.open("/")
            took, survivors = await _command(lambda session=session: session.run("go"), mark, LATEST)
            found.append(took if not survivors else LATEST * 1000)
    return found


async def _bare_command() -> int:
    mark = uuid.uuid4().hex

    async def start() -> None:
        await trio.run_process(["sh", "-c", f"export {MARK}={mark}; {CHILDREN}"], start_new_session=True)

    _, survivors = await _command(start, mark, 0.25)
    return survivors


# --- Aar itself -------------------------------------------------------------------------------


async def _forced_ends(server: Server, times: int) -> tuple[int, int, int]:
    """Runs of `aar run` that are ended at random moments: processes left, sessions begun, sessions that go on."""
    left = 0
    limiter = trio.CapacityLimiter(AT_ONCE)
    chance = random.Random(7)
    with installed() as environment, tempfile.TemporaryDirectory() as home:

        async def one(number: int, after: float) -> None:
            nonlocal left
            async with limiter:
                left += await _forced_end(server, environment, home, SIGNALS[number % len(SIGNALS)], after)

        await _forced_end(server, environment, f"{home}/first", signal.SIGTERM, 10.0)  # compiles
        async with trio.open_nursery() as nursery:
            for number in range(times):
                nursery.start_soon(one, number, chance.uniform(0.2, 2.5))
        begun, going_on = await _next_prompts(home)
    return left, begun, going_on


async def _forced_end(
    server: Server, environment: dict[str, str], home: str, ending: signal.Signals, after: float
) -> int:
    mark = uuid.uuid4().hex
    environment = {**environment, "AAR_HOME": home, MARK: mark}
    words = ["-p", "generic", "-m", "m", "--base-url", server.url("/bash/40"), "--yes", "--max-steps", "99", "go"]
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "aar", "run", *words],
        stdin=-3,
        stdout=-3,
        stderr=-3,
        env=environment,
        start_new_session=True,
    )
    with trio.move_on_after(after):
        await process.wait()
    process.send_signal(ending)
    with trio.move_on_after(2 * LATEST):
        await process.wait()
    await _until(0, mark, LATEST)
    survivors = marked(mark)
    for pid in survivors:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await process.wait()
    return len(survivors)


async def _next_prompts(home: str) -> tuple[int, int]:
    store = JsonlStore(Path(home, "sessions"))
    provider = ScriptedProvider().text("Done.").forever()
    going_on = 0
    async with open_runtime(settings("http://x"), provider=provider, store=store) as runtime:
        ids = await store.ids()
        for session_id in ids:
            session = await runtime.sessions.load(session_id)
            going_on += (await session.run("go on")).stop == "end_turn"
    return len(ids), going_on


# --- rows -------------------------------------------------------------------------------------


async def _rows() -> list[Row]:
    times = 8 if is_quick() else 50
    ends = 12 if is_quick() else 100
    with open_server() as server:
        ours, theirs = median(await _streams(server, times)), median(await _bare_streams(server, times))
        commands = median(await _commands(3 if is_quick() else 15))
        survivors = await _bare_command()
        left, begun, going_on = await _forced_ends(server, ends)
    return [
        Row("cancelled stream, server sees it, p50", f"{ours:.1f} ms", f"{theirs:.1f} ms", ours, "ms", 10.0),
        Row("cancelled bash, all children gone, p50", f"{commands:.0f} ms", f"{survivors} left", commands, "ms", 250.0),
        Row(
            f"{ends} forced ends of aar run, lost",
            f"{left} processes left, {going_on} of {begun} sessions go on",
            "",
            left + begun - going_on,
            "",
            0.0,
        ),
    ]


if __name__ == "__main__":
    print_rows(trio.run(_rows))
