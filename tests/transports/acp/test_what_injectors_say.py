"""What injectors say, as an editor sees it: now, and when the session is loaded again."""

from __future__ import annotations

from typing import Any

import pytest

from aar.messages.events import Event, Notice, Recorded, UserMessage
from aar.messages.kinds import Kind, bookmark, display_only, metadata
from aar.transports.acp.updates import Updates

SAID: list[Event] = [
    UserMessage(content="hi", data={"kind": "prompt"}),
    UserMessage(content="Are you sure?", data={"kind": "injected", "injector": "one"}),
    bookmark("Chapter 2"),
    display_only("Look here."),
    metadata(fired="one"),
    Notice(kind="retry", text="Once more."),
]


def shown(replaying: bool, events: list[Event]) -> list[tuple[str, str]]:
    updates = Updates("/", replaying=replaying)
    told: list[dict[str, Any]] = [update for event in events for update in updates.of(Recorded(1, "t", event))]
    return [(one["sessionUpdate"], one["content"]["text"]) for one in told]


@pytest.mark.covers("AURA-17")
def test_what_is_put_in_is_shown_again_and_what_was_of_the_moment_is_not() -> None:
    lasting = [
        ("agent_thought_chunk", "Are you sure?"),
        ("agent_message_chunk", "──── Chapter 2 ────"),
        ("agent_message_chunk", "Look here."),
    ]
    assert shown(False, SAID) == [*lasting, ("agent_thought_chunk", "Once more.")]
    assert shown(True, SAID) == [("user_message_chunk", "hi"), *lasting]
    live = Notice(kind=Kind.SYNTHETIC.value, text="psst")
    assert shown(False, [live]) == [("agent_thought_chunk", "psst")]
