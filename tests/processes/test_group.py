from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from aar.processes.group import open_process
from aar.processes.guard import open_guard
from aar.processes.orphans import reap_stale
from tests.processes.standing import told_where_it_stands

ENV = {"PATH": os.environ["PATH"]}

AAR_THAT_IS_KILLED = """
import sys, trio
from aar.processes.environment import child_environment
from aar.processes.group import open_process
from aar.processes.guard import open_guard

async def main(command):
    async with open_guard() as guard:
        async with open_process(["bash", "-c", command], cwd="/", env=child_environment(), stdin="pipe") as process:
            stays = (await process.stdout.receive_some()).decode().strip()
            if command.endswith("; read go"):
                await process.stdin.aclose()  # not earlier: what Aar has read while it started does not come again
                await trio.lowlevel.wait_readable(process._control)  # its exit status stays unread
            print(stays, process.pid, guard.pid, flush=True)
            await trio.sleep_forever()

trio.run(main, sys.argv[1])
"""


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie (whose parent may be somebody else)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def first_line(stream: trio.abc.ReceiveStream | None) -> str:
    assert stream is not None
    received = b""
    while not received.endswith(b"\n"):
        chunk = await stream.receive_some()
        assert chunk, "the command ended before it wrote a line"
        received += chunk
    return received.decode()


async def first_pid(stream: trio.abc.ReceiveStream | None) -> int:
    return int(await first_line(stream))


@pytest.fixture
async def guard() -> AsyncIterator[None]:
    async with open_guard():
        yield


# --- nothing stays ----------------------------------------------------------------------------


async def test_nothing_is_alive_after_the_block(stubborn: str, guard: None) -> None:
    async with open_process(["bash", "-c", stubborn], cwd="/", env=ENV) as process:
        stays = await first_pid(process.stdout)
    assert not is_alive(stays)
    assert not is_alive(process.pid)


@pytest.mark.covers("LOOP-11", "SBX-10")
async def test_nothing_is_alive_after_a_cancel(stubborn: str, guard: None) -> None:
    stays = 0
    with trio.CancelScope() as scope:
        async with open_process(["bash", "-c", stubborn], cwd="/", env=ENV) as process:
            stays = await first_pid(process.stdout)
            scope.cancel()
            cancelled_at = trio.current_time()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not is_alive(stays)
    assert not is_alive(process.pid)
    assert trio.current_time() - cancelled_at < 4


async def test_nothing_is_alive_after_an_error_in_the_block(guard: None) -> None:
    stays = 0

    async def fail() -> None:
        nonlocal stays
        async with open_process(["sh", "-c", "echo $$; exec sleep 1000"], cwd="/", env=ENV) as process:
            stays = await first_pid(process.stdout)
            raise RuntimeError("bug")

    with pytest.raises(RuntimeError, match="bug"):
        await fail()
    assert not is_alive(stays)


@pytest.mark.covers("SBX-10")
async def test_nothing_is_alive_soon_after_aar_was_killed(stubborn: str) -> None:
    async with told_where_it_stands(seconds=60), open_aar(stubborn) as aar:
        stays, leader, guard = [int(word) for word in (await first_line(aar.stdout)).split()]
        keeper = parent_of(leader)
        aar.kill()
        with trio.fail_after(3):
            await has_ended(aar.pid)
            if "-KILL $PPID" in stubborn:
                assert await reap_stale() == []  # the next Aar does this when it starts
                keeper = leader
            for pid in (stays, leader, guard, keeper):
                await has_ended(pid)


@asynccontextmanager
async def open_aar(command: str) -> AsyncIterator[trio.Process]:
    """A program that runs the command, writes three process ids, and waits to be killed."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", AAR_THAT_IS_KILLED, command]
    aar = await trio.lowlevel.open_process(words, stdout=subprocess.PIPE, env=variables)
    try:
        yield aar
    finally:
        aar.kill()
        with trio.move_on_after(10, shield=True):
            await aar.wait()
        assert aar.stdout is not None
        await aar.stdout.aclose()


async def test_what_a_command_leaves_in_the_background_ends_with_the_block(guard: None) -> None:
    async with open_process(["bash", "-c", "sleep 1000 & echo $!"], cwd="/", env=ENV) as process:
        left = await first_pid(process.stdout)
        assert await process.wait() == 0
        assert is_alive(left)
    assert not is_alive(left)


async def test_one_command_ends_without_touching_another(guard: None) -> None:
    async with open_process(["cat"], cwd="/", env=ENV, stdin="pipe") as stays:
        async with open_process(["cat"], cwd="/", env=ENV, stdin="pipe"):
            pass
        assert stays.stdin is not None
        await stays.stdin.send_all(b"still here")
        assert await stays.stdout.receive_some() == b"still here"


async def test_a_polite_command_may_say_goodbye(guard: None, tmp_path: Path) -> None:
    script = "trap 'echo bye > note; exit' TERM; echo $$; while :; do sleep 0.01; done"
    async with open_process(["bash", "-c", script], cwd=str(tmp_path), env=ENV, term_grace=5) as process:
        await first_pid(process.stdout)
    assert (tmp_path / "note").read_text() == "bye\n"


async def test_commands_leave_no_zombies_and_no_descriptors(guard: None) -> None:
    async def run() -> None:
        async with open_process(["sh", "-c", "setsid -f true; true"], cwd="/", env=ENV) as process:
            await process.wait()

    await run()  # starts the guard
    before = os.listdir("/proc/self/fd")
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(run)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    children = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent_of(pid) == os.getpid()]
    assert [pid for pid in children if not is_alive(pid)] == []


# --- starting ---------------------------------------------------------------------------------


async def test_the_command_has_a_session_of_its_own_and_only_the_standard_descriptors(guard: None) -> None:
    look = "import os; print(os.getpid() == os.getsid(0) == os.getpgrp(), sorted(os.listdir('/proc/self/fd'))[:-1])"
    async with open_process([sys.executable, "-c", look], cwd="/", env=ENV) as process:
        assert await everything(process.stdout) == b"True ['0', '1', '2']\n"


async def test_signals_that_python_ignores_are_not_ignored_by_the_command(guard: None) -> None:
    async with open_process(["grep", "SigIgn", "/proc/self/status"], cwd="/", env=ENV) as process:
        ignored = int((await everything(process.stdout)).split()[1], 16)
    assert [
        number for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD) if ignored & (1 << (number - 1))
    ] == []


async def test_the_environment_is_the_given_one_and_a_marker(guard: None) -> None:
    async with open_process(["env"], cwd="/", env={"ONE": "1", "PATH": ENV["PATH"]}, marker="me") as process:
        assert sorted((await everything(process.stdout)).splitlines()) == [
            b"AAR_PROCESS=me",
            b"ONE=1",
            f"PATH={ENV['PATH']}".encode(),
        ]


async def test_arguments_that_are_no_utf8_arrive_unchanged(guard: None) -> None:
    word = os.fsdecode(b"\xff\xfe ")
    async with open_process(["printf", "%s", word], cwd="/", env=ENV) as process:
        assert await everything(process.stdout) == b"\xff\xfe "


@pytest.mark.parametrize(
    ("argv", "cwd", "number", "named"),
    [
        (["no-such-program"], "/", errno.ENOENT, "no-such-program"),
        ([__file__], "/", errno.EACCES, __file__),
        (["true"], "/no/such/folder", errno.ENOENT, "/no/such/folder"),
        (["true", "x" * 4_000_000], "/", errno.E2BIG, "true"),
    ],
)
async def test_a_command_that_cannot_start_raises_what_is_wrong_with_what(
    argv: list[str], cwd: str, number: int, named: str, guard: None
) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is compared below
        async with open_process(argv, cwd=cwd, env=ENV):
            raise AssertionError("unreachable")
    assert (caught.value.errno, caught.value.filename) == (number, named)


@pytest.mark.parametrize("place", ["argument", "name", "value", "folder"])
async def test_a_nul_character_is_refused_before_anything_starts(place: str) -> None:
    nul = "a\0b"
    with pytest.raises(ValueError, match="NUL"):
        async with open_process(
            ["echo", nul if place == "argument" else ""],
            cwd=nul if place == "folder" else "/",
            env={nul if place == "name" else "NAME": nul if place == "value" else ""},
        ):
            raise AssertionError("unreachable")


# --- talking ----------------------------------------------------------------------------------


async def test_standard_input_is_empty_and_there_is_no_terminal(guard: None) -> None:
    script = "cat; tty; (: </dev/tty) 2>/dev/null || echo no terminal"
    async with open_process(["sh", "-c", script], cwd="/", env=ENV) as process:
        assert process.stdin is None
        assert await everything(process.stdout) == b"not a tty\nno terminal\n"


async def test_bytes_for_standard_input_need_nobody_to_feed_them(guard: None) -> None:
    async with open_process(["wc", "-c"], cwd="/", env=ENV, stdin=b"x" * 1_000_000) as process:
        assert await everything(process.stdout) == b"1000000\n"


async def test_the_two_outputs_are_apart_or_merged(guard: None) -> None:
    script = ["sh", "-c", "echo out; echo err >&2"]
    async with open_process(script, cwd="/", env=ENV) as process:
        assert await everything(process.stdout) == b"out\n"
        assert await everything(process.stderr) == b"err\n"
    async with open_process(script, cwd="/", env=ENV, merge_stderr=True) as process:
        assert process.stderr is None
        assert await everything(process.stdout) == b"out\nerr\n"


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill $$", -15)])
async def test_wait_gives_the_exit_status_or_the_signal(script: str, status: int, guard: None) -> None:
    async with open_process(["sh", "-c", script], cwd="/", env=ENV) as process:
        assert await process.wait() == status
        assert process.returncode == status
        assert process.statistics().returncode == status
    assert process.returncode == status


async def test_the_exit_status_is_known_after_the_block_and_unknown_before(guard: None) -> None:
    async with open_process(["sleep", "1000"], cwd="/", env=ENV) as process:
        assert process.returncode is None
        assert (process.statistics().pid, process.statistics().returncode) == (process.pid, None)
    assert process.returncode == -signal.SIGTERM


async def test_several_tasks_may_wait_and_a_cancelled_wait_loses_nothing(guard: None) -> None:
    statuses = []

    async def note() -> None:
        statuses.append(await process.wait())

    async with open_process(["cat"], cwd="/", env=ENV, stdin="pipe") as process, trio.open_nursery() as nursery:
        nursery.start_soon(note)
        nursery.start_soon(note)
        with trio.move_on_after(0):
            await process.wait()
        assert process.stdin is not None
        await process.stdin.aclose()
    assert statuses == [0, 0]


async def everything(stream: trio.lowlevel.FdStream | None) -> bytes:
    assert stream is not None
    return b"".join([chunk async for chunk in stream])


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


async def has_ended(pid: int) -> None:
    """Wait until the process is gone or a zombie."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
