"""A server that cannot be had is tried again: soon at first, then seldom."""

from __future__ import annotations

import logging

import pytest
import trio

import aar.actors.mcp_server as service
from aar.kernel import Child, open_supervisor
from aar.messages.mcp import McpServer
from aar.processes.environment import child_environment
from aar.processes.guard import current_guard


class Attempts(logging.Handler):
    """When each attempt had failed, by Trio's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.times.append(trio.current_time())


@pytest.fixture
def attempts(caplog):
    caplog.set_level(logging.INFO, service.__name__)
    handler = Attempts()
    service.logger.addHandler(handler)
    yield handler
    service.logger.removeHandler(handler)


async def test_the_wait_between_two_attempts_doubles_from_half_a_second_to_half_a_minute(
    autojump_clock, attempts, tmp_path
) -> None:
    silent = McpServer(name="silent", command="sleep", args=("10000",))
    async with current_guard(), open_supervisor() as supervisor:
        supervisor.start(Child("mcp", service.mcp_server(silent, str(tmp_path), child_environment())))
        await trio.sleep(260)
        await supervisor.stop("mcp")
    between = [later - earlier for earlier, later in zip(attempts.times, attempts.times[1:], strict=False)]
    waits = [time - service.CONNECT_TIMEOUT for time in between[:8]]
    ending = 3  # seconds that it may take to end the program
    for wait, wanted in zip(waits, [0.5, 1, 2, 4, 8, 16, 30, 30], strict=True):
        assert wanted - 0.1 <= wait <= wanted + ending
