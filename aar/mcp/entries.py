"""Servers as editors name them when they open a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aar.mcp.fields import FIELDS
from aar.messages.mcp import McpServer

__all__ = ["editor_servers"]


def editor_servers(entries: Iterable[Any]) -> tuple[tuple[McpServer, ...], tuple[str, ...]]:
    """The servers that can be used, and a sentence for each that cannot.

    An entry is `{name, command, args, env}` or `{type: "http", name, url, headers}`; `env` and `headers` are lists of
    `{name, value}` or objects. Names that come twice get a number.
    """
    servers: list[McpServer] = []
    problems: list[str] = []
    for entry in entries:
        server = _server(entry) if isinstance(entry, Mapping) else "An MCP server that is no object was left out."
        if isinstance(server, str):
            problems.append(server)
        else:
            servers.append(_named_apart(server, {one.name for one in servers}))
    return tuple(servers), tuple(problems)


def _server(entry: Mapping[str, Any]) -> McpServer | str:
    command, url = _text(entry.get("command")), _text(entry.get("url"))
    name = _text(entry.get("name")) or command or url or "mcp"
    kind = entry.get("type") or ("http" if url and not command else "stdio")
    if kind == "sse":
        return f"MCP server {name!r} was left out: its transport SSE is not supported. Use its HTTP address, or stdio."
    if kind == "stdio" and command:
        args = entry.get("args") or []
        if not isinstance(args, list | tuple):
            return f"MCP server {name!r} was left out: its args are no list."
        started: dict[str, Any] = {"args": list(map(str, args)), "env": _pairs(entry.get("env"))}
        return _problem(name, started) or McpServer(name=name, command=command, **started)
    if kind == "http" and url.startswith(("http://", "https://")):
        reached: dict[str, Any] = {"url": url, "headers": _pairs(entry.get("headers"))}
        return _problem(name, reached) or McpServer(name=name, transport="http", **reached)
    return f"MCP server {name!r} was left out: it has neither a command nor an HTTP address."


def _problem(name: str, fields: Mapping[str, Any]) -> str:
    """What is wrong, or nothing. Without the value, which the connection would repeat in its error."""
    for field, value in fields.items():
        if problem := FIELDS[field](value):
            return f"MCP server {name!r} was left out: {field}: {problem}"
    return ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _pairs(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): str(one) for name, one in value.items()}
    pairs = value if isinstance(value, list | tuple) else ()
    return {str(one["name"]): str(one.get("value", "")) for one in pairs if isinstance(one, Mapping) and "name" in one}


def _named_apart(server: McpServer, taken: set[str]) -> McpServer:
    number, name = 2, server.name
    while name in taken:
        name = f"{server.name}-{number}"
        number += 1
    return server if name == server.name else server.model_copy(update={"name": name})
