"""The commands, each loaded when it is called."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from aar._version import __version__
from aar.transports.cli.exits import USAGE, complain

__all__ = ["build_app", "run_command"]

_HERE = "aar.transports.cli"

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
    "init": ("init:init", "Write a config file, rules, themes and examples into ~/.aar."),
    "version": ("show:version", "Print the version."),
}
"""Every command with the function that does it and one line about it."""

GROUPS = {"sessions": ("list", "List, show, export and delete stored sessions.")}
"""Commands with commands of their own: which one of them stands in when none is given."""

ABOUT = "A coding agent for the terminal. What it does is kept in sessions that can be resumed."


def build_app() -> App:
    """All commands of `aar`. Nothing that a command needs is imported before it is called."""
    app = App(
        name="aar",
        help=ABOUT,
        help_flags=["--help"],
        version_flags=["--version"],
        version=__version__,
        help_formatter="plain",
        result_action="return_value",
    )
    groups = {name: App(name=name, help=text, help_flags=["--help"]) for name, (_, text) in GROUPS.items()}
    for group in groups.values():
        app.command(group)
    for words, (place, text) in COMMANDS.items():
        within, _, name = words.rpartition(" ")
        (groups[within] if within else app).command(f"{_HERE}.{place}", name=name, help=text)
    return app


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and answer with its exit code. Mistakes in it are one line on standard error and 2."""
    _open_missing_streams()
    words = _completed(arguments)
    try:
        result = build_app()(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        complain(f"{error} See `aar{_command_of(words)} --help`.")
        return USAGE
    return result if isinstance(result, int) else 0


def _completed(arguments: Sequence[str]) -> list[str]:
    """`aar sessions` means `aar sessions list`."""
    words = list(arguments)
    if words[0] in GROUPS and (len(words) == 1 or words[1].startswith("-")):
        words.insert(1, GROUPS[words[0]][0])
    return words


def _open_missing_streams() -> None:
    """A program started without one of the standard streams would otherwise get its next file under that number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _command_of(arguments: Sequence[str]) -> str:
    from aar.transports.cli.help import has_text

    for count in (2, 1):
        if has_text(arguments[:count]):
            return " " + " ".join(arguments[:count])
    return ""
