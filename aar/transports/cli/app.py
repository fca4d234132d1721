"""From a command line to the function that does it, and to an exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

__all__ = ["GROUPS", "VARIABLES", "build_app", "run_command"]

_COMMANDS = "aar.transports.cli.commands"
_ELSEWHERE = {
    **dict.fromkeys(("tui", "attach"), "aar.transports.cli.interfaces"),
    **dict.fromkeys(("serve", "acp", "mcp"), "aar.transports.cli.serving"),
}

VARIABLES = "AAR_FLAG_"
"""How the variables begin that stand for flags: `AAR_FLAG_MAX_STEPS=9` is `--max-steps 9`, where there is that flag."""

_ROLES = {
    "agents": "Agents: who works, with which model, tools, rules and prompt.",
    "modes": "Modes: how an agent works, with which tools, rules and prompt.",
}

ABOUT = "A coding agent for the terminal. What it does is kept in sessions that can be resumed."

GROUPS = {
    "sessions": "list",
    "local": "status",
    "extensions": "list",
    "sandbox": "status",
    "agents": "list",
    "modes": "list",
}
"""Commands with commands of their own: which one of them stands in when none is given."""


def build_app() -> App:
    """All commands of `aar`, each imported when it is called or needs help.

    There are no flags for help and version: `help.py` answers them before anybody comes here.
    """
    app = _group("aar", ABOUT)
    for name in (
        "run",
        "chat",
        "tui",
        "attach",
        "serve",
        "acp",
        "mcp",
        "models",
        "tools",
        "prompt",
        "config",
        "init",
        "install",
        "version",
    ):
        app.command(f"{_ELSEWHERE.get(name, _COMMANDS)}:{name}", name=name)
    sessions = _group("sessions", "List, show, export, name, copy and delete stored sessions.")
    for name in ("list", "show", "export", "rename", "fork", "delete"):
        sessions.command(f"{_COMMANDS}:sessions_{name}", name=name)
    app.command(sessions)
    extensions = _group("extensions", "Extensions: Python files that add tools, hooks and slash commands.")
    for name in ("list", "inspect", "trust"):
        extensions.command(f"{_COMMANDS}:extensions_{name}", name=name)
    app.command(extensions)
    for name, about in _ROLES.items():
        roles = _group(name, about)
        for inner in ("list", "show", "trust"):
            roles.command(f"aar.transports.cli.role_commands:{name}_{inner}", name=inner)
        app.command(roles)
    local = _group("local", "The model that Aar runs itself, without an account.")
    for name in ("install", "status"):
        local.command(f"{_COMMANDS}:local_{name}", name=name)
    app.command(local)
    sandbox = _group("sandbox", "The distribution of WSL that commands run in, on Windows.")
    for name in ("setup", "status", "reset"):
        sandbox.command(f"{_COMMANDS}:sandbox_{name}", name=name)
    app.command(sandbox)
    return app


def _group(name: str, about: str) -> App:
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
    app = build_app()
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
        words.insert(1, GROUPS[words[0]])
    return words


def _open_missing_streams() -> None:
    """A program started without one of the standard streams would otherwise get its next file under that number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
