"""The commands that show more than lines. As in `commands.py` nothing of Aar is imported before one of them is called.

They stand here because what their flags are takes time to find out, which the other commands need not spend.
"""

import os
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from aar.transports.program.flags import Flags

__all__ = ["TuiFlags", "tui"]


@dataclass
class TuiFlags(Flags):
    """Those of `aar tui`."""

    theme: Annotated[
        str | None, Parameter(alias="-t", metavar="NAME", help="Theme to use: a name, or the path of a file.")
    ] = None
    fixed: Annotated[bool, Parameter(negative="", help="Use the full screen.")] = False

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "theme": self.theme}


def tui(*, flags: TuiFlags = TuiFlags()) -> int:
    """Talk with the agent in panels, or on the full screen."""
    if not (os.isatty(0) and os.isatty(1)):
        from aar.transports.program.exits import USAGE, complain

        complain("`aar tui` needs a terminal for input and output. For pipes and files: aar chat, aar run.")
        return USAGE
    if flags.fixed:
        from aar.transports.fullscreen.start import fullscreen

        return fullscreen(flags=flags)
    from aar.transports.cli.tui import tui

    return tui(flags=flags)
