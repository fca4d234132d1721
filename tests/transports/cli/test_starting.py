"""What stands where, from the first line of a start to its last: plain text for pipes, a line that moves for people."""

from __future__ import annotations

import pytest

SLOW = """
import time

def register(api):
    time.sleep(1.2)
"""


@pytest.mark.covers("AURA-30")
async def test_lines_of_a_script_give_a_transcript_without_an_escape_code(aar, model, flags):
    model.says("Hello **there**.").calls("list_directory", text="Let me look.", path=".").says("Nothing here.")
    done = await aar("chat", *flags, stdin="hi\nlook\n/quit\nnever\n")
    assert (done.code, done.out) == (0, "Hello **there**.\nLet me look.\nNothing here.\n")
    assert "Tool: list_directory\n  path: .\n" in done.err
    assert "\x1b" not in done.out + done.err
    assert len(model.requests) == 3


@pytest.mark.covers("AURA-31")
async def test_standard_output_of_a_task_has_what_the_assistant_says_and_nothing_else(aar, model, flags):
    model.calls("list_directory", text="Let me look.", path=".").says("Nothing here.", thoughts="Hm.")
    done = await aar("run", "look", *flags)
    assert (done.code, done.out) == (0, "Let me look.\nNothing here.\n")
    for told in ("Tool: list_directory", "Result: list_directory", "thinking", "(10in / 5out)", "Session: "):
        assert told in done.err


@pytest.mark.covers("AURA-34")
async def test_a_start_that_takes_its_time_is_told_on_a_terminal_and_gone_before_anything_else(
    terminal, aar, model, flags, place
):
    model.says("Hello.")
    folder = place.home / "extensions"
    folder.mkdir(parents=True)
    (folder / "slow.py").write_text(SLOW)
    async with terminal("chat", *flags) as screen:
        await screen.until("starting … ")
        await screen.until("Ready.")
        assert screen.raw.rindex("starting") < screen.raw.rindex("\x1b[K") < screen.raw.index("Ready.")
        await screen.until("> ")
        await screen.type("/quit\r")
        assert await screen.end() == 0
    done = await aar("run", "hi", *flags)
    assert (done.out, "starting" in done.err) == ("Hello.\n", False)
