"""The commands that show more than lines. As in `commands.py` nothing of Aar is imported before one of them is called.

They stand here because what their flags are takes time to find out, which the other commands need not spend.
"""

import os
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from aar.transports.program.flags import Flags, LogFlags

__all__ = ["AttachFlags", "TuiFlags", "attach", "tui"]


@dataclass
class TuiFlags(Flags):
    """Those of `aar tui`."""

    theme: Annotated[
        str | None, Parameter(alias="-t", metavar="NAME", help="Theme to use: a name, or the path of a file.")
    ] = None
    fixed: Annotated[bool, Parameter(negative="", help="Use the full screen.")] = False

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "theme": self.theme}


@dataclass
class AttachFlags(LogFlags):
    """Those of `aar attach`."""

    verbose: Annotated[bool, Parameter(alias="-v", negative="", help="Show effects and times of tools.")] = False


SessionId = Annotated[
    str | None, Parameter(name="SESSION", help="Id of the session, or how it begins. Needed where several are open.")
]


def attach(session_id: SessionId = None, /, *, flags: AttachFlags = AttachFlags()) -> int:
    """Use a session that is open elsewhere: in `aar chat`, `aar serve`, an editor."""
    from aar.transports.cli.attach import attach

    return attach(session_id, verbose=flags.verbose, flags=flags)


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
