"""The parts of the full-screen interface that stand beside the chat: one line for each."""

from __future__ import annotations

from aar.transports.fullscreen.approval import Approvals
from aar.transports.fullscreen.clipboard import Copying
from aar.transports.fullscreen.companion import CompanionBadge
from aar.transports.fullscreen.logs import Logs
from aar.transports.fullscreen.picker import Picking
from aar.transports.fullscreen.stage import Part, Stage

__all__ = ["make_parts"]


def make_parts(stage: Stage) -> list[Part]:
    """All of them, in the order in which they see what happens."""
    return [Logs(stage), Approvals(stage), Picking(stage), Copying(stage), CompanionBadge(stage)]
