"""Toad, a user interface in the terminal, as somebody sees it and types into it, inside tmux."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.clients.conftest import errors
from tests.transports.cli.conftest import PATIENCE, Model, Place

pytestmark = pytest.mark.clients


@dataclass
class Screen:
    """A tmux server of its own with one pane. `changes` becomes readable whenever something is drawn."""

    socket: Path
    changes: int

    async def tmux(self, *arguments: str) -> str:
        done = await trio.run_process(["tmux", "-S", str(self.socket), *arguments], capture_stdout=True)
        return done.stdout.decode()

    async def keys(self, *names: str) -> None:
        await self.tmux("send-keys", *names)

    async def type(self, text: str) -> None:
        await self.until("How can I help you today?")  # the empty prompt, which is away while it asks
        await self.tmux("send-keys", "-l", text)
        await self.until(text)
        await self.keys("Enter")

    async def until(self, words: str, *, gone: bool = False) -> str:
        """What is shown, once these words are in it; or no longer."""
        shown = ""
        with trio.move_on_after(PATIENCE):
            while True:
                shown = await self.tmux("capture-pane", "-p")
                if (words in shown) is not gone:
                    return shown
                await trio.lowlevel.wait_readable(self.changes)
                os.read(self.changes, 65_536)
        raise AssertionError(f"{words!r} {'stayed' if gone else 'never appeared'} in\n{shown}")


@pytest.fixture
def toad(installed: Path, place: Place, tmp_path: Path) -> Callable[..., Any]:
    """`async with toad("acp", ...) as screen`: the program in a terminal of 140 columns and 45 lines."""

    numbers = count()

    @asynccontextmanager
    async def start(*arguments: str) -> AsyncIterator[Screen]:
        place.home.mkdir(exist_ok=True)
        own = tmp_path / f"tmux{next(numbers)}"  # one that ends may still hold its socket
        own.mkdir()
        drawn = own / "drawn"
        os.mkfifo(drawn)
        screen = Screen(own / "socket", os.open(drawn, os.O_RDWR | os.O_NONBLOCK))
        variables = [f"{name}={value}" for name, value in place.environment.items() if name != "PYTHONPATH"]
        command = ["env", "-i", *variables, "TERM=tmux-256color", str(installed / "toad" / "bin" / "toad"), *arguments]
        size = ("-x", "140", "-y", "45")
        try:
            await screen.tmux("-f", "/dev/null", "new-session", "-d", *size, shlex.join(command))
            await screen.tmux("pipe-pane", "-o", f"cat > {shlex.quote(str(drawn))}")
            yield screen
        finally:
            with trio.CancelScope(shield=True):
                await trio.run_process(["tmux", "-S", str(screen.socket), "kill-server"], check=False)
            os.close(screen.changes)

    return start


async def test_a_session_with_a_tool_a_permission_a_cancel_and_a_resume(
    toad: Any, agent: Callable[..., Path], model: Model, place: Place
) -> None:
    model.calls("write_file", path="hello.txt", content="hi\n").says("It is written.")
    model.says("counting one ", "two", wait=trio.Event()).says("Here we are again.")
    program = shlex.quote(str(agent()))
    async with toad("acp", program, str(place.project)) as screen:
        await screen.until("Review")  # the mode: now the agent is there
        await screen.type("write it")
        shown = await screen.until("Allow once")
        for words in ("Write hello.txt", "Allow always", "Deny", "Deny always"):
            assert words in shown
        assert not (place.project / "hello.txt").exists()
        await screen.keys("a")
        await screen.until("It is written.")
        assert (place.project / "hello.txt").read_text() == "hi\n"

        await screen.type("count for ever")
        await screen.until("counting one")
        await screen.keys("Escape")
        await screen.until("again to cancel")
        await screen.keys("Escape")
        await screen.until("Turn cancelled")
        await screen.keys("C-q")

    async with toad(str(place.project)) as screen:
        await screen.until("Choose your fighter")
        await screen.keys("C-r")
        await screen.until("New Session")
        await screen.keys("Enter")
        await screen.until("counting one")
        await screen.type("go on")
        await screen.until("Here we are again.")
    said = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["write it", "count for ever", "go on"]
    assert errors(place).read_text() == ""
