from __future__ import annotations

import json

import pytest

from aar.transports.terminal.session_commands import SESSION
from aar.transports.terminal.slash import CHAT


def saved(err: str) -> str:
    [line] = [line for line in err.splitlines() if line.startswith("Session saved: ")]
    return line.removeprefix("Session saved: ")


@pytest.mark.covers("CLI-03")
async def test_two_turns_share_a_session(aar, model, flags, place):
    model.says("Hello.").says("Again.")
    done = await aar("chat", *flags, stdin="hi\n\n   \nthere\n")
    assert (done.code, done.out) == (0, "Hello.\nAgain.\n")
    said = [(message["role"], message["content"]) for message in model.requests[1]["messages"][-3:]]
    assert said == [("user", "hi"), ("assistant", "Hello."), ("user", "there")]
    assert [file.stem for file in (place.home / "sessions").glob("*.jsonl")] == [saved(done.err)]


@pytest.mark.covers("CLI-04")
@pytest.mark.parametrize("end", ["/quit\nhi\n", ""])
async def test_a_chat_ends_at_quit_and_at_the_end_of_input(aar, model, flags, end):
    model.says("Hello.")
    done = await aar("chat", *flags, stdin=f"hi\n{end}")
    assert (done.code, done.out, len(model.requests)) == (0, "Hello.\n", 1)
    assert saved(done.err)


async def test_a_chat_in_which_nobody_said_anything_leaves_no_session(aar, model, flags, place):
    done = await aar("chat", *flags, stdin="/help\n")
    assert (done.code, "Session saved" in done.err) == (0, False)
    assert [file.name for file in (place.home / "sessions").glob("*")] == []


async def test_a_chat_can_go_on_with_a_session(aar, model, flags):
    model.says("One.").says("Two.")
    session_id = saved((await aar("chat", *flags, stdin="first\n")).err)
    done = await aar("chat", "--session", session_id, *flags, stdin="second\n")
    assert f"Resumed session {session_id}\n" in done.err
    assert [m["content"] for m in model.requests[1]["messages"] if m["role"] == "user"] == ["first", "second"]


async def test_a_chat_that_goes_on_after_a_kill_says_that_a_turn_was_interrupted(aar, model, flags, place):
    model.says("One.")
    session_id = saved((await aar("chat", *flags, stdin="first\n")).err)
    file = place.home / "sessions" / f"{session_id}.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    [end] = [at for at, line in enumerate(lines) if '"turn_ended"' in line]
    file.write_text("".join(lines[:end]))
    done = [await aar("chat", "--continue", *flags, stdin="again\n") for _ in range(2)]
    resumed = f"Resumed session {session_id}\n"
    assert [f"{resumed}Its last turn was interrupted.\n" in one.err for one in done] == [True, False]
    assert resumed in done[1].err


@pytest.mark.covers("CLI-05")
async def test_a_chat_with_a_session_that_does_not_exist_is_an_error(aar, model, flags):
    done = await aar("chat", "--session", "nosuch", *flags, stdin="hi\n")
    assert (done.code, done.err) == (1, "aar: Session nosuch not found. `aar sessions` lists those that are stored.\n")


async def test_a_failed_turn_does_not_end_the_chat(aar, model, flags):
    model.says("wrong key", status=401).says("Hello.")
    done = await aar("chat", *flags, stdin="hi\nagain\n")
    assert (done.code, done.out) == (0, "Hello.\n")
    assert "Error\n" in done.err


@pytest.mark.covers("CLI-08")
async def test_model_shows_and_switches(aar, model, flags, place):
    here = {"name": "generic", "base_url": model.url}
    place.configure(provider="small", providers={"small": {**here, "model": "s"}, "big": {**here, "model": "b"}})
    model.says("ok")
    done = await aar("chat", stdin="/model\n/model big\n/model\nhi\n/model nosuch/model\n")
    assert "Active: generic/s\n  * small  generic/s\n    big  generic/b\n" in done.err
    assert "Switched to generic/b\n" in done.err
    assert "Active: generic/b\n    small  generic/s\n  * big  generic/b\n" in done.err
    assert model.requests[0]["model"] == "b"


async def test_model_without_profiles_says_so_and_an_unknown_provider_is_refused(aar, model, place):
    place.configure(provider={"name": "anthropic", "model": "claude-x", "api_key": "k"})
    model.says("ok")
    done = await aar("chat", stdin="/model\n/model nosuch/model\n")
    assert "Active: anthropic/claude-x\n  No profiles" in done.err
    assert "There is no provider or profile 'nosuch'." in done.err


@pytest.mark.covers("CLI-09")
async def test_an_unknown_command_is_named(aar, model, flags):
    model.says("ok")
    done = await aar("chat", *flags, stdin="/foo bar\n")
    assert "Unknown command: /foo bar\n/model [NAME] " in done.err
    assert model.requests == []


async def test_help_in_a_chat_lists_its_commands(aar, model, flags):
    model.says("ok")
    done = await aar("chat", *flags, stdin="/help\n")
    shown = [line.split()[0] for line in done.err.splitlines() if line.startswith("/")]
    assert shown == [command.usage.split()[0] for command in (*CHAT, *SESSION)]
    assert {"/model", "/status", "/tools", "/policy", "/clear", "/help", "/quit"} <= set(shown)
    assert model.requests == []


async def test_chat_attaches_files(aar, model, flags, place):
    place.write("notes.txt", "remember the milk")
    model.says("ok")
    await aar("chat", *flags, stdin="look at @notes.txt\n")
    assert "remember the milk" in json.dumps(model.requests[0]["messages"])


async def test_a_message_whose_file_is_missing_is_not_sent_and_the_chat_goes_on(aar, model, flags, place):
    model.says("Hello.")
    done = await aar("chat", *flags, stdin="look at @gone.txt\nhi\n")
    assert (done.code, done.out) == (0, "Hello.\n")
    assert f"File not found: {place.project}/gone.txt. Nothing was sent: " in done.err
    assert [request["messages"][-1]["content"] for request in model.requests] == ["hi"]
