"""What the arguments of a tool call touch: paths, and the command it would run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["command_of", "paths_of"]

_PATH_NAMES = frozenset(
    [
        "path",
        "paths",
        "file",
        "files",
        "filename",
        "filenames",
        "filepath",
        "dir",
        "directory",
        "folder",
        "cwd",
        "root",
        "workdir",
        "working_dir",
        "source",
        "destination",
        "src",
        "dst",
        "dest",
        "target",
        "uri",
    ]
)
_PATH_ENDINGS = ("_path", "_paths", "_file", "_files", "_dir", "_directory", "_folder")
_REMOTE = re.compile(r"(?:https?|wss?|s?ftp|s3|gs|git|ssh|data):", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def paths_of(arguments: Mapping[str, Any]) -> list[str]:
    """Every non-empty string that names a file by the name of its argument, at any depth, in order."""
    return list(_paths(arguments, named=False))


def command_of(arguments: Mapping[str, Any]) -> str:
    """The shell command of a call with its `args` joined to it, or an empty string."""
    command = arguments.get("command", arguments.get("cmd", ""))
    if not isinstance(command, str):
        return ""
    more = arguments.get("args")
    words = [shlex.quote(str(word)) for word in more] if isinstance(more, list) else []
    return " ".join([command, *words])


def _paths(value: Any, *, named: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _paths(item, named=_names_a_path(str(name)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item, named=named)
    elif named and isinstance(value, str) and value:
        yield from _local(value)


def _names_a_path(name: str) -> bool:
    snake = _CAMEL.sub("_", name).lower().replace("-", "_")
    return snake in _PATH_NAMES or snake.endswith(_PATH_ENDINGS)


def _local(value: str) -> Iterator[str]:
    if value.lower().startswith("file:"):
        yield unquote(urlsplit(value).path)
    elif not _REMOTE.match(value):
        yield value
