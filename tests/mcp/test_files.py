"""The file that names servers: what it may hold, and what is said about what it must not."""

from __future__ import annotations

import json
from functools import partial

import pytest

from aar.errors import ConfigError
from aar.mcp.fields import FIELDS
from aar.mcp.files import FoundServers, parse_servers, read_servers
from aar.messages.mcp import McpServer

STDIO = {"name": "files", "command": "files-server", "args": ["--root", "."], "env": {"A": "b"}, "prefix_tools": True}
HTTP = {"name": "web", "transport": "http", "url": "https://example.org/mcp", "headers": {"X-Key": "k"}}

parsed = partial(parse_servers, source="mine.json", variables={"TOKEN": "s3cret", "BROKEN": "a\nb"})


@pytest.mark.covers("MCP-03")
@pytest.mark.parametrize("wrap", [lambda servers: servers, lambda servers: {"servers": servers, "comment": "more"}])
def test_a_file_is_an_object_with_servers_or_the_list_alone(wrap, tmp_path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps(wrap([STDIO, HTTP])))
    files = McpServer(name="files", command="files-server", args=("--root", "."), env={"A": "b"}, prefix_tools=True)
    web = McpServer(name="web", transport="http", url="https://example.org/mcp", headers={"X-Key": "k"})
    assert read_servers(file) == FoundServers((files, web), ())


@pytest.mark.covers("MCP-03")
def test_everything_but_name_and_command_has_a_default() -> None:
    assert parsed([{"name": "a", "command": "b"}]).servers == (McpServer(name="a", command="b"),)


def test_every_field_of_a_server_can_stand_in_a_file() -> None:
    assert set(FIELDS) == set(McpServer.model_fields)


@pytest.mark.covers("MCP-03", "MCP-04")
@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({}, 'must hold {"servers": [...]} or a list of servers.'),
        ("text", 'must hold {"servers": [...]} or a list of servers.'),
        ({"mcpServers": {}}, "`mcpServers` is the form of other programs."),
        ([1], "servers[0]: must be an object"),
        ([{"command": "x"}], "servers[0].name: is missing"),
        ([{"name": "a"}], "servers[0].command: the server 'a' needs a command"),
        ([{"name": "a", "url": "http://x"}], 'For an address set "transport": "http".'),
        ([{"name": "a", "transport": "http"}], "servers[0].url: the server 'a' needs a url"),
        ([{"name": "a", "transport": "sse"}], "Unknown MCP transport: 'sse'. Use 'stdio' or 'http'."),
        ([{"name": 1, "command": "x"}], "servers[0].name: must be a text."),
    ],
)
def test_what_is_wrong_is_named_with_its_place(found, problem) -> None:
    with pytest.raises(ValueError, match=r"^mine\.json: ") as caught:
        parsed(found)
    assert problem in str(caught.value)


@pytest.mark.covers("MCP-04")
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"command": ""}, "command: the server 'a' needs a command to start it."),
        (
            {"command": "./run"},
            "command: server 'a': would be looked for in the folder of each session. Write the whole",
        ),
        ({"command": "bin/run"}, "command: server 'a': would be looked for in the folder of each session."),
        (
            {"command": "npx -y it"},
            "command: server 'a': must be the program alone, 'npx'. What follows it goes into args",
        ),
        ({"command": "x\0"}, "command: server 'a': must not hold the character NUL."),
        ({"args": "-v"}, "args: server 'a': must be a list of texts, such as"),
        ({"args": [8080]}, "args: server 'a': must be a list of texts, such as"),
        ({"args": ["x\0"]}, "args: server 'a': must not hold the character NUL."),
        (
            {"env": {"PORT": 8080}},
            'env: server \'a\': must be an object whose values are texts, such as {"PORT": "8080"}.',
        ),
        ({"env": [{"name": "A"}]}, "env: server 'a': must be an object"),
        ({"env": {"A=B": "x"}}, "env: server 'a': has a name that no variable can have."),
        ({"prefix_tools": "yes"}, "prefix_tools: server 'a': must be true or false."),
        ({"trust_annotations": 1}, "trust_annotations: server 'a': must be true or false."),
        ({"headers": {"X-Key": "a\r\nHost: b"}}, "headers: server 'a': the value of X-Key holds a line break"),
        ({"headers": {"X-Key": "ü"}}, "headers: server 'a': the value of X-Key holds a line break or letters"),
        ({"headers": {"X Key": "a"}}, "headers: server 'a': 'X Key' is no name of a header"),
        ({"headers": {"X-Key": "${MISSING}"}}, "headers.X-Key: server 'a': the variable MISSING is not set."),
        ({"headers": {"X-Key": "${BROKEN}"}}, "headers: server 'a': the value of X-Key holds a line break"),
        (
            {"transport": "http", "url": "example.org"},
            "url: server 'a': needs a url that begins with http:// or https://",
        ),
        (
            {"transport": "http", "url": "file:///etc"},
            "url: server 'a': needs a url that begins with http:// or https://",
        ),
        ({"transport": "http", "url": "http://"}, "url: server 'a': needs a url"),
        ({"transport": "http", "url": "http://x:y"}, "url: server 'a': needs a url"),
        ({"transport": "http", "url": "http://x/ a"}, "url: server 'a': needs a url"),
        ({"transport": "http", "url": "http://[x"}, "url: server 'a': needs a url"),
        ({"name": "files"}, "name: there are two servers named 'files'. Give one another name."),
        ({"name": "a\nb"}, "name: must not hold line breaks or other control characters."),
    ],
)
def test_a_mistake_costs_one_server_and_is_told_with_file_field_and_what_would_be_right(fields, problem) -> None:
    found = parsed([STDIO, {"name": "a", "command": "x", **fields}, HTTP])
    assert [server.name for server in found.servers] == ["files", "web"]
    (told,) = found.problems
    assert told.startswith(f"mine.json: servers[1].{problem}")
    assert told.endswith(" This server is left out.")


def test_fields_that_nobody_knows_are_told_with_the_nearest_that_is_known() -> None:
    entry = {"name": "a", "command": "x", "Header": {}, "prefixTools": True, "type": "http", "disabled": True}
    found = parsed([{**entry, "_comment": "mine", "$schema": "x"}])
    assert found.servers == (McpServer(name="a", command="x"),)
    assert found.problems == (
        'mine.json: servers[0].Header: is no field of a server, and is ignored. Did you mean "headers"?',
        'mine.json: servers[0].prefixTools: is no field of a server, and is ignored. Did you mean "prefix_tools"?',
        'mine.json: servers[0].type: is no field of a server, and is ignored. Did you mean "transport"?',
        f"mine.json: servers[0].disabled: is no field of a server, and is ignored. Known here: {', '.join(FIELDS)}.",
    )


def test_variables_are_filled_in_where_secrets_belong_and_nowhere_else() -> None:
    spelled = {"A": "Bearer ${TOKEN}", "B": "$TOKEN $${TOKEN} ${}", "C": "${TOKEN}${TOKEN}"}
    meant = {"A": "Bearer s3cret", "B": "$TOKEN ${TOKEN} ${}", "C": "s3crets3cret"}
    stdio = {"name": "a", "command": "x", "args": ["${TOKEN}"], "env": spelled}
    http = {"name": "b", "transport": "http", "url": "http://x/${TOKEN}", "headers": spelled}
    one, two = parsed([stdio, http]).servers
    assert (one.args, one.env) == (("${TOKEN}",), meant)
    assert (two.url, two.headers) == ("http://x/${TOKEN}", meant)


def test_variables_come_from_the_environment(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("MY_TOKEN", "from outside")
    file = tmp_path / "servers.json"
    file.write_text(json.dumps([{**STDIO, "env": {"T": "${MY_TOKEN}"}}]))
    assert read_servers(file).servers[0].env == {"T": "from outside"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "there is no such file"),
        (b"{", "line 1, column 2"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[" * 99999, "deep"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_of_the_settings(content, problem, tmp_path) -> None:
    file = tmp_path / "servers.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        read_servers(file)


@pytest.mark.parametrize(
    "fields", [{"env": {"TOKEN": ["s3cret"]}}, {"transport": "http", "headers": {"X": "s3cret\n"}}]
)
def test_a_value_that_is_wrong_is_not_repeated_since_it_may_be_a_secret(fields) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed([{"name": "a", "command": "x", **fields}])
    assert "s3cret" not in str(caught.value)
