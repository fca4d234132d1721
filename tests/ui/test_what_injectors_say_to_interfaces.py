"""What injectors say, as interfaces get it: apart from what people say, and nothing of what is for programs."""

from __future__ import annotations

from aar.messages.events import Event, Notice, Recorded, UserMessage
from aar.messages.kinds import Kind, bookmark, metadata
from aar.ui.events import MessageAdded, SyntheticInjected
from aar.ui.view import UiView


def test_what_injectors_say_is_told_from_what_people_say() -> None:
    view = UiView("s")
    events: list[Event] = [
        UserMessage(content="hi", data={"kind": "prompt"}),
        UserMessage(content="go on", data={"kind": "internal", "reason": "max_tokens_recovery"}),
        UserMessage(content="Are you sure?", data={"kind": "injected", "injector": "one"}),
        Notice(kind=Kind.SYNTHETIC.value, text="psst", data={"injector": "two"}),
        bookmark("Chapter 2"),
        metadata(fired="one"),
    ]
    told = [event for seq, fact in enumerate(events, 1) for event in view.see(Recorded(seq, "t", fact))]
    assert [(one.kind, one.text) for one in told if isinstance(one, SyntheticInjected)] == [
        ("max_tokens_recovery", "go on"),
        ("one", "Are you sure?"),
        ("two", "psst"),
    ]
    added = [one.message.parts[0].text for one in told if isinstance(one, MessageAdded)]
    assert added == ["hi", "──── Chapter 2 ────"]
