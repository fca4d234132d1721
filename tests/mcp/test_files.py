"""The file that names servers: what it may hold, and what is said about what it must not."""

from __future__ import annotations

import json

import pytest

from aar.errors import ConfigError
from aar.mcp.files import parse_servers, read_servers
from aar.messages.mcp import McpServer

STDIO = {"name": "files", "command": "files-server", "args": ["--root", "."], "env": {"A": "b"}, "prefix_tools": True}
HTTP = {"name": "web", "transport": "http", "url": "https://example.org/mcp", "headers": {"X-Key": "k"}}


@pytest.mark.covers("MCP-03")
@pytest.mark.parametrize("wrap", [lambda servers: servers, lambda servers: {"servers": servers, "comment": "more"}])
def test_a_file_is_an_object_with_servers_or_the_list_alone(wrap, tmp_path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps(wrap([STDIO, HTTP])))
    assert read_servers(file) == (
        McpServer(name="files", command="files-server", args=("--root", "."), env={"A": "b"}, prefix_tools=True),
        McpServer(name="web", transport="http", url="https://example.org/mcp", headers={"X-Key": "k"}),
    )


@pytest.mark.covers("MCP-03")
def test_everything_but_name_and_command_has_a_default() -> None:
    assert parse_servers([{"name": "a", "command": "b"}], source="f") == (McpServer(name="a", command="b"),)


@pytest.mark.covers("MCP-03", "MCP-04")
@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({}, 'must hold {"servers": [...]} or a list of servers.'),
        ("text", 'must hold {"servers": [...]} or a list of servers.'),
        ({"mcpServers": {}}, "`mcpServers` is the form of other programs."),
        ([1], "servers[0]: must be an object"),
        ([{"command": "x"}], "servers[0].name: is missing"),
        ([STDIO, STDIO], "servers[1].name: there are two servers named 'files'"),
        ([{"name": "a"}], "servers[0].command: the server 'a' needs a command"),
        ([{"name": "a", "url": "http://x"}], 'For an address set "transport": "http".'),
        ([{"name": "a", "transport": "http"}], "servers[0].url: the server 'a' needs a url"),
        ([{"name": "a", "transport": "http", "url": "file:///etc"}], "servers[0].url"),
        ([{"name": "a", "transport": "sse"}], "Unknown MCP transport: 'sse'. Use 'stdio' or 'http'."),
        ([{"name": 1, "command": "x"}], "servers[0].name: must be a text."),
        ([{"name": "a", "command": "x", "args": "y"}], "servers[0].args: must be a list of texts."),
        ([{"name": "a", "command": "x", "env": {"A": 1}}], "servers[0].env: must be an object whose values are texts."),
        ([{"name": "a", "command": "x", "prefix_tools": "yes"}], "servers[0].prefix_tools: must be true or false."),
    ],
)
def test_what_is_wrong_is_named_with_its_place(found, problem) -> None:
    with pytest.raises(ValueError, match=r"^mine\.json: ") as caught:
        parse_servers(found, source="mine.json")
    assert problem in str(caught.value)


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


def test_a_value_that_is_wrong_is_not_repeated_since_it_may_be_a_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_servers([{"name": "a", "command": "x", "env": {"TOKEN": ["s3cret"]}}], source="f")
    assert "s3cret" not in str(caught.value)
