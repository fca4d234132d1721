from __future__ import annotations

import os
import resource
import subprocess

import pytest
import trio

from aar.processes.orphans import MARKER, _is_stale, end_marked, new_marker, reap_stale


async def start(marker: str) -> trio.Process:
    """A process that no keeper looks after."""
    return await trio.lowlevel.open_process(
        ["sleep", "1000"], env={**os.environ, MARKER: marker}, stdin=subprocess.DEVNULL, start_new_session=True
    )


async def test_whoever_carries_the_marker_is_ended_and_nobody_else() -> None:
    marker = new_marker()
    marked, other = await start(marker), await start(new_marker())
    assert await end_marked(marker) == []
    with trio.fail_after(10):
        assert await marked.wait() == -9
    assert other.returncode is None
    other.kill()
    await other.wait()


async def test_markers_differ() -> None:
    assert len({new_marker() for _ in range(100)}) == 100


@pytest.mark.parametrize("owner", ["dead", "reused id"])
async def test_children_of_a_dead_aar_are_stale_and_ours_are_not(owner: str) -> None:
    namespace, _, rest = new_marker().partition(":")
    ours, random = rest.split(":")
    pid, started = ours.split("-")
    dead = 2**22 + 1  # above the highest process id that Linux gives
    stale = await start(
        f"{namespace}:{dead}-{started}:{random}" if owner == "dead" else f"{namespace}:{pid}-1:{random}"
    )
    living = await start(new_marker())
    elsewhere = await start(f"1{namespace}:{dead}-{started}:{random}")
    garbage = await start("nonsense")
    assert await reap_stale() == []
    with trio.fail_after(10):
        assert await stale.wait() == -9
    for process in (living, elsewhere, garbage):
        assert process.returncode is None
        process.kill()
        await process.wait()


def test_nobody_is_taken_for_dead_where_descriptors_are_short() -> None:
    marker = new_marker()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        is_stale = _is_stale(marker)
        with pytest.raises(OSError, match="Too many open files"):
            new_marker()  # and not one that others would take for that of a dead Aar
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not is_stale
