"""The commands and their flags. Reading them imports nothing that a command needs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

__all__ = ["ABOUT", "COMMANDS", "GROUPS", "Misuse", "parse", "parser_of"]

ABOUT = "A coding agent for the terminal. What it does is kept in sessions that can be resumed."

COMMANDS = {
    "run": ("run:run", "Do one task and exit."),
    "chat": ("chat:chat", "Talk with the agent, line by line."),
    "sessions list": ("sessions:listing", "List the stored sessions, newest first."),
    "sessions show": ("sessions:show", "Show a session: its state, its costs, and what was said."),
    "sessions export": ("sessions:export", "Write a session as text or JSON."),
    "sessions delete": ("sessions:delete", "Delete sessions for good."),
    "tools": ("show:tools", "List the tools that models can use, with their effects."),
    "prompt": ("show:prompt", "Show the system prompt that a session in this folder gets."),
    "config": ("show:config", "Show every setting in force, keys masked, and where it came from."),
    "local install": ("local:install", "Fetch the small model into ~/.aar/models."),
    "local status": ("local:status", "Show the installed models, and which model would be used."),
    "init": ("init:init", "Write a config file, rules, themes and examples into ~/.aar."),
    "version": ("show:version", "Print the version."),
}
"""Every command with the function that does it and one line about it."""

GROUPS = {
    "sessions": ("list", "List, show, export and delete stored sessions."),
    "local": ("status", "The model that Aar runs itself, without an account."),
}
"""Commands with commands of their own: which one of them stands in when none is given."""


class Misuse(Exception):
    """A command line that cannot be understood. The text names what is wrong and where to look."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message.removeprefix('argument ')}. See `{self.prog} --help`.")


Add = Callable[..., Any]


def parser_of(words: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    parser = _Parser(prog=f"aar {words}", add_help=False, allow_abbrev=False)
    _FLAGS[words](parser.add_argument)
    return parser


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command's words, and its arguments by name. Raises `Misuse`."""
    words, rest = _chosen(list(arguments))
    parser = parser_of(words)
    found, others = parser.parse_known_args(rest)
    values = vars(found)
    flags = [word for word in others if word.startswith("-") and word != "-"]
    if flags:
        parser.error(f"there is no flag {flags[0]}")
    if others and "task" not in values:
        parser.error(f"there is nothing to do with {others[0]!r}")
    if others:
        values["task"] += others  # words of the task that stand behind a flag
    return words, values


def _chosen(arguments: list[str]) -> tuple[str, list[str]]:
    """The command that these arguments begin with, and what follows. `aar sessions` means `aar sessions list`."""
    first, *rest = arguments
    if first in COMMANDS:
        return first, rest
    if first.startswith("-"):
        raise Misuse("flags come after the command, as in `aar run --yes`. See `aar --help`.")
    if first not in GROUPS:
        raise Misuse(_no_command(first, "aar", [*COMMANDS, *GROUPS]))
    if not rest or rest[0].startswith("-"):
        return f"{first} {GROUPS[first][0]}", rest
    if f"{first} {rest[0]}" in COMMANDS:
        return f"{first} {rest[0]}", rest[1:]
    inner = [words.removeprefix(f"{first} ") for words in COMMANDS if words.startswith(f"{first} ")]
    raise Misuse(_no_command(rest[0], f"aar {first}", inner))


def _no_command(word: str, prefix: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    guess = f" Did you mean `{prefix} {near[0]}`?" if near else ""
    return f"there is no command `{prefix} {word}`.{guess} See `{prefix} --help`."


# --- flags ------------------------------------------------------------------------------------


def _switch(add: Add, name: str, about: str) -> None:
    """`--name` and `--no-name`; neither leaves it to the config file."""
    add(f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=about)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more, not {text!r}")
    return int(text)


def _model(add: Add) -> None:
    add("-m", "--model", metavar="NAME", help="Model to use.")
    add("-p", "--provider", metavar="NAME", help="A key of `providers` in the config file, or a provider's name.")


def _work(add: Add) -> None:
    add("--base-url", metavar="URL", help="Address of the provider's API.")
    add("--api-key", metavar="KEY", help="Key for the provider; others on this machine may see it.")
    add("--max-steps", metavar="N", type=_count, help="Model calls in one turn at most.")


def _session(add: Add) -> None:
    add("-s", "--session", metavar="ID", help="Go on with the session of this id.")
    add("-c", "--continue", dest="resume", action="store_true", help="Go on with the newest session of this folder.")
    add("-v", "--verbose", action="store_true", help="Show effects and times of tools.")


def _safety(add: Add) -> None:
    _switch(add, "read-only", "Forbid every tool that changes something.")
    _switch(add, "require-approval", "Ask before tools write or run commands.")
    add("-y", "--yes", action="store_true", help="Answer every question with yes, like --no-require-approval.")


def _paths(add: Add) -> None:
    _switch(add, "restrict-to-cwd", "Keep tools inside this folder.")
    add("--denied-paths", metavar="PATTERNS", help="Deny these, too: patterns with commas between.")
    add("--allowed-paths", metavar="PATTERNS", help="Allow only these; wins over --restrict-to-cwd.")


def _logs(add: Add) -> None:
    levels = ("debug", "info", "warning", "error")
    add("--config", metavar="FILE", help="Config file to read instead of ~/.aar/config.json.")
    add("--log-level", metavar="LEVEL", type=str.lower, choices=levels, help="Least level that is logged.")
    add("--log-file", metavar="FILE", help="Append the log to this file, too.")


def _run(add: Add) -> None:
    formats = ("text", "json", "stream-json")
    add("task", metavar="TASK", nargs="*", help="What to do; `-` reads it from standard input.")
    add("--output", metavar="FORMAT", choices=formats, default="text", help="What to write to standard output.")
    _chat(add)


def _chat(add: Add) -> None:
    for group in (_model, _work, _session, _safety, _paths, _logs):
        group(add)


def _prompt(add: Add) -> None:
    add("--raw", action="store_true", help="The text alone.")
    add("--layers", action="store_true", help="What it is made of, and what was not found.")
    for group in (_model, _safety, _logs):
        group(add)


def _config(add: Add) -> None:
    for group in (_model, _work, _safety, _paths, _logs):
        group(add)


_ID = "Id of a session, as `aar sessions` lists it."


def _show(add: Add) -> None:
    add("session_id", metavar="SESSION", help=_ID)
    _logs(add)


def _export(add: Add) -> None:
    add("session_id", metavar="SESSION", help=_ID)
    add("--format", metavar="FORMAT", choices=("text", "json"), default="text", help="For people, or every event.")
    add("--to", metavar="FILE", help="Write to this file, which must not exist, instead of standard output.")
    _logs(add)


def _delete(add: Add) -> None:
    add("session_ids", metavar="SESSION", nargs="+", help=_ID)
    _logs(add)


def _init(add: Add) -> None:
    add("-f", "--force", action="store_true", help="Write over files that are there.")


def _nothing(add: Add) -> None:
    pass


_FLAGS: dict[str, Callable[[Add], None]] = {
    "run": _run,
    "chat": _chat,
    "sessions list": _logs,
    "sessions show": _show,
    "sessions export": _export,
    "sessions delete": _delete,
    "tools": _logs,
    "prompt": _prompt,
    "config": _config,
    "local install": _nothing,
    "local status": _nothing,
    "init": _init,
    "version": _nothing,
}
