"""Disks that refuse, and disks that say nothing."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.errors import SessionInUse, StoreUnavailable
from aar.journal.jsonl import JsonlStore
from aar.journal.store import Header
from aar.messages.events import Recorded, UserMessage


def prompt(seq: int, text: str = "hi") -> Recorded:
    return Recorded(seq, "0123456789ab", UserMessage(content=text))


# --- disks that refuse --------------------------------------------------------------------------


async def test_a_folder_that_cannot_be_made_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = JsonlStore(tmp_path / "file" / "sessions")
    with pytest.raises(StoreUnavailable, match=r"file/sessions: Not a directory\. .*: choose another session_dir\."):
        async with store.open("s1", create=True):
            pass


async def test_a_session_that_found_no_room_for_its_lock_leaves_nothing_behind(tmp_path: Path, disk: Disk) -> None:
    disk.fail("pwrite", errno.ENOSPC)
    with pytest.raises(StoreUnavailable, match="free some space"):
        async with JsonlStore(tmp_path).open("s1", create=True):
            pass
    assert os.listdir(tmp_path) == []
    async with JsonlStore(tmp_path).open("s1", create=True) as log:
        await log.append(0, [prompt(1)])


class Disk:
    """Makes the next system calls of a kind fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def fail(self, name: str, number: int, times: int = 1) -> None:
        real = getattr(os, name)
        left = times

        def failing(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                return real(*arguments, **named)
            left -= 1
            raise OSError(number, os.strerror(number))

        self._monkeypatch.setattr(os, name, failing)

    def write_half_then_fail(self, number: int) -> None:
        real = os.write
        calls = iter([lambda file, data: real(file, data[: len(data) // 2]), self._error(number)])

        def failing(file: int, data: Any) -> int:
            return next(calls, real)(file, data)

        self._monkeypatch.setattr(os, "write", failing)

    @staticmethod
    def _error(number: int) -> Any:
        def fail(*_: Any) -> int:
            raise OSError(number, os.strerror(number))

        return fail


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(("number", "advice"), [(errno.ENOSPC, "free some space"), (errno.EIO, "check it")])
async def test_a_write_that_fails_half_way_leaves_nothing_behind(
    tmp_path: Path, disk: Disk, sync: bool, number: int, advice: str
) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s1", create=True) as log:
        await log.append(0, [prompt(1)])
        before = store.path_of("s1").read_bytes()
        disk.write_half_then_fail(number)
        with pytest.raises(StoreUnavailable, match=f"^Cannot write {store.path_of('s1')}: .*{advice}"):
            await log.append(1, [prompt(2)], sync=sync)
        assert store.path_of("s1").read_bytes() == before
        await log.append(1, [prompt(2), prompt(3)], sync=sync)
    assert [record.seq for record in (await store.load("s1")).records] == [1, 2, 3]


async def test_half_a_line_that_could_not_be_removed_is_removed_before_the_next_append(
    tmp_path: Path, disk: Disk
) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s1", create=True) as log:
        await log.append(0, [prompt(1)])
        disk.write_half_then_fail(errno.EIO)
        disk.fail("ftruncate", errno.EIO)
        with pytest.raises(StoreUnavailable):
            await log.append(1, [prompt(2)])
        assert len((await store.load("s1")).warnings) == 1
        await log.append(1, [prompt(2)])
        stored = await store.load("s1")
        assert ([record.seq for record in stored.records], stored.warnings) == ([1, 2], [])


async def test_half_a_line_that_could_not_be_removed_is_removed_when_the_session_closes(
    tmp_path: Path, disk: Disk
) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s1", create=True) as log:
        await log.append(0, [prompt(1)])
        disk.write_half_then_fail(errno.EIO)
        disk.fail("ftruncate", errno.EIO)
        with pytest.raises(StoreUnavailable):
            await log.append(1, [prompt(2)])
    stored = await store.load("s1")
    assert ([record.seq for record in stored.records], stored.warnings) == ([1], [])


async def test_after_a_failed_sync_the_file_is_checked_and_written_anew(tmp_path: Path, disk: Disk) -> None:
    store = JsonlStore(tmp_path)
    path = store.path_of("s1")
    async with store.open("s1", create=True) as log:
        await log.append(0, [prompt(1)])
        before = path.stat().st_ino
        disk.fail("fdatasync", errno.EIO)
        with pytest.raises(StoreUnavailable, match="check it"):
            await log.append(1, [prompt(2)], sync=True)
        assert [record.seq for record in (await store.load("s1")).records] == [1]
        disk.fail("fsync", errno.EIO)
        with pytest.raises(StoreUnavailable, match="check it"):
            await log.append(1, [prompt(2)])
        assert [record.seq for record in (await store.load("s1")).records] == [1]
        await log.append(1, [prompt(2)])
        assert path.stat().st_ino != before
        assert [record.seq for record in (await store.load("s1")).records] == [1, 2]


async def test_after_a_failed_sync_lost_lines_are_reported_and_not_written_over(tmp_path: Path, disk: Disk) -> None:
    store = JsonlStore(tmp_path)
    path = store.path_of("s1")
    async with store.open("s1", create=True) as log:
        await log.append(0, [prompt(1, "here"), prompt(2, "here")])
        disk.fail("fdatasync", errno.EIO)
        with pytest.raises(StoreUnavailable):
            await log.append(2, [prompt(3)], sync=True)
        lost = path.read_bytes()[:-20]
        path.write_bytes(lost)
        with pytest.raises(StoreUnavailable, match="lost lines"):
            await log.append(2, [prompt(3)])
        assert path.read_bytes() == lost


@pytest.mark.parametrize("sync", [False, True])
async def test_the_first_append_may_fail_and_be_tried_again(tmp_path: Path, disk: Disk, sync: bool) -> None:
    store = JsonlStore(tmp_path)
    disk.write_half_then_fail(errno.ENOSPC)
    async with store.open("s1", create=True) as log:
        with pytest.raises(StoreUnavailable):
            await log.append(0, [prompt(1)], header=Header("s1", step_count=1), sync=sync)
        await log.append(0, [prompt(1)], header=Header("s1", step_count=2), sync=sync)
    stored = await store.load("s1")
    assert (stored.header.step_count, [record.seq for record in stored.records]) == (2, [1])
    assert len(store.path_of("s1").read_bytes().splitlines()) == 2


async def test_a_rewrite_that_fails_leaves_the_old_file_and_its_session_goes_on(tmp_path: Path, disk: Disk) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s1", create=True) as log:
        await log.append(0, [prompt(1), prompt(2)])
        before = store.path_of("s1").read_bytes()
        disk.fail("fsync", errno.EIO)
        with pytest.raises(StoreUnavailable):
            await log.rewrite(Header("s1"), [prompt(2)])
        assert store.path_of("s1").read_bytes() == before
        await log.append(2, [prompt(3)])
        await log.rewrite(Header("s1"), [prompt(3)])
    assert [record.seq for record in (await store.load("s1")).records] == [3]
    assert os.listdir(tmp_path) == ["s1.jsonl"]


# --- disks that say nothing ---------------------------------------------------------------------


class SilentDisk:
    """The next write waits until `answer` is set; `asked` is set when it has begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Event()
        self.answer = threading.Event()
        real = os.write

        def write(file: int, data: Any) -> int:
            if not self.asked.is_set():
                self.asked.set()
                self.answer.wait(20)
            return real(file, data)

        monkeypatch.setattr(os, "write", write)


async def abandon_an_append(log: Any, disk: SilentDisk, seq: int, *, sync: bool) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def append() -> None:
                await log.append(seq - 1, [prompt(seq, "nobody waits for this")], sync=sync)

            nursery.start_soon(append)
            await trio.to_thread.run_sync(disk.asked.wait)
            scope.cancel()


async def append_as_soon_as_possible(log: Any, seq: int) -> None:
    with trio.fail_after(10):
        while True:
            try:
                return await log.append(seq - 1, [prompt(seq)])
            except StoreUnavailable:
                await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("sync", [False, True])
async def test_a_write_that_nobody_waits_for_any_more_never_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s1", create=True) as log:
        await log.append(0, [prompt(1)])
        disk = SilentDisk(monkeypatch)
        await abandon_an_append(log, disk, 2, sync=sync)
        with pytest.raises(StoreUnavailable, match="an earlier write has not come back"):
            await log.append(1, [prompt(2)])
        disk.answer.set()
        await append_as_soon_as_possible(log, 2)
        await log.append(2, [prompt(3)])
    records = (await store.load("s1")).records
    assert [record.event.content for record in records] == ["hi", "hi", "hi"]  # type: ignore[attr-defined]


async def test_other_sessions_get_on_while_one_write_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s1", create=True) as first, store.open("s2", create=True) as second:
        disk = SilentDisk(monkeypatch)
        await abandon_an_append(first, disk, 1, sync=True)
        with trio.fail_after(5):
            for seq in range(1, 4):
                await second.append(seq - 1, [prompt(seq)])
        disk.answer.set()


@pytest.mark.parametrize("sync", [False, True])
async def test_a_session_closed_during_a_hanging_write_is_free_when_the_write_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    store = JsonlStore(tmp_path)
    async with store.open("s1", create=True) as log:
        await log.append(0, [prompt(1)])
        disk = SilentDisk(monkeypatch)
        await abandon_an_append(log, disk, 2, sync=sync)
    with pytest.raises(SessionInUse):
        async with store.open("s1", create=False):
            pass
    disk.answer.set()
    with trio.fail_after(10):
        while True:
            try:
                async with store.open("s1", create=False) as log:
                    assert [record.seq for record in log.stored.records] == [1]
                    break
            except SessionInUse:
                await trio.lowlevel.checkpoint()
