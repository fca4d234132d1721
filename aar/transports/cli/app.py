"""From a command line to the function that does it, and to an exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from cyclopts import App, CycloptsError, Parameter

__all__ = ["COMMANDS", "GROUPS", "VARIABLES", "build_app", "run_command"]

VARIABLES = "AAR_FLAG_"
"""How the variables begin that stand for flags: `AAR_FLAG_MAX_STEPS=9` is `--max-steps 9`, where there is that flag."""

ABOUT = "A coding agent for the terminal. What it does is kept in sessions that can be resumed."

COMMANDS = {
    **dict.fromkeys(("run", "chat"), "commands"),
    **dict.fromkeys(("tui", "attach"), "interfaces"),
    **dict.fromkeys(("serve", "acp", "mcp"), "serving"),
    **dict.fromkeys(("models", "tools", "prompt", "config", "init", "install", "version"), "commands"),
}
"""The module beside this one that has the command, by its name; in the order in which help lists them."""


class Group(NamedTuple):
    """A command with commands of its own: functions `<name>_<inner>`. `usual` stands in when none is given."""

    about: str
    inner: tuple[str, ...]
    usual: str = "list"
    module: str = "commands"


GROUPS = {
    "sessions": Group(
        "List, show, export, name, copy and delete stored sessions.",
        ("list", "show", "export", "rename", "fork", "delete"),
    ),
    "extensions": Group(
        "Extensions: Python files that add tools, hooks and slash commands.", ("list", "inspect", "trust")
    ),
    "agents": Group(
        "Agents: who works, with which model, tools, rules and prompt.",
        ("list", "show", "trust"),
        module="role_commands",
    ),
    "modes": Group(
        "Modes: how an agent works, with which tools, rules and prompt.",
        ("list", "show", "trust"),
        module="role_commands",
    ),
    "tasks": Group(
        "Tasks: prompts kept in a file, done by hand or when they are due.",
        ("list", "run", "watch"),
        module="task_commands",
    ),
    "local": Group("The model that Aar runs itself, without an account.", ("install", "status"), "status"),
    "sandbox": Group(
        "The distribution of WSL that commands run in, on Windows.", ("setup", "status", "reset"), "status"
    ),
}


def build_app(wanted: str = "") -> App:
    """The command that is wanted, or all of them when there is none of this name; imported when it is called.

    Cyclopts goes through all commands for each of them, and every start would pay for that. There are no flags for help
    and version: `help.py` answers them before anybody comes here.
    """
    app = _app("aar", ABOUT)
    is_one = wanted in COMMANDS or wanted in GROUPS
    for name, module in COMMANDS.items():
        if name == wanted or not is_one:
            app.command(f"{__package__}.{module}:{name}", name=name)
    for name, group in GROUPS.items():
        if name == wanted or not is_one:
            app.command(_group(name, group))
    return app


def _group(name: str, group: Group) -> App:
    app = _app(name, group.about)
    for inner in group.inner:
        app.command(f"{__package__}.{group.module}:{name}_{inner}", name=inner)
    return app


def _app(name: str, about: str) -> App:
    return App(
        name=name,
        help=about,
        help_flags=[],
        version_flags=[],
        default_parameter=Parameter(allow_repeating=True),  # the last one counts, so a shell alias can be overruled
        print_error=False,
        exit_on_error=False,
        result_action="return_value",
    )


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and answer with its exit code. Mistakes in it are one line on standard error and 2."""
    _open_missing_streams()
    words = _completed(arguments)
    app = build_app(words[0])
    if any(name.startswith(VARIABLES) for name in os.environ):
        from cyclopts.config import Env

        app.config = (Env(VARIABLES, command=False),)
    try:
        command, bound, _ = app.parse_args(words)
    except CycloptsError as error:
        from aar.transports.cli.mistakes import mistake
        from aar.transports.program.exits import USAGE, complain

        complain(mistake(error))
        return USAGE
    code: int = command(*bound.args, **bound.kwargs)
    return code


def _completed(arguments: Sequence[str]) -> list[str]:
    """`aar sessions` means `aar sessions list`; `aar help x` comes here only when there is no x to tell about."""
    words = list(arguments)
    if words[0] == "help" and len(words) > 1:
        del words[0]
    if words[0] in GROUPS and (len(words) == 1 or words[1].startswith("-")):
        words.insert(1, GROUPS[words[0]].usual)
    return words


def _open_missing_streams() -> None:
    """A program started without one of the standard streams would otherwise get its next file under that number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
