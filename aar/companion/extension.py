"""The shipped extension: a tool with which the model can look at its companion."""

from __future__ import annotations

from aar.companion.face import status_lines
from aar.companion.progress import Companion
from aar.extensions.api import ExtensionAPI, ExtensionContext

__all__ = ["register"]


def register(api: ExtensionAPI) -> None:
    """Nothing is kept: a session's companion follows from what the session has recorded."""

    @api.tool("companion_status", "Mood, level and progress of this session's companion.")
    def companion_status(ctx: ExtensionContext) -> str:
        session = ctx.session
        return status_lines(Companion.of(session.events, session.metadata))
