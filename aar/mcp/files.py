"""The file that names MCP servers: `{"servers": [...]}` or the list alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aar.errors import InvalidSetting
from aar.mcp.fields import checked_fields, unknown_fields
from aar.messages.mcp import McpServer

__all__ = ["FoundServers", "default_file", "parse_servers", "read_servers"]


class FoundServers(NamedTuple):
    """The servers of a file that can be used, and a sentence for each thing in it that cannot."""

    servers: tuple[McpServer, ...] = ()
    problems: tuple[str, ...] = ()


def default_file(home: Path) -> Path:
    """The file of a user whose folder is `home`. It need not exist."""
    return home / "mcp_servers.json"


def read_servers(file: Path, variables: Mapping[str, str] | None = None) -> FoundServers:
    """The servers of a file, with `${NAME}` in `env` and `headers` filled in: from the environment, unless given.

    Raises `InvalidSetting`, a `ValueError`, that names file and field, when nothing in it can be used.
    """
    try:
        text = file.expanduser().read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidSetting(f"{file}: there is no such file. Name another one.") from error
    except OSError as error:
        raise InvalidSetting(f"{file}: cannot be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"{file}: is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidSetting(f"{file}: line {error.lineno}, column {error.colno}: {error.msg}.") from error
    except RecursionError as error:
        raise InvalidSetting(f"{file}: is nested too deeply.") from error
    return parse_servers(found, source=str(file), variables=os.environ if variables is None else variables)


def parse_servers(found: Any, *, source: str, variables: Mapping[str, str]) -> FoundServers:
    """Servers from the data of such a file, which came from `source`. A server with a mistake is left out.

    Raises `InvalidSetting` when it is no list of servers, or all of them have mistakes.
    """
    entries = found.get("servers") if isinstance(found, dict) else found
    if not isinstance(entries, list):
        hint = (
            " `mcpServers` is the form of other programs." if isinstance(found, dict) and "mcpServers" in found else ""
        )
        raise InvalidSetting(f'{source}: must hold {{"servers": [...]}} or a list of servers.{hint}')
    servers: dict[str, McpServer] = {}
    mistakes: list[str] = []
    remarks: list[str] = []
    for index, entry in enumerate(entries):
        place = f"{source}: servers[{index}]"
        try:
            server = _server(entry, place, variables)
            if server.name in servers:
                raise InvalidSetting(
                    f"{place}.name: there are two servers named {server.name!r}. Give one another name."
                )
        except InvalidSetting as mistake:
            mistakes.append(str(mistake))
            continue
        servers[server.name] = server
        remarks += unknown_fields(entry, place)
    if mistakes and not servers:
        raise InvalidSetting("\n".join(mistakes))
    left_out = [f"{mistake} This server is left out." for mistake in mistakes]
    return FoundServers(tuple(servers.values()), (*left_out, *remarks))


def _server(entry: Any, place: str, variables: Mapping[str, str]) -> McpServer:
    if not isinstance(entry, dict):
        raise InvalidSetting(f"{place}: must be an object with a name and a command or url.")
    fields = checked_fields(entry, place, variables)
    name = fields.get("name", "")
    if not name:
        raise InvalidSetting(f"{place}.name: is missing. Give the server a name.")
    transport = fields.setdefault("transport", "stdio")
    if transport not in ("stdio", "http"):
        raise InvalidSetting(f"{place}.transport: Unknown MCP transport: {transport!r}. Use 'stdio' or 'http'.")
    if transport == "stdio" and not fields.get("command"):
        hint = ' For an address set "transport": "http".' if fields.get("url") else ""
        raise InvalidSetting(f"{place}.command: the server {name!r} needs a command to start it.{hint}")
    if transport == "http" and not fields.get("url"):
        raise InvalidSetting(f"{place}.url: the server {name!r} needs a url, such as https://example.org/mcp.")
    return McpServer(**fields)
