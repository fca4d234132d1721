"""What interfaces for people need of a session: 21 kinds of events as a view of its journal, questions with answers by
id, a barrier, and a stated end for whoever cannot keep up.

async with open_feed(session, overflow=Overflow.COALESCE) as feed:
    async for event in feed:
        ...
"""

from __future__ import annotations

from aar.ui.encoding import event_of, json_of
from aar.ui.events import EVENTS, Tag, UiEvent
from aar.ui.feed import Feed, Overflow, open_feed
from aar.ui.presenting import Interface, present
from aar.ui.view import UiView

__all__ = [
    "EVENTS",
    "Feed",
    "Interface",
    "Overflow",
    "Tag",
    "UiEvent",
    "UiView",
    "event_of",
    "json_of",
    "open_feed",
    "present",
]
