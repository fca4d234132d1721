"""Tool calls as an editor sees them, and the questions that it is asked."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import trio

from tests.transports.acp.conftest import Refused

BROKEN = {"name": "broken", "command": "/no/such/program", "args": []}
PLAIN = Path(__file__).parents[2] / "mcp" / "servers" / "plain.py"


def shows(words):
    return lambda frame: words in str(frame.get("params", {}).get("update", {}).get("content"))


def of_call(client, session, *, after=0):
    return [one for one in client.updates(session, after=after) if one["sessionUpdate"].startswith("tool_call")]


@pytest.mark.covers("ACP-25", "ACP-26", "ACP-34", "ACP-44")
async def test_an_edit_is_shown_whole_asked_about_and_then_done(editor, place, model):
    file = place.write("src/a.py", "one = 1\ntwo = 2\n")
    model.calls("edit_file", path="src/a.py", old_string="two = 2", new_string="two = 3").says("Done.")
    async with editor() as client:
        client.decides("allow_once")
        session = await client.new(place.project)
        assert await client.prompt(session, "change it") == "end_turn"
        diff = {"type": "diff", "path": str(file), "oldText": "one = 1\ntwo = 2\n", "newText": "one = 1\ntwo = 3\n"}
        start, running, done = of_call(client, session)
        call_id = start["toolCallId"]
        shown = {
            "toolCallId": call_id,
            "title": "Edit src/a.py",
            "kind": "edit",
            "status": "pending",
            "rawInput": {"path": "src/a.py", "old_string": "two = 2", "new_string": "two = 3"},
            "locations": [{"path": str(file)}],
            "content": [diff],
        }
        assert start == {"sessionUpdate": "tool_call", **shown}
        assert running == {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "in_progress"}
        assert (done["status"], done["content"]) == ("completed", [diff])
        assert done["rawOutput"]["text"].startswith("Edited ")
        [(method, params)] = client.asked
        assert method == "session/request_permission"
        assert params == {
            "sessionId": session,
            "toolCall": shown,
            "options": [
                {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
                {"optionId": "allow_always", "name": "Allow always", "kind": "allow_always"},
                {"optionId": "reject_once", "name": "Deny", "kind": "reject_once"},
                {"optionId": "reject_always", "name": "Deny always", "kind": "reject_always"},
            ],
        }
        order = [frame.get("method") or "answer" for frame in client.frames]
        assert order.index("session/request_permission") > client.frames.index(
            next(frame for frame in client.frames if frame.get("params", {}).get("update") == start)
        )
        assert file.read_text() == "one = 1\ntwo = 3\n"


@pytest.mark.covers("ACP-25")
@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": {"outcome": "selected", "optionId": "reject_once"}},
        {"outcome": {"outcome": "selected", "optionId": "reject_always"}},
        {"outcome": {"outcome": "selected", "optionId": "deny"}},
        {"outcome": {"outcome": "selected", "optionId": "nonsense"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": "yes"},
        None,
    ],
    ids=str,
)
async def test_whatever_is_no_clear_yes_is_a_no(editor, place, model, answer):
    model.calls("write_file", path="new.txt", content="hello").says("Then not.")

    async def decide(_):
        return answer

    async with editor() as client:
        client.answers["session/request_permission"] = decide
        session = await client.new(place.project)
        assert await client.prompt(session, "write it") == "end_turn"
        start, end = of_call(client, session)
        assert start["content"] == [{"type": "diff", "path": str(place.project / "new.txt"), "newText": "hello"}]
        assert end["status"] == "failed"
        assert "denied by user" in end["content"][-1]["content"]["text"]
        assert not (place.project / "new.txt").exists()


async def test_a_client_that_cannot_be_asked_has_denied(editor, place, model):
    model.calls("bash", command="touch here").says("Then not.")
    async with editor() as client:

        async def refuse(_):
            raise Refused(-32601)

        client.answers["session/request_permission"] = refuse
        session = await client.new(place.project)
        await client.prompt(session, "run it")
        assert [one.get("status") for one in of_call(client, session)] == ["pending", "failed"]
        assert not (place.project / "here").exists()


@pytest.mark.covers("ACP-52")
@pytest.mark.parametrize(("option", "status"), [("allow_always", "completed"), ("reject_always", "failed")])
async def test_always_is_remembered_for_the_session(editor, place, model, option, status):
    for _ in range(3):
        model.calls("bash", command="echo hi").says("Done.")
    async with editor() as client:
        client.decides(option)
        session = await client.new(place.project)
        await client.prompt(session, "run it")
        at = len(client.frames)
        await client.prompt(session, "again")
        assert len(client.asked) == 1
        assert of_call(client, session, after=at)[-1]["status"] == status
        other = await client.new(place.project)
        await client.prompt(other, "run it")
        assert len(client.asked) == 2


@pytest.mark.covers("ACP-27")
async def test_a_question_that_nobody_answers_in_time_is_a_no_and_is_taken_back(editor, place, model):
    place.configure(safety={"acp_approval_timeout": 0.2})
    model.calls("bash", command="touch here").says("Then not.")
    async with editor() as client:
        client.says_nothing_to("session/request_permission")
        session = await client.new(place.project)
        assert await client.prompt(session, "run it") == "end_turn"
        asked = next(frame for frame in client.frames if frame.get("method") == "session/request_permission")
        taken_back = next(frame for frame in client.frames if frame.get("method") == "$/cancel_request")
        assert taken_back["params"] == {"requestId": asked["id"]}
        assert "nobody gave it in time" in of_call(client, session)[-1]["content"][-1]["content"]["text"]
        assert not (place.project / "here").exists()


async def test_a_time_limit_that_no_turn_can_reach_is_warned_of(editor, place):
    place.configure(timeout=5, safety={"acp_approval_timeout": 10})
    async with editor() as client:
        await client.new(place.project)
        assert "longer than a turn may take" in (place.project.parent / "stderr").read_text()


@pytest.mark.covers("ACP-44")
async def test_what_tools_give_is_shown_in_its_form(editor, place, model):
    place.write("a b.txt", "first\nsecond\n")
    model.calls("read_file", path="a b.txt", start_line=2)
    model.calls("bash", command="printf '# no heading'")
    model.calls("read_file", path="missing.txt")
    model.calls("write_file", path="n/new.txt", content="new\n")
    model.calls("write_file", path="a b.txt", content="third\n").says("Done.")
    async with editor("--yes") as client:
        session = await client.new(place.project)
        await client.prompt(session, "go")
        done = [one for one in of_call(client, session) if one.get("status") in ("completed", "failed")]
        assert [one["status"] for one in done] == ["completed", "completed", "failed", "completed", "completed"]
        uri = (place.project / "a b.txt").as_uri()
        read = {"uri": uri, "mimeType": "text/plain", "text": "[lines 2–2 of 2]\nsecond\n"}
        assert done[0]["content"] == [{"type": "content", "content": {"type": "resource", "resource": read}}]
        assert done[1]["content"][0]["content"]["text"].startswith("```\n# no heading")
        assert "File not found" in done[2]["content"][0]["content"]["text"]
        new = {"type": "diff", "path": str(place.project / "n/new.txt"), "newText": "new\n"}
        assert done[3]["content"] == [new]
        over = {"type": "diff", "path": str(place.project / "a b.txt"), "newText": "third\n"}
        assert done[4]["content"] == [{**over, "oldText": "first\nsecond\n"}]
        starts = [one for one in of_call(client, session) if one["sessionUpdate"] == "tool_call"]
        assert starts[0]["title"] == "Read a b.txt (from line 2)"
        assert starts[0]["locations"] == [{"path": str(place.project / "a b.txt"), "line": 2}]
        assert [one["kind"] for one in starts] == ["read", "execute", "read", "edit", "edit"]


@pytest.mark.covers("ACP-35")
async def test_the_plan_follows_what_tools_do(editor, place, model):
    place.write("a.txt", "alpha")
    model.calls("read_file", path="a.txt").calls("read_file", path="b.txt").calls("list_directory").says("Done.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "go")
        plans = [one["entries"] for one in client.updates(session) if one["sessionUpdate"] == "plan"]
        assert {entry["priority"] for plan in plans for entry in plan} == {"medium"}
        assert [[(entry["content"], entry["status"]) for entry in plan] for plan in plans] == [
            [("Read a.txt", "in_progress")],
            [("Read a.txt", "completed")],
            [("Read a.txt", "completed"), ("Read b.txt", "in_progress")],
            [("Read a.txt", "completed"), ("Read b.txt", "in_progress"), ("List .", "in_progress")],
            [("Read a.txt", "completed"), ("Read b.txt", "in_progress"), ("List .", "completed")],
        ]


async def test_calls_that_cannot_be_run_are_shown_and_end_as_failed(editor, place, model):
    model.calls("no_such_tool", x=1).calls("read_file").says("Well.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "go")
        shown = [(one["sessionUpdate"], one.get("title"), one.get("status")) for one in of_call(client, session)]
        assert shown == [
            ("tool_call", "no_such_tool", "pending"),
            ("tool_call_update", None, "failed"),
            ("tool_call", "read_file", "pending"),
            ("tool_call_update", None, "failed"),
        ]


async def test_output_of_a_running_command_is_shown_as_it_comes(editor, place, model):
    model.calls("bash", command="echo first; read line < go; echo second").says("Done.")
    os.mkfifo(place.project / "go")
    async with editor("--yes") as client:
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "run it")
        live = await client.until(shows("first"))
        assert "second" not in str(live["params"]["update"]["content"])
        await trio.Path(place.project / "go").write_text("go\n")
        await client.answer_to(prompt)
        last = of_call(client, session)[-1]
        assert (last["status"], "first\nsecond" in last["rawOutput"]["text"]) == ("completed", True)


async def test_a_client_that_shows_terminals_of_ours_gets_output_as_a_terminal(editor, place, model):
    model.calls("bash", command="echo first; echo second").says("Done.")
    async with editor("--yes", _meta={"terminal_output": True}) as client:
        session = await client.new(place.project)
        await client.prompt(session, "run it")
        start, *between, end = of_call(client, session)
        call_id = start["toolCallId"]
        assert start["content"] == [{"type": "terminal", "terminalId": call_id}]
        assert start["_meta"] == {"terminal_info": {"terminal_id": call_id, "cwd": str(place.project)}}
        shown = [one["_meta"]["terminal_output"] for one in between if "_meta" in one]
        assert "first\nsecond" in "".join(one["data"] for one in shown)
        assert end["content"] == start["content"]
        assert end["_meta"] == {"terminal_exit": {"terminal_id": call_id, "exit_code": 0, "signal": None}}


@pytest.mark.covers("ACP-41")
async def test_the_servers_of_an_editor_bring_their_tools(editor, place, model):
    entry = {"name": "plain", "command": sys.executable, "args": [str(PLAIN)], "env": []}
    model.calls("echo", text="hello").says("Done.")
    async with editor("--yes") as client:
        session = await client.new(place.project, mcpServers=[entry, {"type": "sse", "name": "old", "url": "http://x"}])
        await client.prompt(session, "use it")
        assert "'old' was left out" in client.text(session)
        names = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
        assert "echo" in names
        assert of_call(client, session)[-1]["status"] == "completed"


async def test_the_servers_of_the_user_are_there_as_well(editor, place, model):
    place.home.mkdir()
    entry = {"transport": "stdio", "command": sys.executable, "args": [str(PLAIN)]}
    (place.home / "mcp_servers.json").write_text(json.dumps([{"name": "mine", **entry}, {"name": "same", **entry}]))
    model.calls("echo", text="hello").says("Done.")
    same = {"name": "same", "command": "/no/such/program", "args": []}
    async with editor("--yes") as client:
        session = await client.new(place.project, mcpServers=[same])
        await client.until(shows("MCP setup failed"))
        await client.prompt(session, "use it")
        names = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
        assert [name for name in names if "echo" in name] == ["echo"]


@pytest.mark.covers("ACP-42")
async def test_a_server_that_cannot_be_started_is_told_and_nothing_else_fails(editor, place, model):
    model.says("I do without.")
    async with editor() as client:
        session = await client.new(place.project, mcpServers=[BROKEN])
        told = await client.until(lambda frame: "MCP setup failed for this session" in str(frame))
        assert "broken" in told["params"]["update"]["content"]["text"]
        assert await client.prompt(session, "go on") == "end_turn"


async def test_a_question_about_a_call_inside_of_another_shows_that_call(editor, place, model):
    place.configure(tools={"enabled_builtins": ["batch", "bash"]})
    model.calls("batch", calls=[{"tool": "bash", "arguments": {"command": "rm -rf build"}}]).says("Then not.")
    async with editor() as client:
        client.decides("reject_once")
        session = await client.new(place.project)
        assert await client.prompt(session, "clean up") == "end_turn"
        [(_, params)] = client.asked
        outer = of_call(client, session)[0]["toolCallId"]
    asked = params["toolCall"]
    assert "rm -rf build" in asked["title"]
    assert asked["rawInput"] == {"command": "rm -rf build"}
    assert asked["toolCallId"] != outer
