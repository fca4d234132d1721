"""The file that names MCP servers: `{"servers": [...]}` or the list alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aar.errors import InvalidSetting
from aar.messages.mcp import McpServer

__all__ = ["default_file", "parse_servers", "read_servers"]


def default_file(home: Path) -> Path:
    """The file of a user whose folder is `home`. It need not exist."""
    return home / "mcp_servers.json"


def read_servers(file: Path) -> tuple[McpServer, ...]:
    """The servers of a file. Raises `InvalidSetting`, a `ValueError`, that names the file and the field."""
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
    return parse_servers(found, source=str(file))


def parse_servers(found: Any, *, source: str) -> tuple[McpServer, ...]:
    """Servers from the data of such a file. `source` is where it came from. Raises `InvalidSetting`."""
    entries = found.get("servers") if isinstance(found, dict) else found
    if not isinstance(entries, list):
        hint = (
            " `mcpServers` is the form of other programs." if isinstance(found, dict) and "mcpServers" in found else ""
        )
        raise InvalidSetting(f'{source}: must hold {{"servers": [...]}} or a list of servers.{hint}')
    servers = tuple(_server(entry, f"{source}: servers[{index}]") for index, entry in enumerate(entries))
    names = [server.name for server in servers]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidSetting(f"{source}: servers[{index}].name: there are two servers named {name!r}.")
    return servers


def _server(entry: Any, place: str) -> McpServer:
    if not isinstance(entry, dict):
        raise InvalidSetting(f"{place}: must be an object with a name and a command or url.")
    given = {field: check for field, check in _CHECKS.items() if field in entry}
    fields = {field: _checked(entry[field], f"{place}.{field}", check) for field, check in given.items()}
    name = fields.get("name", "")
    if not name:
        raise InvalidSetting(f"{place}.name: is missing. Give the server a name.")
    transport = fields.setdefault("transport", "stdio")
    if transport not in ("stdio", "http"):
        raise InvalidSetting(f"{place}.transport: Unknown MCP transport: {transport!r}. Use 'stdio' or 'http'.")
    if transport == "stdio" and not fields.get("command"):
        hint = ' For an address set "transport": "http".' if fields.get("url") else ""
        raise InvalidSetting(f"{place}.command: the server {name!r} needs a command to start it.{hint}")
    if transport == "http" and not _is_address(fields.get("url", "")):
        raise InvalidSetting(f"{place}.url: the server {name!r} needs a url that begins with http:// or https://.")
    return McpServer(**fields)


def _is_address(url: str) -> bool:
    return url.startswith(("http://", "https://"))


Check = Callable[[Any], str]
"""What a value should have been, or nothing when it is."""


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else "a text"


def _texts(value: Any) -> str:
    return "" if isinstance(value, list) and all(isinstance(one, str) for one in value) else "a list of texts"


def _map(value: Any) -> str:
    is_one = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return "" if is_one else "an object whose values are texts"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "true or false"


_CHECKS: dict[str, Check] = {
    "name": _text,
    "transport": _text,
    "command": _text,
    "args": _texts,
    "env": _map,
    "url": _text,
    "headers": _map,
    "prefix_tools": _flag,
}


def _checked(value: Any, place: str, check: Check) -> Any:
    if wanted := check(value):
        raise InvalidSetting(f"{place}: must be {wanted}.")  # without the value, which may be a secret
    return value
