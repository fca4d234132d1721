"""`aar tui --fixed`, as the command line calls it."""

from __future__ import annotations

import os

from aar.errors import TransportError
from aar.transports.program.exits import USAGE, complain, run_to_code
from aar.transports.program.flags import Flags
from aar.transports.program.opening import two_sessions
from aar.transports.program.settings import loaded_settings

__all__ = ["fullscreen"]


def fullscreen(*, flags: Flags) -> int:
    """Talk with the agent on the whole screen. Standard input and output are a terminal."""
    if two_sessions(flags):
        return USAGE
    if os.environ.get("TERM", "") in ("", "dumb"):
        complain(
            "The full screen needs a terminal that can move its cursor (TERM). Without --fixed: aar tui, aar chat."
        )
        return USAGE

    async def work() -> int:
        try:
            from aar.transports.fullscreen.run import run_fullscreen
        except ModuleNotFoundError as error:
            raise TransportError(
                "The full screen needs a package that is not there: pip install 'aar-agent[tui]'"
            ) from error
        return await run_fullscreen(loaded_settings(flags), flags)

    return run_to_code(work)
