"""The events of interfaces: all kinds of them, as JSON and back, and as a view of what happened in a session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aar.errors import InvalidMessage, UnknownMessage
from aar.messages.events import EventType, TurnEnded
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider
from aar.ui import EVENTS, Tag, UiEvent, UiView, event_of, json_of, present
from aar.ui import events as ui

MESSAGE = ui.UiMessage("m1", "assistant", (ui.Part("text", "hi"), ui.Part("tool_call", "", "c", "bash", {"a": 1})))
EXAMPLES: list[UiEvent] = [
    ui.MessageAdded(MESSAGE),
    ui.MessageStarted("m1"),
    ui.MessagePartAdded("m1", 0, MESSAGE.parts[1]),
    ui.MessagePartUpdated("m1", 0, "more", "running"),
    ui.MessageFinalized(MESSAGE),
    ui.StatusChanged("running", "t1", 1, 2, 3, 4, ("c",)),
    ui.DisplayHintsChanged({"max_steps": 7}),
    ui.AssistantDone("t1", "end_turn"),
    ui.WaitingForInput(),
    ui.UserMessagesProcessed(("m0",)),
    ui.SpinnerMessage("waiting"),
    ui.SyntheticInjected("internal", "go on"),
    ui.ToolOutputDelta("c", "out"),
    ui.ToolConfirmRequired("c", "bash", {"command": "ls"}, "commands", ("allow", "deny")),
    ui.AskRequired("q", "Which?", ("a", "b")),
    ui.TodoEditRequested("q", ("one", "two")),
    ui.SessionRestored("s", "resumed", "/"),
    ui.SlashCommandHandled("/help", True),
    ui.CommandResult("/help", "text"),
    ui.PickerOpen("q", "Models", ("a", "b")),
    ui.Flush("f"),
]


@pytest.mark.covers("AURA-25")
def test_there_are_twenty_one_kinds_under_six_tags() -> None:
    assert [type(example) for example in EXAMPLES] == list(EVENTS)
    assert len(EVENTS) == 21
    assert {kind.tag for kind in EVENTS} == set(Tag)
    assert [sum(kind.tag is tag for kind in EVENTS) for tag in Tag] == [5, 7, 2, 2, 3, 2]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_each_comes_back_from_json_as_it_was(event: UiEvent) -> None:
    text = json_of(event)
    assert "\n" not in text
    assert event_of(text) == event
    assert json.loads(text)["tag"] == event.tag


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("no", InvalidMessage),
        ("[]", UnknownMessage),
        ("{}", UnknownMessage),
        ('{"type": "sing"}', UnknownMessage),
        ('{"type": ["x"]}', UnknownMessage),
        ('{"type": "flush"}', InvalidMessage),
        ('{"type": "flush", "tag": "tool", "request_id": "f"}', InvalidMessage),
    ],
)
def test_what_is_no_event_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        event_of(text)


class Recorder:
    """An interface that writes down what it is told, by tag."""

    def __init__(self) -> None:
        self.told: list[tuple[str, UiEvent]] = []

    def __getattr__(self, name: str) -> Any:
        async def note(event: UiEvent) -> None:
            self.told.append((name, event))

        return note


@pytest.mark.covers("AURA-25")
async def test_an_interface_is_told_every_kind_where_it_belongs() -> None:
    async def all_of_them() -> AsyncIterator[UiEvent]:
        for event in EXAMPLES:
            yield event

    recorder = Recorder()
    await present(all_of_them(), recorder)
    assert recorder.told == [(f"on_{event.tag}", event) for event in EXAMPLES]


# --- the view ---------------------------------------------------------------------------------


async def told_of(watched: Any, session: Any, prompt: str) -> list[UiEvent]:
    view = UiView(session.session_id)
    before = session.records()
    for record in before:
        assert list(view.see(record))
    seen = await watched(session, prompt)
    from aar.messages.events import HINTS, Recorded

    seqs = iter(range(before[-1].seq + 1, 10_000))
    turn = next(record.turn_id for record in session.records() if record.seq > before[-1].seq)
    records = [Recorded(0 if isinstance(event, HINTS) else next(seqs), turn, event) for event in seen]
    return [event for record in records for event in view.see(record)]


def names(events: list[UiEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


@pytest.mark.covers("AURA-36")
async def test_all_calls_of_an_answer_are_pending_before_the_first_one_runs(live, watched) -> None:
    calls = [("list_directory", {"path": "."})] * 3
    async with live(ScriptedProvider().calls(*calls).text("Done.")) as session:
        told = await told_of(watched, session, "go")
    states = [
        event.part.state if isinstance(event, ui.MessagePartAdded) else event.state
        for event in told
        if (isinstance(event, ui.MessagePartAdded) and event.part.kind == "tool_call")
        or (isinstance(event, ui.MessagePartUpdated) and event.state)
    ]
    assert states[:3] == ["pending"] * 3
    assert sorted(filter(None, states[3:])) == ["complete"] * 3 + ["running"] * 3


async def test_a_streamed_answer_is_announced_grows_and_is_told_whole(live, watched) -> None:
    script = ScriptedProvider().text("Hello there.", chunks=3).reasoning("Hm.")
    async with live(script, AgentConfig(streaming=True)) as session:
        told = await told_of(watched, session, "hi")
    message = [event for event in told if event.tag is Tag.MESSAGE][1:]
    assert names(message)[0] == "MessageStarted"
    final = message[-1]
    assert isinstance(final, ui.MessageFinalized)
    assert [(part.kind, part.text) for part in final.message.parts] == [("thinking", "Hm."), ("text", "Hello there.")]
    assert names(told)[-3:] == ["AssistantDone", "StatusChanged", "WaitingForInput"]
    assert names(told)[:3] == ["StatusChanged", "MessageAdded", "UserMessagesProcessed"]


async def test_from_facts_alone_the_whole_messages_are_the_same(live, watched) -> None:
    script = ScriptedProvider().calls(("list_directory", {"path": "."}), text="Let me look.").text("Done.", chunks=2)
    async with live(script, AgentConfig(streaming=True)) as session:
        streamed = await told_of(watched, session, "hi")
        view = UiView(session.session_id)
        replayed = [event for record in session.records() for event in view.see(record)]

    def whole(events: list[UiEvent]) -> list[str]:
        kept = [event for event in events if isinstance(event, ui.MessageAdded | ui.MessageFinalized)]
        return ["".join(part.text for part in event.message.parts if part.kind == "text") for event in kept]

    assert whole(streamed) == whole(replayed) == ["hi", "Let me look.", "Done."]


async def test_what_broke_off_is_taken_back(live, watched) -> None:
    script = ScriptedProvider().cut("Half an ans").text("Whole.")
    async with live(script, AgentConfig(streaming=True)) as session:
        told = await told_of(watched, session, "hi")
    finals = [event.message for event in told if isinstance(event, ui.MessageFinalized)]
    assert [(message.is_partial, len(message.parts)) for message in finals] == [(True, 0), (False, 1)]
    assert len({message.id for message in finals}) == 2


def test_the_view_knows_every_event_of_a_journal() -> None:
    """A new kind of event has to be thought of here: shown, or named among those that are not."""
    import inspect

    from aar.messages import events
    from aar.ui import view

    kinds = {kind: next(c for c in vars(events).values() if _is_of(c, kind)) for kind in EventType}
    source = inspect.getsource(view)
    assert [kind.value for kind, found in kinds.items() if f"{found.__name__}(" not in source] == []


def _is_of(found: Any, kind: EventType) -> bool:
    fields = getattr(found, "model_fields", {})
    return "type" in fields and fields["type"].default == kind.value


def test_turn_ended_is_a_fact() -> None:
    assert TurnEnded().type == EventType.TURN_ENDED
