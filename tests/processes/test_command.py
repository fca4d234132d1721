from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from aar.processes.command import Finished, run_command
from aar.processes.guard import open_guard

ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture(autouse=True)
async def guard() -> AsyncIterator[None]:
    async with open_guard():
        yield


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie (whose parent may be somebody else)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def peak_memory_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


def forget_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def test_output_and_exit_status_come_back() -> None:
    finished = await run_command(
        ["sh", "-c", "echo out; echo err >&2; exit 3"], cwd="/", env=ENV, timeout=60, output_limit=1000
    )
    assert finished == Finished("out\n", "err\n", 3, timed_out=False)


async def test_standard_input_is_empty() -> None:
    assert await run_command(["cat"], cwd="/", env=ENV, timeout=60, output_limit=10) == Finished("", "", 0, False)


@pytest.mark.covers("TOOL-25")
async def test_a_timeout_keeps_what_was_written_and_leaves_nothing(
    stubborn: str, mock_clock: trio.testing.MockClock
) -> None:
    def time_flies(_: str) -> None:
        mock_clock.jump(60)

    mock_clock.rate = 1.0  # cleaning up has limits of its own
    script = f"{stubborn}; sleep 1000"
    finished = await run_command(
        ["bash", "-c", script], cwd="/", env=ENV, timeout=60, output_limit=1000, report=time_flies
    )
    if "-KILL $PPID" not in stubborn:  # whoever kills its keeper is killed with it, often before its time is up
        assert (finished.exit_code, finished.timed_out) == (-1, True)
    assert not is_alive(int(finished.stdout))


async def test_a_background_process_that_holds_the_pipes_does_not_hold_the_result() -> None:
    with trio.fail_after(10):
        finished = await run_command(
            ["sh", "-c", "sleep 1000 & echo done"], cwd="/", env=ENV, timeout=None, output_limit=1000
        )
    assert finished == Finished("done\n", "", 0, timed_out=False)


async def test_everything_written_before_the_end_is_read_although_the_pipe_stays_open() -> None:
    script = "sleep 1000 & head -c 60000 /dev/zero | tr '\\0' x"
    finished = await run_command(["bash", "-c", script], cwd="/", env=ENV, timeout=None, output_limit=100_000)
    assert finished.stdout == "x" * 60_000


async def test_a_quarter_of_a_gigabyte_of_output_needs_no_more_memory_than_its_limit() -> None:
    await run_command(["true"], cwd="/", env=ENV, timeout=60, output_limit=10)
    forget_peak_memory()
    before = peak_memory_mb()
    finished = await run_command(
        ["bash", "-c", "(echo first; yes; ) | head -c 268435456; echo last"],
        cwd="/",
        env=ENV,
        timeout=None,
        output_limit=10_000,
    )
    assert peak_memory_mb() - before < 16
    assert len(finished.stdout) <= 10_000
    assert finished.stdout.startswith("first\ny\n")
    assert finished.stdout.endswith("y\nlast\n")
    assert "characters left out" in finished.stdout


async def test_one_line_without_end_needs_no_more_memory_than_its_limit() -> None:
    forget_peak_memory()
    before = peak_memory_mb()
    finished = await run_command(
        ["head", "-c", "134217728", "/dev/zero"], cwd="/", env=ENV, timeout=None, output_limit=1000
    )
    assert peak_memory_mb() - before < 16
    assert len(finished.stdout) <= 1000


async def test_bytes_that_are_no_text_are_replaced() -> None:
    finished = await run_command(["printf", r"a\377b\342\202"], cwd="/", env=ENV, timeout=60, output_limit=100)
    assert finished.stdout == "a\ufffdb\ufffd"


async def test_characters_that_are_cut_between_two_reads_stay_whole() -> None:
    reported: list[str] = []
    finished = await run_command(
        ["bash", "-c", "yes €€ | head -c 700000"],
        cwd="/",
        env=ENV,
        timeout=60,
        output_limit=1_000_000,
        report=reported.append,
    )
    assert finished.stdout == "€€\n" * 100_000
    assert "".join(reported) == finished.stdout


async def test_live_output_is_both_streams_and_ends_at_the_limit(tmp_path: Path) -> None:
    reported: list[str] = []
    gate = tmp_path / "gate"  # the flood begins when the first line was seen: two pipes have no order of their own
    os.mkfifo(gate)
    opened = os.open(gate, os.O_RDWR)

    def report(text: str) -> None:
        if not reported:
            os.write(opened, b"go\n")
        reported.append(text)

    try:
        await run_command(
            ["sh", "-c", f"echo err >&2; read _ < {gate}; yes | head -c 1000000"],
            cwd="/",
            env=ENV,
            timeout=60,
            output_limit=500,
            report=report,
        )
    finally:
        os.close(opened)
    assert len("".join(reported)) == 500
    assert "err\n" in "".join(reported)


async def test_a_cancel_goes_through_at_once_although_output_pours() -> None:
    with trio.fail_after(10), trio.CancelScope() as scope:
        await run_command(["yes"], cwd="/", env=ENV, timeout=None, output_limit=100, report=lambda _: scope.cancel())
    assert scope.cancelled_caught


async def test_many_commands_at_once_keep_their_outputs_apart() -> None:
    results: dict[int, str] = {}

    async def run(number: int) -> None:
        finished = await run_command(["echo", str(number)], cwd="/", env=ENV, timeout=60, output_limit=100)
        results[number] = finished.stdout

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(run, number)
    assert results == {number: f"{number}\n" for number in range(30)}
