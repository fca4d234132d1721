"""Files and terminals of the editor."""

from __future__ import annotations

import pytest
import trio

from tests.transports.acp.conftest import Refused, is_update

READING = {"fs": {"readTextFile": True}}
FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}
TERMINALS = {"terminal": True}


def results(client, session):
    return [one for one in client.updates(session) if one.get("status") in ("completed", "failed")]


def methods(client):
    return [method for method, _ in client.asked if method != "session/request_permission"]


def serve_files(client, buffers, written=None):
    async def read(params):
        if params["path"] not in buffers:
            raise Refused(-32002, "not found")
        return {"content": buffers[params["path"]]}

    async def write(params):
        buffers[params["path"]] = params["content"]
        if written is not None:
            written.append(params)

    client.answers |= {"fs/read_text_file": read, "fs/write_text_file": write}


@pytest.mark.covers("ACP-31")
async def test_files_are_read_as_they_stand_in_the_editor(editor, place, model):
    file = place.write("a.txt", "old\n")
    model.calls("read_file", path="a.txt").says("Read.")
    async with editor(**READING) as client:
        serve_files(client, {str(file): "not saved yet\n"})
        session = await client.new(place.project)
        await client.prompt(session, "read")
        assert client.asked == [("fs/read_text_file", {"sessionId": session, "path": str(file)})]
        assert "     1\tnot saved yet" in model.requests[-1]["messages"][-1]["content"]
        assert results(client, session)[0]["content"][0]["content"]["resource"]["text"] == "not saved yet\n"


async def test_the_editor_hears_of_files_by_the_names_that_its_user_sees(editor, place, model, tmp_path):
    place.write("a.txt", "text\n")
    (tmp_path / "link").symlink_to(place.project)
    model.calls("read_file", path="a.txt").says("Read.")
    async with editor(**READING) as client:
        serve_files(client, {str(tmp_path / "link" / "a.txt"): "from the editor\n"})
        await client.prompt(await client.new(tmp_path / "link"), "read")
        assert "from the editor" in model.requests[-1]["messages"][-1]["content"]


async def test_without_the_capability_the_disk_is_read(editor, place, model):
    place.write("a.txt", "on disk\n")
    model.calls("read_file", path="a.txt").says("Read.")
    async with editor() as client:
        await client.prompt(await client.new(place.project), "read")
        assert client.asked == []
        assert "on disk" in model.requests[-1]["messages"][-1]["content"]


@pytest.mark.parametrize("content", [None, ""], ids=["an error", "an empty text"])
async def test_where_the_editor_cannot_read_the_disk_is_read(editor, place, model, content):
    place.write("a.txt", "on disk\n")
    model.calls("read_file", path="a.txt").says("Read.")
    async with editor(**READING) as client:
        serve_files(client, {} if content is None else {str(place.project / "a.txt"): content})
        await client.prompt(await client.new(place.project), "read")
        assert methods(client) == ["fs/read_text_file"]
        assert "on disk" in model.requests[-1]["messages"][-1]["content"]


async def test_the_rules_come_before_the_editor(editor, place, model):
    place.write(".env", "KEY=1\n")
    for path in (".env", "/etc/passwd", "missing.txt"):
        model.calls("read_file", path=path)
    model.calls("write_file", path=".env", content="x").says("Well.")
    async with editor("--yes", **FILES) as client:
        serve_files(client, {})
        session = await client.new(place.project)
        await client.prompt(session, "read")
        assert client.asked == []
        assert [one["status"] for one in results(client, session)] == ["failed"] * 4


async def test_an_edit_works_on_what_the_editor_has_and_is_written_there(editor, place, model):
    file = place.write("a.txt", "one\ntwo\n")
    model.calls("edit_file", path="a.txt", old_string="unsaved", new_string="edited")
    model.calls("write_file", path="new/b.txt", content="b\n").says("Done.")
    buffers = {str(file): "one\nunsaved\n"}
    async with editor("--yes", **FILES) as client:
        serve_files(client, buffers)
        session = await client.new(place.project)
        await client.prompt(session, "edit")
        assert methods(client) == ["fs/read_text_file", "fs/write_text_file", "fs/write_text_file"]
        assert buffers == {str(file): "one\nedited\n", str(place.project / "new/b.txt"): "b\n"}
        assert file.read_text() == "one\ntwo\n"
        assert (place.project / "new").is_dir()
        edited, written = results(client, session)
        change = {"type": "diff", "path": str(file), "oldText": "one\nunsaved\n", "newText": "one\nedited\n"}
        assert (edited["status"], edited["content"]) == ("completed", [change])
        assert written["status"] == "completed"


async def test_what_the_editor_refuses_to_write_has_failed(editor, place, model):
    model.calls("write_file", path="a.txt", content="x").says("Well.")
    async with editor("--yes", **FILES) as client:

        async def refuse(_):
            raise Refused(-32603, "the buffer is locked")

        client.answers["fs/write_text_file"] = refuse
        session = await client.new(place.project)
        await client.prompt(session, "write")
        [end] = results(client, session)
        assert end["status"] == "failed"
        assert "the buffer is locked" in end["rawOutput"]["text"]
        assert not (place.project / "a.txt").exists()


# --- terminals --------------------------------------------------------------------------------


def serve_terminals(client, *, output, ended, truncated=False):
    async def create(_):
        return {"terminalId": "t1"}

    async def wait(_):
        if ended is None:
            await trio.sleep_forever()
        return ended

    async def say(_):
        return {"output": output, "truncated": truncated, "exitStatus": ended}

    async def nothing(_):
        return {}

    client.answers |= {
        "terminal/create": create,
        "terminal/wait_for_exit": wait,
        "terminal/output": say,
        "terminal/kill": nothing,
        "terminal/release": nothing,
    }


@pytest.mark.covers("ACP-29")
@pytest.mark.parametrize(("capabilities", "is_there"), [(TERMINALS, True), ({}, False), ({"terminal": False}, False)])
async def test_there_are_terminals_only_where_the_client_has_them(editor, place, model, capabilities, is_there):
    model.says("Hi.")
    async with editor(**capabilities) as client:
        await client.prompt(await client.new(place.project), "hi")
        names = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
        assert ("acp_terminal" in names) is is_there


@pytest.mark.covers("ACP-30", "TOOL-33")
async def test_a_command_runs_in_a_terminal_that_the_user_sees(editor, place, model):
    (place.project / "sub").mkdir()
    model.calls("acp_terminal", command="npm", args=["test", "a b"], cwd="sub", env={"CI": "1"}).says("Done.")
    async with editor(**TERMINALS) as client:
        client.decides("allow_once")
        serve_terminals(client, output="all passed\n", ended={"exitCode": 0, "signal": None})
        session = await client.new(place.project)
        await client.prompt(session, "test it")
        assert [method for method, _ in client.asked] == [
            "session/request_permission",
            "terminal/create",
            "terminal/wait_for_exit",
            "terminal/output",
            "terminal/release",
        ]
        asked = dict(client.asked)
        assert asked["session/request_permission"]["toolCall"]["title"] == "`CI=1 npm test 'a b'` in `sub`"
        assert asked["session/request_permission"]["toolCall"]["kind"] == "execute"
        assert asked["terminal/create"] == {
            "sessionId": session,
            "command": "npm",
            "args": ["test", "a b"],
            "env": [{"name": "CI", "value": "1"}],
            "cwd": str(place.project / "sub"),
            "outputByteLimit": 50_000,
        }
        terminal = [{"type": "terminal", "terminalId": "t1"}]
        shown = [one for one in client.updates(session) if one.get("content") == terminal]
        assert [one["status"] for one in shown] == ["in_progress", "completed"]
        assert model.requests[-1]["messages"][-1]["content"] == "all passed\n"


@pytest.mark.covers("TOOL-34")
async def test_a_command_that_takes_too_long_is_killed_and_its_terminal_given_back(editor, place, model):
    model.calls("acp_terminal", command="sleep", args=["100"], timeout=0.2).says("Well.")
    async with editor("--yes", **TERMINALS) as client:
        serve_terminals(client, output="so far", ended=None)

        async def refuse(_):
            raise Refused(-32602, "sessionID?")

        client.answers["terminal/kill"] = refuse  # one known client cannot do it
        await client.prompt(await client.new(place.project), "wait")
        assert methods(client) == [
            f"terminal/{what}" for what in ("create", "wait_for_exit", "kill", "output", "release")
        ]
        said = model.requests[-1]["messages"][-1]["content"]
        assert said == "so far\n[error: terminal command timed out after 0.2s]"


@pytest.mark.covers("TOOL-35")
@pytest.mark.parametrize(
    ("ended", "truncated", "suffix"),
    [
        ({"exitCode": 0}, False, ""),
        ({"exitCode": 3}, False, "\n[exit code: 3]"),
        ({"exitCode": None, "signal": "SIGKILL"}, False, "\n[terminated by signal: SIGKILL]"),
        ({"exitCode": 1}, True, "\n[output truncated]\n[exit code: 1]"),
    ],
)
async def test_the_end_of_a_command_is_told(editor, place, model, ended, truncated, suffix):
    model.calls("acp_terminal", command="make").says("Well.")
    async with editor("--yes", **TERMINALS) as client:
        serve_terminals(client, output="text", ended=ended, truncated=truncated)
        await client.prompt(await client.new(place.project), "make it")
        assert model.requests[-1]["messages"][-1]["content"] == f"text{suffix}"


async def test_a_command_is_judged_with_all_its_words(editor, place, model):
    model.calls("acp_terminal", command="rm", args=["-rf", "/"]).calls("acp_terminal", command="ls", cwd="/etc")
    model.says("Well.")
    async with editor("--yes", **TERMINALS) as client:
        session = await client.new(place.project)
        await client.prompt(session, "go")
        assert client.asked == []
        assert [one["status"] for one in results(client, session)] == ["failed", "failed"]


async def test_an_editor_that_makes_no_terminal_fails_the_call_alone(editor, place, model):
    model.calls("acp_terminal", command="make").says("Well.")
    async with editor("--yes", **TERMINALS) as client:

        async def refuse(_):
            raise Refused(-32603, "no more terminals")

        client.answers["terminal/create"] = refuse
        session = await client.new(place.project)
        assert await client.prompt(session, "go") == "end_turn"
        assert "no more terminals" in results(client, session)[0]["rawOutput"]["text"]


async def test_a_command_is_killed_where_the_editor_cannot_say_when_it_ends(editor, place, model):
    model.calls("acp_terminal", command="make").says("Well.")
    async with editor("--yes", **TERMINALS) as client:

        async def refuse(_):
            raise Refused(-32601, "no such method")

        serve_terminals(client, output="", ended=None)
        client.answers["terminal/wait_for_exit"] = refuse
        session = await client.new(place.project)
        assert await client.prompt(session, "go") == "end_turn"
        assert methods(client)[2:] == ["terminal/kill", "terminal/release"]
        assert results(client, session)[0]["status"] == "failed"


async def test_the_editor_knows_of_a_call_before_the_call_uses_its_files_or_terminals(editor, place, model):
    file = place.write("a.txt", "old\n")
    model.calls("read_file", path="a.txt").calls("write_file", path="a.txt", content="new\n")
    model.calls("acp_terminal", command="true").says("Done.")
    async with editor("--yes", **FILES, **TERMINALS) as client:
        serve_files(client, {str(file): "old\n"})
        serve_terminals(client, output="", ended={"exitCode": 0})
        await client.prompt(await client.new(place.project), "go")
        tells = [frame for frame in client.frames if is_update(frame, "tool_call") or is_service(frame)]
        assert [frame["method"] for frame in tells[:6]] == [
            "session/update",
            "fs/read_text_file",
            "session/update",
            "fs/write_text_file",
            "session/update",
            "terminal/create",
        ]


def is_service(frame):
    return frame.get("method", "").startswith(("fs/", "terminal/create"))
