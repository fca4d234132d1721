"""Writers that are killed, that want the same session, and that fill the disk: all of them real processes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from aar.errors import SessionInUse, StoreUnavailable
from aar.journal.jsonl import JsonlStore
from aar.messages.events import Recorded, UserMessage

WRITER = """
import sys, trio
from aar.journal.jsonl import JsonlStore
from aar.journal.store import Header
from aar.messages.events import Recorded, UserMessage

async def main(folder):
    async with JsonlStore(folder).open("s1", create=True) as log:
        seq = log.stored.last_seq
        while True:
            records = [Recorded(seq + n, "turn", UserMessage(content="x" * 37 * n)) for n in (1, 2, 3)]
            if sys.argv[2] == "append":
                await log.append(seq, records, header=Header("s1", step_count=seq + 3))
            else:
                await log.rewrite(Header("s1", step_count=seq + 3), records)
            seq += 3
            print(seq, flush=True)

trio.run(main, sys.argv[1])
"""

HOLDER = """
import os, sys, trio
from aar.errors import SessionInUse
from aar.journal.jsonl import JsonlStore

async def main(folder):
    try:
        async with JsonlStore(folder).open("s1", create=True):
            print("open", os.getpid(), flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)
    except SessionInUse as error:
        print(error, flush=True)

trio.run(main, sys.argv[1])
"""

FULL_DISK = """
import json, os, resource, sys, trio
from aar.errors import StoreUnavailable
from aar.journal.jsonl import JsonlStore
from aar.journal.store import Header
from aar.messages.events import Recorded, UserMessage

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main(folder):
    store = JsonlStore(folder)
    room(5000)
    async with store.open("s1", create=True) as log:
        seq, refused = 0, []
        while len(refused) < 3:
            try:
                await log.append(seq, [Recorded(seq + 1, "t", UserMessage(content="x" * 300))], sync=True)
                seq += 1
            except StoreUnavailable as error:
                refused.append(str(error))
        stored = await store.load("s1")
        kept = [len(stored.records), stored.warnings, os.path.getsize(store.path_of("s1"))]
        room(resource.RLIM_INFINITY)
        await log.append(seq, [Recorded(seq + 1, "t", UserMessage(content="y"))])
    print(json.dumps({"seq": seq, "refused": refused, "kept": kept, "after": len((await store.load("s1")).records)}))

trio.run(main, sys.argv[1])
"""


@asynccontextmanager
async def child(script: str, *arguments: str) -> AsyncIterator[trio.Process]:
    """A Python process with this script; it is dead when the block has been left."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdin.aclose()  # type: ignore[union-attr]
            await process.stdout.aclose()  # type: ignore[union-attr]


async def read_line(process: trio.Process) -> str:
    line = b""
    while not line.endswith(b"\n"):
        line += await process.stdout.receive_some(1)  # type: ignore[union-attr]
    return line.decode().strip()


def prompt(seq: int, text: str = "hi") -> Recorded:
    return Recorded(seq, "0123456789ab", UserMessage(content=text))


@pytest.mark.covers("SES-22", "AURA-102")
async def test_a_writer_that_is_killed_leaves_a_prefix_of_whole_appends(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    for _ in range(6):
        before = len((await store.load("s1")).records) if "s1" in await store.ids() else 0
        told = before
        async with child(WRITER, str(tmp_path), "append") as process:
            for _ in range(random.randrange(1, 60)):
                told = int(await read_line(process))
            process.kill()
            await process.wait()
        stored = await store.load("s1")
        assert [record.seq for record in stored.records] == list(range(1, len(stored.records) + 1))
        assert told <= len(stored.records)
        assert [len(record.event.content) for record in stored.records[:told]] == [37, 74, 111] * (told // 3)  # type: ignore[attr-defined]
        async with store.open("s1", create=False) as log:
            rest = -len(log.stored.records) % 3
            seq = log.stored.last_seq
            sizes = [(2, 3), (3,)][2 - rest] if rest else ()
            await log.append(seq, [prompt(seq + at, "x" * 37 * n) for at, n in enumerate(sizes, start=1)])


@pytest.mark.covers("SES-22")
async def test_a_rewrite_that_is_killed_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    for _ in range(4):
        async with child(WRITER, str(tmp_path), "rewrite") as process:
            for _ in range(random.randrange(1, 8)):
                told = int(await read_line(process))
            process.kill()
            await process.wait()
        stored = await store.load("s1")
        assert stored.warnings == []
        assert stored.last_seq >= told  # it may have written more than anybody had time to read of
        assert stored.last_seq % 3 == 0
        assert [record.seq for record in stored.records] == [stored.last_seq - 2, stored.last_seq - 1, stored.last_seq]
        assert stored.header.step_count == stored.last_seq


async def test_of_two_processes_one_gets_the_session_and_its_death_frees_it(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    async with child(HOLDER, str(tmp_path)) as first, child(HOLDER, str(tmp_path)) as second:
        words = {process.pid: await read_line(process) for process in (first, second)}
        (holder,) = [process for process in (first, second) if words[process.pid] == f"open {process.pid}"]
        (loser,) = {first.pid, second.pid} - {holder.pid}
        assert words[loser].startswith(f"Session s1 is in use by process {holder.pid} on ")
        with pytest.raises(SessionInUse, match=f"process {holder.pid} on "):
            async with store.open("s1", create=True):
                pass
        holder.kill()
        await holder.wait()
        assert os.listdir(tmp_path) == ["s1.lock"]
        async with store.open("s1", create=True) as log:
            await log.append(0, [prompt(1)])


async def test_many_who_want_a_session_have_it_one_at_a_time(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    refused = 0

    async def add_one() -> None:
        nonlocal refused
        while True:
            try:
                async with store.open("s1", create=True) as log:
                    seq = log.stored.last_seq
                    await log.append(seq, [prompt(seq + 1)])
                    return
            except SessionInUse:
                refused += 1
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(add_one)
    assert [record.seq for record in (await store.load("s1")).records] == list(range(1, 13))
    assert os.listdir(tmp_path) == ["s1.jsonl"]


async def test_a_full_disk_refuses_the_append_keeps_the_rest_and_can_be_used_again(tmp_path: Path) -> None:
    async with child(FULL_DISK, str(tmp_path)) as process:
        said = json.loads(await read_line(process))
    assert said["seq"] > 5
    size = said["kept"][2]
    assert said["kept"] == [said["seq"], [], size]
    assert 5000 - 500 < size < 5000
    assert said["after"] == said["seq"] + 1
    assert [str(tmp_path / "s1.jsonl") in words for words in said["refused"]] == [True] * 3


def said(seq: int, text: str) -> Recorded:
    return Recorded(seq, "t", UserMessage(content=text))


async def test_a_session_whose_lock_was_removed_harms_nothing_of_the_one_who_took_it(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s", create=True) as first:
        await first.append(0, [said(1, "first")], sync=True)
        (tmp_path / "s.lock").unlink()
        async with JsonlStore(tmp_path).open("s", create=False) as second:
            with pytest.raises(StoreUnavailable, match="its lock file was removed"):
                await first.append(1, [said(2, "no longer")], sync=True)
            with pytest.raises(StoreUnavailable, match="its lock file was removed"):
                await first.rewrite(first.stored.header, [])
            await second.append(1, [said(2, "second")], sync=True)
            with trio.CancelScope() as scope:
                scope.cancel()
                await first.append(1, [said(2, "given up" * 10_000)])  # what it may have left is cut off later
    assert [record.event.content for record in (await store.load("s")).records] == ["first", "second"]


@pytest.mark.parametrize(
    "words",
    [
        '{"pid": 5, "host": "h", "since": 1e300}',
        "[" * 4000,
        json.dumps({"pid": "\x1b[2J", "host": "h", "since": 1}),
        json.dumps({"pid": 5, "host": "h" * 3000, "since": 1}),
        "",
    ],
)
async def test_whatever_a_lock_file_says_its_session_is_in_use(tmp_path: Path, words: str) -> None:
    async with JsonlStore(tmp_path).open("s", create=True):
        (tmp_path / "s.lock").write_text(words)
        with pytest.raises(SessionInUse, match=r"^Session s is in use by another process\. Close it there first\.$"):
            async with JsonlStore(tmp_path).open("s", create=True):
                pass


async def test_a_journal_that_others_could_read_is_closed_to_them_when_it_is_continued(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s", create=True) as log:
        await log.append(0, [said(1, "first")])
    store.path_of("s").chmod(0o664)
    await store.load("s")
    assert store.path_of("s").stat().st_mode & 0o777 == 0o664
    async with store.open("s", create=False):
        assert store.path_of("s").stat().st_mode & 0o777 == 0o600
