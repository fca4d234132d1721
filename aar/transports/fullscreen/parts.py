"""The parts of the full-screen interface that stand beside the chat: one line for each."""

from __future__ import annotations

from aar.transports.fullscreen.stage import Part, Stage

__all__ = ["make_parts"]


def make_parts(stage: Stage) -> list[Part]:
    """All of them, in the order in which they see what happens."""
    return []
