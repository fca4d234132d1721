"""Extensions at the terminal: their commands in a chat, and what is told of those that were not loaded."""

from __future__ import annotations

import re

import pytest

HELLO = """
import trio

def register(api):
    @api.command("Hello", description="Say hello.")
    async def hello(args, ctx):
        await trio.sleep(0)
        return f"Hello, {args or 'world'}."

    @api.command("fail")
    def fail(args, ctx):
        raise ValueError("no such thing")

    @api.command("evil", description="\\x1b[2Jall\\nis gone")
    def evil(args, ctx):
        return "\\x1b[2J"

    @api.command("model")
    def model(args, ctx):
        return "not this one: Aar has it"

    @api.on("user_message")
    def shout(text, ctx):
        return text.upper()
"""


@pytest.fixture
def hello(place) -> None:
    folder = place.home / "extensions"
    folder.mkdir(parents=True)
    (folder / "hello.py").write_text(HELLO)


@pytest.mark.covers("EXT-15", "EXT-16")
async def test_commands_of_extensions_are_run_in_a_chat(aar, model, flags, hello) -> None:
    model.says("Hi.")
    done = await aar("chat", *flags, stdin="/evil\n/HELLO  you \n/hello\n/fail\n/nosuch thing\n/model\n/help\nhi\n")
    assert (done.code, done.out) == (0, "Hi.\n")
    assert "Hello, you.\n" in done.err
    assert "Hello, world.\n" in done.err
    assert "Extension command error: no such thing" in done.err
    assert "Unknown command: /nosuch thing\n" in done.err
    assert "Active: generic/tiny" in done.err
    assert "\x1b[2J" not in done.err
    assert re.search("^/evil +all is gone$", done.err, re.MULTILINE)
    assert re.search("^/hello +Say hello.$", done.err, re.MULTILINE)
    assert model.requests[0]["messages"][-1]["content"] == "HI"
    assert len(model.requests) == 1


async def test_a_run_has_extensions_and_tells_of_those_that_nobody_trusts(aar, model, flags, hello, place) -> None:
    place.write(".agent/extensions/evil.py", "import os\nos._exit(3)\n")
    model.says("Hi.")
    done = await aar("run", "hi", *flags)
    assert (done.code, done.out) == (0, "Hi.\n")
    assert "aar: The extension evil of this project was not loaded" in done.err
    assert "`aar extensions trust evil`" in done.err
    assert model.requests[0]["messages"][-1]["content"] == "HI"


async def test_ctrl_c_ends_a_command_that_runs_and_the_chat_goes_on(terminal, model, flags, place) -> None:
    folder = place.home / "extensions"
    folder.mkdir(parents=True)
    (folder / "slow.py").write_text(
        "import sys, trio\n"
        "def register(api):\n"
        "    @api.command('wait')\n"
        "    async def wait(args, ctx):\n"
        "        sys.stderr.write('waiting now\\n')\n"
        "        await trio.sleep_forever()\n"
    )
    model.says("Hi.")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("/wait\r")
        await screen.until("waiting now")
        await screen.type("\x03")
        await screen.until("/wait was cancelled.")
        await screen.until("> ")
        await screen.type("hi\r")
        await screen.until("Hi.")
        await screen.until("> ")
        await screen.type("/quit\r")
        assert await screen.end() == 0
