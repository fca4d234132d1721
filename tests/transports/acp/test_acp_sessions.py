"""Sessions of an editor: opening, finding, loading, forking and closing them."""

from __future__ import annotations

import json

import pytest
import trio

from aar.journal.jsonl import JsonlStore
from aar.testing import open_test_runtime


def texts(updates, kind):
    return [update["content"]["text"] for update in updates if update["sessionUpdate"] == kind]


@pytest.mark.covers("ACP-03", "ACP-38")
async def test_a_new_session_has_an_id_modes_options_a_file_and_its_commands_once(editor, place, model):
    model.says("Hi.")
    async with editor() as client:
        answer = await client.ask("session/new", cwd=str(place.project), mcpServers=[])
        session = answer["sessionId"]
        assert answer["modes"]["currentModeId"] == "review"
        assert [mode["id"] for mode in answer["modes"]["availableModes"]] == ["auto", "review", "read-only"]
        assert [option["id"] for option in answer["configOptions"]] == ["model", "mode"]
        first = (place.home / "sessions" / f"{session}.jsonl").read_text().splitlines()[0]
        assert json.loads(first)["metadata"]["cwd"] == str(place.project)
        await client.prompt(session, "hello")
        await client.prompt(session, "again")
        assert client.kinds(session).count("available_commands_update") == 1
        commands = await client.update("available_commands_update")
        assert [one["name"] for one in commands["availableCommands"]] == ["model", "status", "tools", "policy", "clear"]


async def test_nothing_is_told_of_a_session_before_its_id_is_known(editor, place):
    async with editor() as client:
        number = await client.begin("session/new", cwd=str(place.project), mcpServers=[{"type": "sse", "name": "old"}])
        session = (await client.answer_to(number))["sessionId"]
        await client.update("agent_message_chunk")
        assert [frame.get("id") for frame in client.frames[1:]] == [number, None, None]
        assert client.kinds(session) == ["available_commands_update", "agent_message_chunk"]
        assert "SSE" in client.text(session)


@pytest.mark.parametrize(
    "params",
    [{}, {"cwd": "relative"}, {"cwd": 3}, {"cwd": "/no/such/folder"}, {"cwd": "/", "mcpServers": "x"}],
    ids=str,
)
async def test_a_session_needs_a_folder_that_is_there(editor, params):
    async with editor() as client:
        assert (await client.refusal("session/new", **params)).code == -32602


@pytest.mark.covers("ACP-47")
async def test_each_session_works_in_its_own_folder_wherever_the_program_was_started(editor, place, model, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name.txt").write_text(f"this is {name}")
    model.calls("read_file", path="name.txt").says("Read.").calls("read_file", path="name.txt").says("Read.")
    async with editor(cwd=place.home.parent) as client:
        sessions = [await client.new(tmp_path / name) for name in ("one", "two")]
        for session in sessions:
            assert await client.prompt(session, "read it") == "end_turn"
        for session, name in zip(sessions, ("one", "two"), strict=True):
            call, *_ = [one for one in client.updates(session) if one["sessionUpdate"] == "tool_call"]
            assert call["locations"] == [{"path": str(tmp_path / name / "name.txt")}]
            done = [one for one in client.updates(session) if one.get("status") == "completed"]
            assert done[0]["content"][0]["content"]["resource"]["text"] == f"this is {name}"


@pytest.mark.covers("ACP-04")
async def test_loading_tells_the_whole_story_before_the_answer_and_runs_nothing(editor, place, model):
    place.write("a.txt", "alpha\n")
    model.calls("read_file", "Let me look.", path="a.txt").says("It says alpha.", thoughts="Hm.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "What is in a.txt?")
        asked = len(model.requests)
        await client.close_input()
        await client.end()
    async with editor() as client:
        await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        answered = next(at for at, frame in enumerate(client.frames) if frame.get("id") == 2)
        told = [frame["params"]["update"] for frame in client.frames[1:answered]]
        assert [one["sessionUpdate"] for one in told] == [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_thought_chunk",
            "agent_message_chunk",
            "plan",
        ]
        assert texts(told, "user_message_chunk") == ["What is in a.txt?"]
        assert texts(told, "agent_message_chunk") == ["Let me look.", "It says alpha."]
        assert texts(told, "agent_thought_chunk") == ["Hm."]
        assert (told[2]["title"], told[3]["status"]) == ("Read a.txt", "completed")
        assert told[-1]["entries"] == [{"content": "Read a.txt", "priority": "medium", "status": "completed"}]
        assert len(model.requests) == asked
        model.says("Yes, alpha.")
        assert await client.prompt(session, "Are you sure?") == "end_turn"
        assert [one["role"] for one in model.requests[-1]["messages"]].count("user") == 2


@pytest.mark.covers("ACP-05", "ACP-15")
@pytest.mark.parametrize("session", ["0123456789abcdef", "../../etc/passwd", "a b"])
async def test_a_session_that_there_is_none_of_is_an_error_and_never_a_new_one(editor, place, session):
    params = {"sessionId": session, "cwd": str(place.project), "mcpServers": []}
    async with editor() as client:
        loading = await client.refusal("session/load", **params)
        assert (loading.code, loading.message) == (-32002, f"Session not found: {session}")
        resuming = await client.refusal("session/resume", **params)
        assert resuming.message == f"Cannot resume: session '{session}' not found"
        forking = await client.refusal("session/fork", **params)
        assert forking.message == f"Cannot fork: session '{session}' not found"
        prompt = [{"type": "text", "text": "hi"}]
        assert (await client.refusal("session/prompt", sessionId=session, prompt=prompt)).code == -32002
        assert (await client.refusal("session/set_mode", sessionId=session, modeId="auto")).code == -32002
        option = {"sessionId": session, "configId": "mode", "value": "auto"}
        assert (await client.refusal("session/set_config_option", **option)).code == -32002
        assert (await client.refusal("session/close", sessionId=session)).code == -32002
        assert client.updates() == []
        assert await client.ask("session/list") == {"sessions": []}


@pytest.mark.covers("ACP-06")
async def test_sessions_are_listed_newest_first_with_title_and_folder(editor, place, model, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    model.says("The first answer of all,\n" + "which is long " * 20).says("Another answer.").says("More.")
    async with editor() as client:
        first, second, third = [await client.new(folder) for folder in (place.project, other, place.project)]
        for session in (first, second, third, first):
            await client.prompt(session, "hello")
        listed = (await client.ask("session/list"))["sessions"]
        assert [one["sessionId"] for one in listed] == [first, third, second]
        assert [one["cwd"] for one in listed] == [str(place.project), str(place.project), str(other)]
        assert listed[0]["title"].startswith("The first answer of all, which is long")
        assert len(listed[0]["title"]) <= 60
        assert all(one["updatedAt"].endswith("Z") for one in listed)
        info = [one for one in client.updates(first) if one["sessionUpdate"] == "session_info_update"]
        assert {one["title"] for one in info} == {listed[0]["title"]}
        inside = (await client.ask("session/list", cwd=str(other)))["sessions"]
        assert [one["sessionId"] for one in inside] == [second]
        assert await client.ask("session/list", cwd="/nowhere") == {"sessions": []}
        assert (await client.refusal("session/list", cursor="nonsense")).code == -32602


async def test_a_long_list_comes_in_pages(editor, place):
    async with open_test_runtime(store=JsonlStore(place.home / "sessions")) as runtime:
        ids = {(await runtime.sessions.open(str(place.project))).session_id for _ in range(101)}
    async with editor() as client:
        first = await client.ask("session/list")
        second = await client.ask("session/list", cursor=first["nextCursor"])
        assert (len(first["sessions"]), len(second["sessions"])) == (100, 1)
        assert {one["sessionId"] for page in (first, second) for one in page["sessions"]} == ids
        assert "nextCursor" not in second


@pytest.mark.covers("ACP-07")
async def test_closing_cancels_the_prompt_which_gets_its_own_answer_first(editor, place, model):
    model.says("Let me", " think.", wait=trio.Event()).says("Here I am.")
    async with editor() as client:
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "hello")
        await client.update("agent_message_chunk")
        closing = await client.begin("session/close", sessionId=session)
        assert await client.answer_to(closing) == {}
        assert await client.answer_to(prompt) == {"stopReason": "cancelled"}
        answers = [frame["id"] for frame in client.frames if "result" in frame]
        assert answers[-2:] == [prompt, closing]
        again = await client.refusal("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hi"}])
        assert again.code == -32002
        assert [one["sessionId"] for one in (await client.ask("session/list"))["sessions"]] == [session]
        await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert await client.prompt(session, "still there?") == "end_turn"


async def test_deleting_closes_and_removes_and_may_be_repeated(editor, place, model):
    model.says("Let me", " think.", wait=trio.Event())
    async with editor() as client:
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "hello")
        await client.update("agent_message_chunk")
        assert await client.ask("session/delete", sessionId=session) == {}
        assert await client.answer_to(prompt) == {"stopReason": "cancelled"}
        assert await client.ask("session/delete", sessionId=session) == {}
        assert await client.ask("session/list") == {"sessions": []}
        assert list((place.home / "sessions").glob("*.jsonl")) == []


@pytest.mark.covers("ACP-13")
async def test_a_fork_has_the_history_and_the_mode_of_its_parent(editor, place, model):
    model.says("One.").says("Two.")
    async with editor() as client:
        parent = await client.new(place.project)
        await client.prompt(parent, "first")
        await client.ask("session/set_mode", sessionId=parent, modeId="auto")
        answer = await client.ask("session/fork", sessionId=parent, cwd=str(place.project), mcpServers=[])
        fork = answer["sessionId"]
        assert fork != parent
        assert answer["modes"]["currentModeId"] == "auto"
        assert client.text(fork) == ""
        await client.prompt(fork, "second")
        said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] != "system"]
        assert said == ["first", "One.", "second"]
        short = {"sessionId": parent, "cwd": str(place.project), "_meta": {"messageIndex": 1}}
        await client.prompt((await client.ask("session/fork", **short))["sessionId"], "other")
        said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"]
        assert said == ["first", "other"]


async def test_what_another_process_was_allowed_does_not_come_along_with_a_fork(editor, place, model):
    model.calls("write_file", path="a.txt", content="x").says("Done.").calls("write_file", path="b.txt", content="x")
    model.says("Done.")
    async with editor() as client:
        client.decides("allow_always")
        parent = await client.new(place.project)
        await client.ask("session/set_mode", sessionId=parent, modeId="review")
        await client.prompt(parent, "write")
        await client.close_input()
        await client.end()
    async with editor() as client:
        client.decides("reject_once")
        fork = await client.ask("session/fork", sessionId=parent, cwd=str(place.project), mcpServers=[])
        await client.prompt(fork["sessionId"], "write again")
        assert len(client.asked) == 1
        assert not (place.project / "b.txt").exists()


@pytest.mark.covers("ACP-14")
async def test_resuming_tells_nothing_of_what_was(editor, place, model):
    model.says("One.").says("Two.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "first")
        await client.close_input()
        await client.end()
    async with editor() as client:
        state = await client.ask("session/resume", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert set(state) == {"modes", "configOptions"}
        assert client.kinds(session) in ([], ["available_commands_update"])
        await client.prompt(session, "second")
        assert client.text(session) == "Two."
        assert [one["content"] for one in model.requests[-1]["messages"]][-3:] == ["first", "One.", "second"]


async def test_a_session_that_is_open_may_be_loaded_again_while_it_works(editor, place, model):
    hold = trio.Event()
    model.says("First.").says("Let me", " think.", wait=hold)
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "one")
        prompt = await client.begin_prompt(session, "two")
        await client.update("agent_message_chunk", content={"type": "text", "text": "Let me"})
        at = len(client.frames)
        await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert texts(client.updates(session, after=at), "user_message_chunk") == ["one", "two"]
        hold.set()
        assert await client.answer_to(prompt) == {"stopReason": "end_turn"}
        assert texts(client.updates(session, after=at), "agent_message_chunk") == ["First.", "Let me think."]


async def test_a_session_of_another_process_cannot_be_taken(editor, place):
    async with editor() as first, editor() as second:
        session = await first.new(place.project)
        refused = await second.refusal("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert refused.code == -32603
        assert session in refused.message
