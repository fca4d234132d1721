"""What a chat takes one after the other as if it were typed: a file, or the same again."""

from __future__ import annotations

import json

import pytest
import trio


@pytest.mark.covers("AURA-105")
async def test_a_list_of_inputs_is_taken_as_if_it_were_typed(aar, model, flags, place):
    place.write("list.json", json.dumps(["one", "/status", "two @Bash[touch made]", "/replay list.json", "three"]))
    model.says("1").says("2").says("3")
    done = await aar("chat", "--yes", *flags, stdin="/replay list.json\nlast\n")
    assert (done.code, done.out) == (0, "1\n2\n3\n")
    said = [message["content"] for message in model.requests[2]["messages"] if message["role"] == "user"]
    assert said == ["one", "two @Bash[touch made]", "last"]
    assert "> one\n" in done.err
    assert "cannot begin another one" in done.err
    assert not (place.project / "made").exists()


@pytest.mark.covers("AURA-116")
async def test_until_goes_on_with_the_model_until_it_holds(aar, model, flags, place):
    model.says("no").calls("write_file", path="done", content="x").says("yes").says("bye")
    done = await aar("chat", "--yes", *flags, stdin="/until exists:done go on\nend\n")
    assert (done.code, done.out) == (0, "no\nyes\nbye\n")
    said = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["go on", "go on", "end"]


async def test_ctrl_c_ends_what_is_repeated(terminal, model, flags):
    model.says("first", wait=trio.Event())
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("/until auto go\n")
        await screen.until("first")
        await screen.type("\x03")
        await screen.until("Agent cancelled")
        await screen.until("> ")
        await screen.type("/quit\n")
        assert await screen.end() == 0
    assert len(model.requests) == 1


async def test_a_failed_turn_ends_what_is_repeated(aar, model, flags):
    model.says("wrong key", status=401).says("ok")
    done = await aar("chat", *flags, stdin="/until turns_gt:5 go\nhi\n")
    assert (done.code, done.out, len(model.requests)) == (0, "ok\n", 2)
