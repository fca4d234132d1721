"""Servers as editors name them."""

from __future__ import annotations

import pytest

from aar.mcp.entries import editor_servers
from aar.messages.mcp import McpServer


@pytest.mark.covers("ACP-41")
def test_commands_and_addresses_become_servers_with_pairs_or_maps() -> None:
    servers, problems = editor_servers(
        [
            {"name": "a", "command": "x", "args": ["-v"], "env": [{"name": "K", "value": "v"}]},
            {"name": "b", "command": "x", "args": [], "env": {"K": "v"}},
            {"type": "http", "name": "c", "url": "https://c", "headers": [{"name": "H", "value": "v"}]},
            {"type": "http", "name": "d", "url": "https://d", "headers": {"H": "v"}},
        ]
    )
    assert servers == (
        McpServer(name="a", command="x", args=("-v",), env={"K": "v"}),
        McpServer(name="b", command="x", env={"K": "v"}),
        McpServer(name="c", transport="http", url="https://c", headers={"H": "v"}),
        McpServer(name="d", transport="http", url="https://d", headers={"H": "v"}),
    )
    assert problems == ()


@pytest.mark.covers("ACP-41")
def test_sse_and_what_nobody_knows_is_left_out_and_told() -> None:
    servers, problems = editor_servers(
        [{"type": "sse", "name": "old", "url": "https://x"}, {"name": "empty"}, {"type": "acp", "name": "new"}, 7]
    )
    assert servers == ()
    assert [problem.split(":")[0] for problem in problems] == [
        "MCP server 'old' was left out",
        "MCP server 'empty' was left out",
        "MCP server 'new' was left out",
        "An MCP server that is no object was left out.",
    ]


def test_a_server_without_a_name_is_called_by_its_command_or_address() -> None:
    servers, _ = editor_servers([{"command": "x"}, {"type": "http", "url": "http://y"}, {"command": "x"}])
    assert [server.name for server in servers] == ["x", "http://y", "x-2"]


def test_arguments_that_are_no_list_cost_one_server_and_no_more() -> None:
    servers, problems = editor_servers(
        [{"name": "a", "command": "x", "args": 5}, {"name": "b", "command": "x", "args": "-v"}, {"command": "c"}]
    )
    assert [server.name for server in servers] == ["c"]
    assert problems == (
        "MCP server 'a' was left out: its args are no list.",
        "MCP server 'b' was left out: its args are no list.",
    )


def test_an_editor_cannot_make_a_server_trusted_nor_read_our_variables(monkeypatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "canary")
    entry = {"name": "a", "command": "x", "env": {"T": "${MY_TOKEN}"}, "trust_annotations": True}
    ((server,), _) = editor_servers([entry])
    assert (server.trust_annotations, server.env) == (False, {"T": "${MY_TOKEN}"})


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {"type": "http", "url": "https://x", "headers": {"X-Key": "canary\r\nHost: y"}},
            "headers: the value of X-Key",
        ),
        ({"type": "http", "url": "https://x y"}, "url: needs a url"),
        ({"command": "x", "args": ["canary\0"]}, "args: must not hold the character NUL."),
        ({"command": "x", "env": [{"name": "A=B", "value": "canary"}]}, "env: has a name that no variable can have."),
    ],
)
def test_what_no_server_could_get_is_told_without_the_value_and_costs_one_server(entry, problem) -> None:
    servers, problems = editor_servers([{"name": "bad", **entry}, {"name": "good", "command": "x"}])
    assert [server.name for server in servers] == ["good"]
    (told,) = problems
    assert told.startswith(f"MCP server 'bad' was left out: {problem}")
    assert "canary" not in told
