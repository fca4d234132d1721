"""Servers that talk without end: they are read slowly."""

from __future__ import annotations

import pytest
import trio

from aar.mcp.connection import Connection
from aar.mcp.pace import LINES_AT_ONCE, LINES_PER_SECOND, LONGEST_PAUSE, Pace
from aar.processes.environment import child_environment


async def waited(pace: Pace, lines: int) -> float:
    before = trio.current_time()
    await pace.keep(lines)
    return trio.current_time() - before


async def test_a_burst_is_free_and_what_follows_is_read_at_its_pace(autojump_clock) -> None:
    pace = Pace()
    assert await waited(pace, LINES_AT_ONCE) == 0
    assert await waited(pace, LINES_PER_SECOND // 2) == pytest.approx(0.5)
    assert await waited(pace, LINES_PER_SECOND // 2) == pytest.approx(0.5)
    assert await waited(pace, 100 * LINES_PER_SECOND) == pytest.approx(LONGEST_PAUSE)
    await trio.sleep(1_000)
    assert await waited(pace, LINES_AT_ONCE) == 0


async def test_calls_are_answered_in_the_middle_of_a_flood(plain, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("aar.mcp.pace.LONGEST_PAUSE", 0.2)
    connection = Connection(plain(), cwd=str(tmp_path), env=child_environment())
    with trio.fail_after(60):
        async with connection.open():
            await connection.call("pour", {}, limit=100)
            for number in range(3):
                assert (await connection.call("echo", {"a": number}, limit=100)).text == f'{{"a": {number}}}'
