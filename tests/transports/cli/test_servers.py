"""MCP servers on the command line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

PLAIN = str(Path(__file__).parents[2] / "mcp" / "servers" / "plain.py")


@pytest.fixture
def servers():
    """`servers(file, name=options, ...)`: write a file with these servers."""

    def write(file: Path, **named) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        entries = [
            {"name": name, "command": sys.executable, "args": [PLAIN, json.dumps(options)]}
            for name, options in named.items()
        ]
        file.write_text(json.dumps({"servers": entries}))
        return file

    return write


@pytest.mark.covers("CLI-20", "MCP-14")
@pytest.mark.parametrize("flag", ["--mcp", "--mcp-config"])
async def test_run_uses_the_servers_of_a_file_and_says_how_many_tools_they_have(
    aar, model, flags, place, servers, flag
):
    file = servers(place.home / "mine.json", one={"tools": ["echo", "pid"]}, two={"tools": ["echo"]})
    model.calls("two__echo", a=1).says("done")
    done = await aar("run", "go", "--yes", flag, str(file), *flags)
    assert (done.code, done.out) == (0, "done\n")
    assert "Registered 3 MCP tool(s)\n" in done.err
    names = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
    assert {"echo", "pid", "two__echo"} <= set(names)
    assert model.requests[1]["messages"][-1]["content"] == '{"a": 1}'


@pytest.mark.covers("MCP-13")
async def test_the_file_in_the_user_s_folder_is_used_when_no_other_is_named(aar, model, flags, place, servers):
    servers(place.home / "mcp_servers.json", mine={"tools": ["echo"]})
    done = await aar("tools")
    assert "  echo  (external)  Does echo.\n" in done.out
    assert "Registered 1 MCP tool(s)\n" in done.err
    other = servers(place.home / "other.json", other={"tools": ["read_it"]})
    done = await aar("tools", "--mcp", str(other))
    assert "  read_it  (external)  Does read_it.\n" in done.out
    assert "echo" not in done.out


async def test_without_a_file_nothing_is_said_about_servers(aar):
    done = await aar("tools")
    assert (done.code, done.err) == (0, "")


@pytest.mark.covers("MCP-04")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"servers": [{"name": "a"}]}', "servers[0].command"),
        ('{"servers": 1}', "must hold"),
        ("{", "line 1"),
        (None, "there is no such file"),
    ],
)
async def test_a_file_that_is_wrong_ends_the_command_before_it_begins(aar, model, flags, place, content, told):
    file = place.home / "wrong.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        file.write_text(content)
    done = await aar("run", "go", "--mcp", str(file), *flags)
    assert done.code == 2
    assert f"aar: {file}: " in done.err
    assert told in done.err
    assert model.requests == []


@pytest.mark.covers("MCP-04")
async def test_a_mistake_in_a_file_is_told_and_costs_one_server(aar, place):
    file = place.home / "mine.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    good = {"name": "good", "command": sys.executable, "args": [PLAIN, '{"tools": ["echo"]}'], "prefixTools": True}
    file.write_text(json.dumps([{"name": "bad", "command": "x", "env": {"PORT": 8080}}, good]))
    done = await aar("tools", "--mcp", str(file))
    assert done.code == 0
    assert "  echo  (external)  Does echo.\n" in done.out
    assert done.err == (
        f"aar: {file}: servers[0].env: server 'bad': must be an object whose values are texts, such as"
        ' {"PORT": "8080"}. This server is left out.\n'
        f"aar: {file}: servers[1].prefixTools: is no field of a server, and is ignored."
        ' Did you mean "prefix_tools"?\n'
        "aar: Registered 1 MCP tool(s)\n"
    )


async def test_tools_that_are_left_out_are_told_with_the_reason(aar, place, servers):
    tools = [{"name": "good", "inputSchema": {}}, {"name": "bad\x1b[31m", "inputSchema": {"type": 5}}]
    done = await aar("tools", "--mcp", str(servers(place.home / "mine.json", one={"listing": {"tools": tools}})))
    assert "  good  (external)  \n" in done.out
    assert done.err == (
        "aar: Tools of MCP server 'one' are left out: 'bad [31m' (its schema is not one of an object).\n"
        "aar: Registered 1 MCP tool(s)\n"
    )


@pytest.mark.covers("MCP-10")
async def test_a_server_that_does_not_start_is_told_and_the_task_is_done_without_it(aar, model, flags, place, servers):
    file = servers(place.home / "mine.json", good={"tools": ["echo"]}, bad={"exits": 3, "says": "no licence"})
    model.says("done")
    done = await aar("run", "go", "--mcp", str(file), *flags)
    assert (done.code, done.out) == (0, "done\n")
    assert "aar: MCP server 'bad' could not be connected: it ended with status 3. Its last words: no licence.\n" in (
        done.err
    )
    assert "Registered 1 MCP tool(s)\n" in done.err


@pytest.mark.covers("MCP-15")
async def test_no_server_outlives_its_command(aar, model, flags, place, servers):
    notes = place.home / "notes"
    file = servers(place.home / "mine.json", one={"notes": str(notes), "ignores_eof": True, "ignores_term": True})
    model.says("done")
    done = await aar("run", "go", "--mcp", str(file), *flags)
    assert done.code == 0
    pid = notes.read_text().split()[1]
    assert pid not in os.listdir("/proc")
