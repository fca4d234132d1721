"""The commands, each loaded when it is called."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from aar._version import __version__
from aar.transports.cli.exits import USAGE, complain

__all__ = ["build_app", "run_command"]

_HERE = "aar.transports.cli"


def build_app() -> App:
    """All commands of `aar`."""
    app = App(
        name="aar",
        help="A coding agent for the terminal. Everything it does is kept in a session that can be resumed.",
        version=__version__,
        help_flags=["--help"],
        version_flags=["--version"],
        help_formatter="plain",
        result_action="return_value",
    )
    app.command(f"{_HERE}.run:run", name="run", help="Do one task and exit.")
    return app


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and answer with its exit code. Mistakes in it are one line on standard error and 2."""
    _open_missing_streams()
    try:
        result = build_app()(list(arguments), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        complain(f"{error} See `aar{_command_of(arguments)} --help`.")
        return USAGE
    return result if isinstance(result, int) else 0


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
