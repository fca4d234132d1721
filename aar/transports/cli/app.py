"""From a command line to the function that does it, and to an exit code."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from aar.transports.cli.arguments import COMMANDS, Misuse, parse

__all__ = ["run_command"]


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and answer with its exit code. Mistakes in it are one line on standard error and 2."""
    _open_missing_streams()
    gc.set_threshold(50_000, 20, 20)  # modules make many objects and no garbage: looking for it is a tenth of the start
    try:
        words, values = parse(arguments)
    except Misuse as error:
        from aar.transports.cli.exits import USAGE, complain

        complain(str(error))
        return USAGE
    place = COMMANDS[words][0]
    module_name, _, name = place.partition(":")
    command = getattr(import_module(f"aar.transports.cli.{module_name}"), name)
    return _called(command, values)


def _called(command: Any, values: dict[str, Any]) -> int:
    """Flags that several commands share come as one object, everything else by its name."""
    from aar.transports.cli.flags import Flags

    shared = {name: values.pop(name) for name in list(values) if name in Flags.__dataclass_fields__}
    code: int = command(flags=Flags(**shared), **values) if shared else command(**values)
    return code


def _open_missing_streams() -> None:
    """A program started without one of the standard streams would otherwise get its next file under that number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
