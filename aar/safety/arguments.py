"""What the arguments of a tool call touch: paths, and the command it would run."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard
from urllib.parse import unquote, urlsplit

__all__ = ["command_of", "excess_of", "paths_of"]

_MAX_DEPTH = 64
_MAX_PATHS = 1_000

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
_REMOTE = re.compile(r"(?:https?|wss?|s?ftp|s3|gs|git|ssh)://|data:", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def excess_of(arguments: Mapping[str, Any]) -> str | None:
    """Why these arguments are too much to be judged in time, or `None`. To be asked before anything else here."""
    if _is_deeper_than(_MAX_DEPTH, arguments):
        return f"the arguments are nested more than {_MAX_DEPTH} deep"
    if len(paths_of(arguments)) > _MAX_PATHS:
        return f"the call names more than {_MAX_PATHS} paths"
    return None


def paths_of(arguments: Mapping[str, Any]) -> list[str]:
    """Every non-empty string that names a file by the name of its argument or as `file:`, at any depth, in order.

    So do the headers in a text that is called `patch`.
    """
    return list(_paths(arguments, named=False))


def command_of(arguments: Mapping[str, Any]) -> str:
    """The shell command of a call with its `args` joined to it, or an empty string. A list is a list of words."""
    command = arguments.get("command", arguments.get("cmd", ""))
    if _are_words(command):
        command = shlex.join(map(str, command))
    if not isinstance(command, str):
        return ""
    more = arguments.get("args")
    if isinstance(more, str):
        return f"{command} {more}"
    return " ".join([command, *(shlex.quote(str(word)) for word in more)]) if _are_words(more) else command


def _are_words(value: Any) -> TypeGuard[list[str | int | float]]:
    return isinstance(value, list | tuple) and all(isinstance(word, str | int | float) for word in value)


def _is_deeper_than(depth: int, value: Any) -> bool:
    level = [value]
    for _ in range(depth):
        level = [item for one in level for item in _items(one)]
        if not level:
            return False
    return True


def _items(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _paths(value: Any, *, named: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == "patch" and isinstance(item, str):
                yield from _patched(item)
            if named and "/" in str(name):  # `files: {"src/a.py": "content"}`
                yield from _local(str(name))
            yield from _paths(item, named=_names_a_path(str(name)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item, named=named)
    elif isinstance(value, str) and value and (named or value[:5].lower() == "file:"):
        yield from _local(value)


def _patched(text: str) -> Iterator[str]:
    from aar.messages.patches import named_files  # few calls are patches

    for one in named_files(text):
        yield from _local(one.path) if one.path else ()


def _names_a_path(name: str) -> bool:
    snake = _CAMEL.sub("_", name).lower().replace("-", "_")
    return snake in _PATH_NAMES or snake.endswith(_PATH_ENDINGS)


def _local(value: str) -> Iterator[str]:
    """The value as a local path; as two where programs may disagree about what it means."""
    if value[:5].lower() == "file:":
        yield unquote(_path_of_url(value))
        value = value[5:].removeprefix("//") if {"#", "?"} & set(value) else ""
    elif _REMOTE.match(value) and ".." not in value.split("/"):
        return
    if value.startswith("~"):
        yield os.path.expanduser(value)
    if value:
        yield value


def _path_of_url(value: str) -> str:
    try:
        return urlsplit(value).path
    except ValueError:  # brackets that are not closed
        return "/" + value[5:].lstrip("/").partition("/")[2]
