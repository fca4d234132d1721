"""What conditions may ask of a session; see `aar.conditions`."""

from __future__ import annotations

from aar.actors.session_facts import facts_of

__all__ = ["facts_of"]
