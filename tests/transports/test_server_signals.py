"""Signals for servers: while they load, while they look for a model, once they serve, and after `nohup`."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from aar.transports.program.exits import Told
from aar.transports.program.stopping import open_stop
from tests.transports.cli.conftest import ROOT, Model, Place, flags, model, place, started

__all__ = ["flags", "model", "place", "started"]

SERVERS = {
    "http": ["acp", "--http", "--port", "0"],
    "web": ["serve", "--port", "0"],
    "mcp": ["mcp"],
    "mcp http": ["mcp", "--http", "--port", "0"],
}
NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


async def told(stream: Any, pattern: str) -> str:
    """Read until this was told."""
    data = b""
    while not (found := re.search(pattern, data.decode(errors="replace"))):
        piece = await stream.receive_some()
        assert piece, data
        data += piece
    return found.group()


@pytest.fixture
def slow(place: Place, tmp_path: Path) -> Callable[[str], None]:
    """`slow("trio")`: importing this takes for ever, and says so."""

    def make(package: str) -> None:
        folder = tmp_path / "slow" / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("import sys, time\nprint('loading', file=sys.stderr)\ntime.sleep(600)\n")
        place.variables["PYTHONPATH"] = f"{folder.parent}:{ROOT}"

    return make


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("server", "package"),
    [("http", "trio"), ("http", "hypercorn"), ("mcp", "trio"), ("mcp", "mcp"), ("mcp http", "hypercorn")],
)
async def test_a_signal_while_it_loads_ends_it_with_the_code_of_the_signal(
    started: Any, flags: list[str], slow: Any, server: str, package: str, number: int
) -> None:
    slow(package)
    async with started(*SERVERS[server], *flags, stdin=subprocess.PIPE) as process:
        await told(process.stderr, "loading")
        process.send_signal(number)
        assert await process.wait() == 128 + number
        assert b"Traceback" not in await process.stderr.receive_some()


async def test_a_signal_cuts_short_what_comes_before_serving_and_lets_it_clean_up() -> None:
    cleaned_up = False

    async def find_a_model() -> None:
        nonlocal cleaned_up
        try:
            signal.raise_signal(signal.SIGTERM)
            await trio.sleep_forever()
        finally:
            cleaned_up = True

    with pytest.RaisesGroup(pytest.RaisesExc(Told, check=lambda told: told.code == 143)):
        async with open_stop() as stop:
            await stop.before(find_a_model)
    assert cleaned_up


async def test_what_is_done_before_serving_gives_what_it_found() -> None:
    async def find_a_model() -> str:
        return "tiny"

    async with open_stop() as stop:
        assert await stop.before(find_a_model) == "tiny"
        signal.raise_signal(signal.SIGINT)
        await stop.asked.wait()


async def test_a_server_that_breaks_before_it_serves_has_failed_and_was_not_signalled() -> None:
    broken = trio.Event()
    async with trio.open_nursery() as nursery:
        async with open_stop() as stop:
            nursery.start_soon(stop.by_event, broken)
            broken.set()
            with pytest.raises(Told) as told:
                await stop.before(trio.sleep_forever)
        assert told.value.code == 1


async def test_after_nohup_it_stays_when_its_terminal_is_closed(started: Any, flags: list[str], model: Model) -> None:
    was = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with started(*SERVERS["http"], *flags, cold=True) as process:  # which inherits what is ignored
            signal.signal(signal.SIGHUP, was)
            url = await told(process.stderr, r"http://\S+:\d+")
            process.send_signal(signal.SIGHUP)
            async with httpx2.AsyncClient(base_url=url) as http:
                assert (await http.get("/ping")).status_code == 200
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        signal.signal(signal.SIGHUP, was)
