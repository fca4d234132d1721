"""Clients that say what no client should: each request has one answer, and what is good goes on."""

from __future__ import annotations

import json
import os
import random

import pytest
import trio

from tests.transports.acp.test_cancels import CANCELLED, a_long_story, half_told

ENDS_WITHIN = 3.0  # seconds


# --- requests ---------------------------------------------------------------------------------


METHODS = ["new", "load", "resume", "fork", "list", "close", "delete", "prompt", "set_mode", "set_config_option"]
ODD = [None, True, 0, -1, 1.5, 1e400, 2**80, "", "x", "\0", "\ud800", "/", "../..", "a" * 5000, [], {}, [None], [[]]]
ODD += [[{"type": "text"}], [{"type": []}], [{"type": "resource", "resource": []}], [{"name": 1}], {"messageIndex": -1}]
ODD += [[{"type": "text", "text": command}] for command in ("/status", "/model \0\ud800", "/model ../../x", "/clear")]
ODD += [
    [{"type": "http", "url": 5, "name": "x"}],
    [{"name": "x", "command": "/nope", "args": [1], "env": [3]}],
    "read_only",
]
GOOD = {"mcpServers": [], "prompt": [{"type": "text", "text": "hi"}], "modeId": "auto", "configId": "mode"}
NAMES = ["sessionId", "cwd", "mcpServers", "cursor", "prompt", "modeId", "configId", "value", "type", "_meta"]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_the_parameters_are_each_request_has_one_answer(editor, place, model, seed):
    chance = random.Random(seed)
    model.says("Well.")
    async with editor("--yes", session={"configOptions": {"boolean": {}}}) as client:
        sessions = [await client.new(place.project) for _ in range(3)]
        good = {**GOOD, "cwd": str(place.project)}
        asked = []
        for _ in range(250):
            params = {name: chance.choice(ODD) for name in NAMES if chance.random() < 0.3}
            params |= {name: value for name, value in good.items() if chance.random() < 0.7}
            params |= {"sessionId": chance.choice(sessions)} if chance.random() < 0.85 else {}
            asked.append(await client.begin(f"session/{chance.choice(METHODS)}", **params))
            if chance.random() < 0.2:
                await client.notify("$/cancel_request", requestId=chance.choice(asked))
            if chance.random() < 0.2:
                await client.notify("session/cancel", sessionId=chance.choice(sessions))
        for number in asked:
            frame = await client.until(lambda frame, number=number: frame.get("id") == number)
            if "error" in frame:
                assert "Internal error" not in frame["error"]["message"]
        session = await client.new(place.project)
        assert await client.prompt(session, "go") == "end_turn"
        answers = [frame["id"] for frame in client.frames if "method" not in frame]
        assert sorted(answers) == sorted(set(answers))


async def test_an_error_repeats_only_the_beginning_of_what_it_is_about(editor):
    async with editor() as client:
        refused = await client.refusal("session/new", cwd="x" * 20_000_000)
        assert (refused.code, len(refused.message)) == (-32602, 4001)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999"])
async def test_an_id_that_could_not_be_said_again_is_none(editor, number):
    async with editor() as client:
        await client.write(b'{"jsonrpc":"2.0","id":' + number + b',"method":"authenticate"}\n')
        frame = await client.until(lambda frame: "error" in frame)
        assert (frame["id"], frame["error"]["code"]) == (None, -32600)


async def test_a_cancel_that_wants_an_answer_gets_one(editor, place):
    async with editor() as client:
        session = await client.new(place.project)
        assert await client.ask("session/cancel", sessionId=session) is None
        assert await client.ask("session/cancel", sessionId=[session]) is None
        assert await client.ask("$/cancel_request", requestId={}) is None


async def test_requests_with_the_same_id_are_all_answered(editor):
    async with editor() as client:
        for method in ("session/list", "authenticate", "session/list"):
            await client.send({"id": "same", "method": method})
        last = await client.begin("authenticate")
        await client.answer_to(last)
        await client.until(lambda frame: [one.get("id") for one in client.frames].count("same") == 3)


async def test_many_prompts_at_once_are_one_turn_and_refusals(editor, place, model):
    hold = trio.Event()
    model.says("Let me", " think.", wait=hold)
    async with editor() as client:
        session = await client.new(place.project)
        line = {"jsonrpc": "2.0", "method": "session/prompt"}
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        ids = [f"p{number}" for number in range(20)]
        await client.write(b"".join(json.dumps({**line, "id": one, "params": params}).encode() + b"\n" for one in ids))
        for one in ids[1:]:
            frame = await client.until(lambda frame, one=one: frame.get("id") == one)
            assert frame["error"]["code"] == -32600
        hold.set()
        frame = await client.until(lambda frame: frame.get("id") == "p0")
        assert frame["result"] == {"stopReason": "end_turn"}
        assert len(model.requests) == 1


# --- sessions ---------------------------------------------------------------------------------


async def test_files_that_are_no_sessions_do_not_stand_in_the_way_of_those_that_are(editor, place, model):
    model.says("Hi.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "hi")
        folder = place.home / "sessions"
        good = (folder / f"{session}.jsonl").read_text()
        (folder / "empty.jsonl").write_text("")
        (folder / "garbage.jsonl").write_bytes(os.urandom(5000))
        (folder / "late.jsonl").write_text(good.replace('"updated_at":', '"updated_at":1e300,"was":'))
        (folder / "folder.jsonl").mkdir()
        os.mkfifo(folder / "fifo.jsonl")
        (folder / "loop.jsonl").symlink_to("loop.jsonl")
        listed = (await client.ask("session/list"))["sessions"]
        assert session in [one["sessionId"] for one in listed]
        for name in ("garbage", "folder", "fifo", "loop"):
            params = {"sessionId": name, "cwd": str(place.project), "mcpServers": []}
            refused = await client.refusal("session/load", **params)
            assert "internal error" not in refused.message.lower()
        assert await client.prompt(session, "hi") == "end_turn"


async def test_a_session_that_another_process_has_open_is_neither_taken_nor_removed(editor, place):
    async with editor() as first, editor() as second:
        session = await first.new(place.project)
        params = {"sessionId": session, "cwd": str(place.project), "mcpServers": []}
        for method in ("session/load", "session/resume"):
            assert (await second.refusal(method, **params)).code == -32603
        assert (await second.refusal("session/delete", sessionId=session)).code == -32603
        assert (await second.refusal("session/close", sessionId=session)).code == -32002
        assert (await first.ask("session/set_mode", sessionId=session, modeId="auto")) == {}


async def test_a_session_that_was_deleted_is_gone_for_everything(editor, place, model):
    model.says("Hi.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.ask("session/delete", sessionId=session)
        await client.notify("session/cancel", sessionId=session)
        text = [{"type": "text", "text": "hi"}]
        assert (await client.refusal("session/prompt", sessionId=session, prompt=text)).code == -32002
        assert (await client.refusal("session/set_mode", sessionId=session, modeId="auto")).code == -32002
        params = {"sessionId": session, "cwd": str(place.project), "mcpServers": []}
        for method in ("session/load", "session/resume", "session/fork"):
            assert (await client.refusal(method, **params)).code == -32002
        assert list((place.home / "sessions").glob("*.jsonl")) == []


# --- answers ----------------------------------------------------------------------------------


async def test_answers_that_nobody_asked_for_change_nothing(editor, place, model):
    model.calls("bash", command="touch here").says("Well.")
    async with editor() as client:
        has_come = client.says_nothing_to("session/request_permission")
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "go")
        await has_come.wait()
        number = next(frame["id"] for frame in client.frames if frame.get("method") == "session/request_permission")
        yes = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        for request_id in (number + 1, -number, float(number) + 0.5, str(number), None, True, [number], {}):
            await client.send({"id": request_id, "result": yes})
        await client.send({"id": number, "result": {"outcome": {"outcome": "selected", "optionId": "sure"}}})
        await client.send({"id": number, "result": yes})
        assert await client.answer_to(prompt) == {"stopReason": "end_turn"}
        assert not (place.project / "here").exists()


async def test_a_yes_that_comes_after_the_cancel_runs_nothing(editor, place, model):
    model.calls("bash", command="touch here").says("Well.")
    async with editor() as client:
        has_come = client.says_nothing_to("session/request_permission")
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "go")
        await has_come.wait()
        number = next(frame["id"] for frame in client.frames if frame.get("method") == "session/request_permission")
        await client.notify("session/cancel", sessionId=session)
        yes = {"outcome": {"outcome": "selected", "optionId": "allow_always"}}
        await client.send({"id": number, "result": yes})
        assert await client.answer_to(prompt) == CANCELLED
        client.decides("reject_once")
        model.calls("bash", command="touch here").says("Well.")
        await client.prompt(session, "again")
        assert not (place.project / "here").exists()


@pytest.mark.parametrize(
    "result", [None, 5, [], {}, {"content": None}, {"content": ["x"]}, {"content": 7, "text": "x"}], ids=repr
)
async def test_a_file_of_the_client_that_is_no_text_is_read_from_the_disk(editor, place, model, result):
    place.write("a.txt", "on disk\n")
    model.calls("read_file", path="a.txt").says("Read.")
    async with editor(fs={"readTextFile": True}) as client:

        async def read(_):
            return result

        client.answers["fs/read_text_file"] = read
        await client.prompt(await client.new(place.project), "read")
        assert "on disk" in model.requests[-1]["messages"][-1]["content"]


async def test_an_answer_may_have_an_error_that_is_null(editor, place, model):
    file = place.write("a.txt", "on disk\n")
    model.calls("read_file", path="a.txt").says("Read.")
    async with editor(fs={"readTextFile": True}) as client:
        client.says_nothing_to("fs/read_text_file")
        prompt = await client.begin_prompt(await client.new(place.project), "read")
        asked = await client.until(lambda frame: frame.get("method") == "fs/read_text_file")
        assert asked["params"]["path"] == str(file)
        await client.send({"id": asked["id"], "result": {"content": "in the editor\n"}, "error": None})
        await client.answer_to(prompt)
        assert "in the editor" in model.requests[-1]["messages"][-1]["content"]


# --- ends -------------------------------------------------------------------------------------


async def test_half_a_line_at_the_end_of_the_input_is_a_line(editor):
    async with editor() as client:
        await client.write(b'{"jsonrpc":"2.0","id":"half","method":"authenticate"}')
        await client.close_input()
        assert (await client.until(lambda frame: frame.get("id") == "half"))["result"] == {}
        assert await client.end() == 0


async def test_a_client_that_reads_nothing_and_leaves_does_not_hold_the_end_up(editor, place, model):
    async with editor() as client:
        story = await a_long_story(client, place, model)
        model.says("Let me", " think.", wait=trio.Event())
        session = await client.new(place.project)
        await client.begin_prompt(session, "go")
        await model.asked.wait()
        await half_told(client, place, story)
        await client.begin_prompt(story, "behind it")
        started = trio.current_time()
        await client.close_input()
        assert await client.end() == 0
        assert trio.current_time() - started < ENDS_WITHIN


async def test_closing_a_session_that_nobody_reads_of_closes_it(editor, place, model):
    async with editor() as client:
        story, session = await a_long_story(client, place, model), await client.new(place.project)
        model.says("Let me", " think.", wait=trio.Event())
        prompt = await client.begin_prompt(session, "go")
        await client.update("agent_message_chunk", content={"type": "text", "text": "Let me"})
        loading = await half_told(client, place, story)
        closing = await client.begin("session/close", sessionId=session)
        client.go_on_reading()
        assert await client.answer_to(prompt) == CANCELLED
        assert await client.answer_to(closing) == {}
        assert await client.answer_to(loading)
