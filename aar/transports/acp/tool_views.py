"""How a tool call looks to people in an editor: its kind, title, places, and what came of it. Plain functions."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, NamedTuple

from aar.display import one_line, plain, visible
from aar.messages.patches import PATCH_TOOL, named_files

__all__ = [
    "LARGEST_DIFF",
    "Change",
    "asked_content",
    "diff",
    "kind_of",
    "locations_of",
    "proposed_change",
    "raw_input",
    "raw_output",
    "result_content",
    "text_content",
    "title_of",
]

SHOWN = 4000  # characters of a result
TITLE = 160
RAW_TEXT = 256 * 1024  # characters of one text among arguments, or of an output
MOST_PLACES = 100  # of one patch
LARGEST_DIFF = 512 * 1024  # characters of both sides together

_BY_NAME = (
    (("delete", "remove", "unlink"), "delete"),
    (("move", "rename"), "move"),
    (("search", "grep", "find", "glob"), "search"),
    (("think", "reason", "reflect"), "think"),
)
_BY_EFFECT = (("execute", "execute"), ("write", "edit"), ("network", "fetch"), ("read", "read"))
_PLACES = ("path", "file_path", "filepath", "source", "destination", "target", "filename", "unique")
_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)
_PLAIN_OUTPUT = frozenset({"bash", "acp_terminal", "grep", "find_files", "list_directory"})

Item = dict[str, Any]


class Change(NamedTuple):
    """A file as it was (`None`: there was none) and as it is to be, whole where that is known. `path` is absolute."""

    path: str
    old: str | None
    new: str


def kind_of(name: str, effects: Iterable[str]) -> str:
    """The kind for a tool of this name and these effects.

    Clients let searching and thinking pass without a question, so nothing that may change things is called so.
    """
    effects = frozenset(effects)
    is_harmless = not effects & {"write", "execute", "external"}
    lowered = name.lower()
    for parts, kind in _BY_NAME:
        if any(part in lowered for part in parts) and (is_harmless or kind in ("delete", "move")):
            return kind
    return next((kind for effect, kind in _BY_EFFECT if effect in effects), "other")


def raw_input(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with their longest texts cut: clients refuse messages of many megabytes."""
    return {name: _bounded(value) for name, value in arguments.items()}


def raw_output(text: str) -> Item:
    return {"text": _bounded(text)}


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= RAW_TEXT else f"{value[:RAW_TEXT]}… (cut: {len(value):,} characters)"
    if isinstance(value, dict):
        return {key: _bounded(item) for key, item in value.items()}
    return [_bounded(item) for item in value] if isinstance(value, list) else value


def locations_of(arguments: dict[str, Any], cwd: str) -> list[Item]:
    """The files that the arguments name, as absolute paths; with the line where reading begins."""
    found: list[Item] = []
    line = arguments.get("start_line")
    for name in _PLACES:
        value = arguments.get(name)
        if isinstance(value, str) and value and "\0" not in value and "\n" not in value:
            place: Item = {"path": os.path.normpath(os.path.join(cwd, value))}
            if isinstance(line, int) and not isinstance(line, bool) and line > 0:
                place["line"] = line
            found.append(place)
    return [*found, *({"path": os.path.normpath(os.path.join(cwd, path))} for path in _patched(arguments))]


def _patched(arguments: dict[str, Any]) -> list[str]:
    patch = arguments.get(PATCH_TOOL)
    if not isinstance(patch, str):
        return []
    return list(dict.fromkeys(one.path for one in named_files(patch) if one.path and "\0" not in one.path))[
        :MOST_PLACES
    ]


def title_of(name: str, arguments: dict[str, Any], cwd: str) -> str:
    """One line for people: what is done to what."""

    def said(key: str) -> str:
        value = arguments.get(key)
        return value if isinstance(value, str) else ""

    path = one_line(_short(said("path"), cwd))
    match name:
        case "read_file" if path:
            title = f"Read {path}{_lines(arguments)}"
        case "write_file" if path:
            title = f"Write {path}"
        case "edit_file" if path:
            title = f"Edit {path}"
        case "list_directory":
            title = f"List {path or '.'}"
        case "grep" if said("pattern"):
            title = f"Search for {_code(said('pattern'))}" + (f" in {path}" if path else "")
        case "find_files" if said("pattern"):
            title = f"Find {_code(said('pattern'))}" + (f" in {path}" if path else "")
        case "patch" if files := _patched(arguments):
            title = f"Patch {one_line(', '.join(_short(one, cwd) for one in files))}"
        case "batch":
            title = _batched(arguments) or name
        case "bash" | "acp_terminal" if said("command"):
            title = _code(_command(arguments)) + _where(arguments, cwd)
        case _:
            title = one_line(name) or "Tool call"
    return title if len(title) <= TITLE else title[: TITLE - 1] + "…"


def _batched(arguments: dict[str, Any]) -> str:
    calls = arguments.get("calls")
    names = (
        [str(one["tool"]) for one in calls if isinstance(one, dict) and "tool" in one]
        if isinstance(calls, list)
        else []
    )
    return f"Run {one_line(', '.join(names))}" if names else ""


def proposed_change(name: str, arguments: dict[str, Any], cwd: str) -> Change | None:
    """What a call asks for, as far as its arguments tell: the part of a file that it replaces, or the whole file."""
    path, new = arguments.get("path"), arguments.get("content" if name == "write_file" else "new_string")
    if name not in ("write_file", "edit_file") or not isinstance(path, str) or not path or not isinstance(new, str):
        return None
    old = arguments.get("old_string") if name == "edit_file" else None
    whole = os.path.normpath(os.path.join(cwd, path))
    change = Change(whole, old if isinstance(old, str) else None, new)
    return change if len(change.old or "") + len(change.new) <= LARGEST_DIFF else None


def asked_content(name: str, arguments: dict[str, Any], change: Change | None, cwd: str) -> list[Item]:
    """What belongs to a call before it runs: the change of a file, or a command that its title cannot hold."""
    if change is not None:
        return [diff(change)]
    if name == PATCH_TOOL and isinstance(patch := arguments.get(PATCH_TOOL), str) and len(patch) <= LARGEST_DIFF:
        return [text_content(_fenced(visible(patch), "diff"))]
    if name not in ("bash", "acp_terminal"):
        return []
    command, where = _command(arguments), _where(arguments, cwd)
    if command and ("\n" in command or len(command) + len(where) > TITLE - 4):
        return [text_content(_fenced(visible(command), "sh") + (f"\n{where.strip()}" if where else ""))]
    return []


def result_content(name: str, arguments: dict[str, Any], output: str, *, is_error: bool, cwd: str) -> list[Item]:
    """What a call gave, for people; files that were read as such, everything else as text."""
    shown = _cut(output)
    if is_error:
        return [text_content(plain(shown))]
    path = arguments.get("path")
    if name == "read_file" and isinstance(path, str) and path:
        return [_resource(os.path.normpath(os.path.join(cwd, path)), _cut(_NUMBER.sub("", output)))]
    if name in _PLAIN_OUTPUT:
        return [text_content(_fenced(plain(shown)))] if shown else []
    return [text_content(plain(shown))] if shown else []


def text_content(text: str) -> Item:
    return {"type": "content", "content": {"type": "text", "text": text}}


def diff(change: Change) -> Item:
    item: Item = {"type": "diff", "path": change.path, "newText": change.new}
    return item if change.old is None else {**item, "oldText": change.old}


# --- pieces -----------------------------------------------------------------------------------


def _resource(path: str, text: str) -> Item:
    from mimetypes import guess_type

    kind = guess_type(path)[0] or "text/plain"
    resource = {"uri": PurePath(path).as_uri(), "mimeType": kind, "text": text}
    return {"type": "content", "content": {"type": "resource", "resource": resource}}


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "\n… (cut)"


def _short(path: str, cwd: str) -> str:
    """Relative to the session's folder where it lies inside."""
    whole = os.path.normpath(os.path.join(cwd, path)) if path else ""
    inside = cwd.rstrip(os.sep) + os.sep
    return whole[len(inside) :] if whole.startswith(inside) else whole


def _lines(arguments: dict[str, Any]) -> str:
    start, end = arguments.get("start_line"), arguments.get("end_line")
    if not (isinstance(start, int) and start > 0) and not (isinstance(end, int) and end > 0):
        return ""
    return f" ({start or 1}–{end})" if end else f" (from line {start})"


def _command(arguments: dict[str, Any]) -> str:
    """As one would type it, with the variables that shape it: people decide by this."""
    command, args, env = arguments.get("command"), arguments.get("args"), arguments.get("env")
    variables = [shlex.quote(f"{name}={value}") for name, value in env.items()] if isinstance(env, dict) else []
    words = [shlex.quote(str(word)) for word in args] if isinstance(args, list) else []
    return " ".join([*variables, command if isinstance(command, str) else "", *words]).strip()


def _where(arguments: dict[str, Any], cwd: str) -> str:
    """The folder of a command that runs in another one than the session."""
    folder = arguments.get("cwd")
    if not isinstance(folder, str) or os.path.normpath(os.path.join(cwd, folder)) == os.path.normpath(cwd):
        return ""
    return f" in {_code(_short(folder, cwd))}"


def _code(text: str) -> str:
    """Inline code; a text with backticks gets more of them around it."""
    marks = "`" * (_longest_run(text) + 1)
    pad = " " if "`" in text else ""
    return f"{marks}{pad}{one_line(text)}{pad}{marks}"


def _fenced(text: str, language: str = "") -> str:
    marks = "`" * max(3, _longest_run(text) + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{marks}{language}\n{text}{end}{marks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
