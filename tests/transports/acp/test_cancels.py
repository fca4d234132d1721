"""A cancel acts within a second in every state, and what it ends gets its answer."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

WITHIN = 1.0  # seconds
CANCELLED = {"stopReason": "cancelled"}
MCP = Path(__file__).parents[2] / "mcp" / "servers" / "plain.py"
FOUND = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


# --- a client that reads ----------------------------------------------------------------------


@dataclass
class Scene:
    """What a state is made from. Each function below leaves a prompt running in that state, and gives its id."""

    client: object
    session: str
    place: object
    model: object
    nursery: trio.Nursery
    let_go: Path | None = None  # a pipe: what is written there lets go on what has been waiting

    async def begin(self, text="go"):
        return await self.client.begin_prompt(self.session, text)


async def no_byte_of_the_model(scene):
    scene.model.says(wait=trio.Event())
    prompt = await scene.begin()
    await scene.model.asked.wait()
    return prompt


async def half_an_answer(scene):
    scene.model.says("Let me", " think.", wait=trio.Event())
    prompt = await scene.begin()
    await scene.client.update("agent_message_chunk")
    return prompt


async def half_a_thought(scene):
    scene.model.says("Yes.", thoughts="Hm.", wait=trio.Event())
    prompt = await scene.begin()
    await scene.client.update("agent_thought_chunk")
    return prompt


async def before_another_try(scene):
    scene.model.says("overloaded", status=503)
    prompt = await scene.begin()
    await scene.client.update("agent_thought_chunk")
    return prompt


async def a_command(scene):
    fifo = scene.place.project / "started"
    os.mkfifo(fifo)
    scene.model.calls("bash", command="echo > started; trap '' TERM; sleep 1000 & wait; wait")
    prompt = await scene.begin()
    await trio.to_thread.run_sync(fifo.read_text, abandon_on_cancel=True)
    return prompt


async def a_tool_of_an_mcp_server(scene):
    server = {"name": "plain", "command": sys.executable, "args": [str(MCP), json.dumps({"tools": ["hang"]})]}
    scene.session = await scene.client.new(scene.place.project, mcpServers=[{**server, "env": []}])
    scene.model.calls("hang")
    prompt = await scene.begin()
    await scene.client.until(lambda frame: "step 2" in json.dumps(frame))
    return prompt


async def an_mcp_server_that_does_not_answer(scene):
    scene.let_go = scene.place.project / "let_go"
    for pipe in (scene.place.project / "started", scene.let_go):
        os.mkfifo(pipe)
    script = 'echo > started; read _ < let_go; exec "$0" "$1" \'{}\''
    server = {"name": "late", "command": "sh", "args": ["-c", script, sys.executable, str(MCP)], "env": []}
    scene.model.says("Never.")
    scene.session = await scene.client.new(scene.place.project, mcpServers=[server])
    prompt = await scene.begin()
    await trio.to_thread.run_sync((scene.place.project / "started").read_text, abandon_on_cancel=True)
    return prompt


async def a_question(scene):
    scene.model.calls("bash", command="touch here")
    await scene.client.ask("session/set_mode", sessionId=scene.session, modeId="review")
    return await asked_for(scene, "session/request_permission")


async def a_file_of_the_client(scene):
    scene.place.write("a.txt", "alpha\n")
    scene.model.calls("read_file", path="a.txt")
    return await asked_for(scene, "fs/read_text_file")


async def a_file_that_the_client_writes(scene):
    scene.model.calls("write_file", path="a.txt", content="alpha\n")
    scene.client.answers["fs/read_text_file"] = nothing
    return await asked_for(scene, "fs/write_text_file")


async def a_terminal_that_is_not_there_yet(scene):
    scene.model.calls("acp_terminal", command="make")
    return await asked_for(scene, "terminal/create")


async def a_terminal_that_does_not_end(scene):
    scene.model.calls("acp_terminal", command="make")
    scene.client.answers |= {"terminal/create": terminal, "terminal/kill": nothing, "terminal/release": nothing}
    return await asked_for(scene, "terminal/wait_for_exit")


async def a_terminal_that_the_client_neither_ends_nor_takes_back(scene):
    scene.model.calls("acp_terminal", command="make")
    scene.client.answers["terminal/create"] = terminal
    for what in ("kill", "release"):
        scene.client.says_nothing_to(f"terminal/{what}")
    return await asked_for(scene, "terminal/wait_for_exit")


async def asked_for(scene, method):
    has_come = scene.client.says_nothing_to(method)
    prompt = await scene.begin()
    with trio.fail_after(30):
        await has_come.wait()
    return prompt


async def nothing(_):
    return {}


async def terminal(_):
    return {"terminalId": "t1"}


STATES = [
    no_byte_of_the_model,
    half_an_answer,
    half_a_thought,
    before_another_try,
    a_command,
    a_tool_of_an_mcp_server,
    an_mcp_server_that_does_not_answer,
    a_question,
    a_file_of_the_client,
    a_file_that_the_client_writes,
    a_terminal_that_is_not_there_yet,
    a_terminal_that_does_not_end,
    a_terminal_that_the_client_neither_ends_nor_takes_back,
]


@pytest.mark.covers("ACP-10")
@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
async def test_a_cancel_ends_a_prompt_in_every_state(editor, place, model, nursery, state, how):
    async with editor("--yes", **FOUND) as client:
        scene = Scene(client, await client.new(place.project), place, model, nursery)
        await client.ask("session/set_mode", sessionId=scene.session, modeId="auto")
        prompt = await state(scene)
        started = trio.current_time()
        if how == "session/cancel":
            await client.notify("session/cancel", sessionId=scene.session)
        else:
            await client.notify("$/cancel_request", requestId=prompt)
        assert await client.answer_to(prompt) == CANCELLED
        assert trio.current_time() - started < WITHIN
        at = len(client.frames)
        updates = client.updates(scene.session)
        begun = {one["toolCallId"] for one in updates if one["sessionUpdate"] == "tool_call"}
        assert begun == {one["toolCallId"] for one in updates if one.get("status") in ("completed", "failed")}
        assert not (place.project / "here").exists()
        if scene.let_go is not None:
            await trio.to_thread.run_sync(scene.let_go.write_text, "\n", abandon_on_cancel=True)
        model.says("Here again.")
        model._answers.popleft()
        assert await client.prompt(scene.session, "again") == "end_turn"
        assert client.text(scene.session, after=at) == "Here again."


@pytest.mark.covers("ACP-10")
async def test_a_cancel_that_meets_the_beginning_of_a_turn_is_the_last_of_it(editor, place, model):
    """However far the prompt has come: nothing of its turn is told behind its answer."""
    model.says("Let me", " think.", wait=trio.Event())
    async with editor() as client:
        session = await client.new(place.project)
        line = {"jsonrpc": "2.0", "method": "session/prompt"}
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        between = [{"jsonrpc": "2.0", "id": "x", "method": "session/list"}]
        for n in range(24):
            lines = [{**line, "id": f"p{n}", "params": params}, *between * (n % 8), cancel]
            await client.write(b"".join(json.dumps(one).encode() + b"\n" for one in lines))
            assert (await client.until(lambda frame, n=n: frame.get("id") == f"p{n}"))["result"] == CANCELLED
            at = placed(client, f"p{n}")
            await client.ask("session/set_config_option", sessionId=session, configId="mode", value="review")
            told = client.kinds(session, after=at)
            assert set(told) <= {"current_mode_update", "config_option_update"}


# --- a client that does not read --------------------------------------------------------------


async def a_long_story(client, place, model):
    """A session whose story fills every buffer between the program and a client that does not read."""
    model.says("x" * 3_000_000)
    session = await client.new(place.project)
    await client.prompt(session, "Tell me a long story.")
    model._answers.clear()
    return session


async def half_told(client, place, session):
    """Load it, and read no more as soon as the story begins: from here on the program can tell nothing."""
    at = len(client.frames)
    loading = await client.begin("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
    await client.update("user_message_chunk", after=at)
    client.stop_reading()
    return loading


def placed(client, number):
    """Where the answer to this request came."""
    return next(at for at, frame in enumerate(client.frames) if frame.get("id") == number and "method" not in frame)


@pytest.mark.covers("ACP-10")
async def test_prompts_behind_a_story_that_nobody_reads_are_cancelled_before_the_story_ends(editor, place, model):
    async with editor() as client:
        session = await a_long_story(client, place, model)
        asked = len(model.requests)
        model.says("Later.")
        loading = await half_told(client, place, session)
        early = [await client.begin_prompt(session, "go") for _ in range(3)]
        await client.notify("session/cancel", sessionId=session)
        late = await client.begin_prompt(session, "this one stays")
        client.go_on_reading()
        assert [await client.answer_to(prompt) for prompt in early] == [CANCELLED] * 3
        assert await client.answer_to(late) == {"stopReason": "end_turn"}
        assert max(placed(client, prompt) for prompt in early) < placed(client, loading) < placed(client, late)
        assert len(model.requests) == asked + 1


@pytest.mark.covers("ACP-10")
async def test_a_prompt_that_runs_while_nobody_reads_its_story_is_cancelled(editor, place, model):
    fifo = place.project / "alive"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    async with editor("--yes") as client, trio.lowlevel.FdStream(reading) as lifeline:
        session = await a_long_story(client, place, model)
        await client.ask("session/set_mode", sessionId=session, modeId="auto")
        model.calls("bash", command="exec 3> alive; echo started >&3; sleep 1000")
        prompt = await client.begin_prompt(session, "go")
        await trio.lowlevel.wait_readable(reading)
        assert await lifeline.receive_some() == b"started\n"
        loading = await half_told(client, place, session)
        await client.notify("session/cancel", sessionId=session)
        with trio.fail_after(WITHIN):
            assert await lifeline.receive_some() == b""
        client.go_on_reading()
        assert await client.answer_to(prompt) == CANCELLED
        assert await client.answer_to(loading)


@pytest.mark.covers("ACP-10")
@pytest.mark.parametrize("command", ["/status", "/tools", "/model", "/model generic/other", "/clear"])
async def test_a_slash_command_whose_answer_nobody_reads_is_cancelled(editor, place, model, command):
    async with editor() as client:
        story, session = await a_long_story(client, place, model), await client.new(place.project)
        loading = await half_told(client, place, story)
        prompt = await client.begin_prompt(session, command)
        behind = await client.begin("session/set_mode", sessionId=session, modeId="auto")
        await client.notify("session/cancel", sessionId=session)
        client.go_on_reading()
        assert await client.answer_to(prompt) == CANCELLED
        assert await client.answer_to(behind) == {}
        assert await client.answer_to(loading)
        assert placed(client, prompt) < placed(client, loading)


@pytest.mark.covers("ACP-10")
async def test_a_prompt_behind_a_change_of_mode_that_nobody_reads_of_is_cancelled(editor, place, model):
    async with editor() as client:
        story, session = await a_long_story(client, place, model), await client.new(place.project)
        asked = len(model.requests)
        model.says("Never.")
        loading = await half_told(client, place, story)
        changing = await client.begin("session/set_mode", sessionId=session, modeId="auto")
        prompt = await client.begin_prompt(session, "go")
        await client.notify("session/cancel", sessionId=session)
        client.go_on_reading()
        assert await client.answer_to(prompt) == CANCELLED
        assert await client.answer_to(changing) == {}
        assert await client.answer_to(loading)
        assert placed(client, prompt) < placed(client, loading)
        assert len(model.requests) == asked


@pytest.mark.covers("ACP-10")
async def test_a_cancel_before_anything_is_loaded_cancels(editor, place, model):
    model.says("Hi.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.close_input()
        await client.end()
    async with editor() as client:
        loading = await client.begin("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        prompt = await client.begin_prompt(session, "go")
        await client.notify("session/cancel", sessionId=session)
        assert await client.answer_to(prompt) == CANCELLED
        assert await client.answer_to(loading)
        assert placed(client, prompt) < placed(client, loading)
        assert model.requests == []
