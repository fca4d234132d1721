"""Conversations that are changed afterwards: by facts, and never so that a model's API would refuse them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import InvalidMessage, SessionError
from aar.journal.revision import dropping, inserted, past_turns, renamed, rewound_to, standing
from aar.journal.state import Session, fork
from aar.messages.content import TextBlock
from aar.messages.events import (
    AssistantMessage,
    Compacted,
    ConfigChanged,
    Event,
    Recorded,
    SessionEvent,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)


def turn(said: str, *, calls: int = 0, snapshot: str = "") -> list[Event]:
    steps: list[Event] = []
    for number in range(calls):
        call_id = f"{said}{number}"
        steps += [
            ToolCall(tool_call_id=call_id, tool_name="t"),
            AssistantMessage(content=""),
            ToolResult(tool_call_id=call_id, tool_name="t", output="out"),
        ]
    return [
        TurnStarted(data={"snapshot": snapshot} if snapshot else {}),
        UserMessage(content=said, data={"kind": "prompt"}),
        *steps,
        AssistantMessage(content=f"to {said}"),
        TurnEnded(),
    ]


def session_of(*events: Event) -> Session:
    session = Session("s")
    session.append(events)
    return session


def texts(session: Session) -> list[Any]:
    return [message["content"] for message in session.to_messages() if isinstance(message["content"], str)]


def records(session: Session) -> list[Recorded]:
    return [Recorded(seq, "", event) for seq, event in enumerate(session.events, 1)]


@pytest.mark.covers("AURA-104")
def test_dropped_messages_are_not_sent_and_stay_on_record() -> None:
    session = session_of(*turn("a"), *turn("b"))
    before = list(session.events)
    session.append(dropping(session.transcript, 1))
    assert texts(session) == ["a", "to a", "b"]
    session.append(dropping(session.transcript, 2))
    assert texts(session) == ["a"]
    assert session.events[: len(before)] == before
    session.append(turn("c"))
    assert texts(session) == ["a", "c", "to c"]


def test_a_call_is_dropped_with_its_result() -> None:
    session = session_of(*turn("a", calls=1))
    assert len(session.to_messages()) == 4
    fact = dropping(session.transcript, 2)
    assert fact.data == {"messages": 1, "dropped": 3}
    session.append(fact)
    assert texts(session) == ["a"]


def test_a_call_that_was_dropped_does_not_lend_its_id_to_another() -> None:
    session = session_of(*turn("a", calls=1))
    session.append(dropping(session.transcript, 4))
    assert session.to_messages() == []
    assert "a0" in session.transcript.known_call_ids


def test_what_cannot_be_dropped_is_said() -> None:
    with pytest.raises(SessionError, match="nothing has been said yet"):
        dropping(Session("s").transcript, 1)
    with pytest.raises(SessionError, match="1 or more"):
        dropping(session_of(*turn("a")).transcript, 0)
    with pytest.raises(SessionError, match="only 2 messages"):
        rewound_to(session_of(*turn("a")).transcript, 2)


@pytest.mark.parametrize("count", [None, "1", -1, True, 99, 1.5])
def test_a_fact_that_makes_no_sense_drops_nothing(count: object) -> None:
    session = session_of(*turn("a"), SessionEvent(action="rewound", data={"messages": count}))
    assert texts(session) == ["a", "to a"]


@pytest.mark.covers("AURA-104")
def test_messages_can_be_inserted_for_both_sides() -> None:
    session = session_of(*turn("a"))
    session.append(inserted(session.transcript, "user", "by the way"))
    session.append(inserted(session.transcript, "assistant", "I see"))
    assert texts(session) == ["a", "to a", "by the way", "I see"]


@pytest.mark.parametrize(
    ("role", "text", "words"),
    [("system", "x", "`user` or `assistant`"), ("user", " ", "no text"), ("assistant", "x", "begins with")],
)
def test_what_cannot_be_inserted_is_said(role: str, text: str, words: str) -> None:
    with pytest.raises(InvalidMessage, match=words):
        inserted(Session("s").transcript, role, text)


def test_past_turns_are_those_whose_prompts_still_count() -> None:
    session = session_of(*turn("a", snapshot="1"), *turn("b", calls=2, snapshot="2"), *turn("c"))
    found = past_turns(records(session))
    assert [(one.said, one.before, one.snapshot) for one in found] == [("a", 0, "1"), ("b", 2, "2"), ("c", 8, "")]
    session.append(rewound_to(session.transcript, 2))
    session.append(turn("d"))
    assert [(one.said, one.before) for one in past_turns(records(session))] == [("a", 0), ("d", 2)]


def test_what_goes_along_with_a_prompt_is_not_what_was_typed() -> None:
    said = UserMessage.of([TextBlock(text="[File: x]"), TextBlock(text="sum it up")], data={"kind": "prompt"})
    session = session_of(TurnStarted(), said)
    assert [one.said for one in past_turns(records(session))] == ["sum it up"]


def test_files_can_go_back_before_a_summary_and_messages_cannot() -> None:
    session = session_of(*turn("a", snapshot="1"))
    session.append([Compacted(up_to_seq=session.seq, summary="s"), *turn("b")])
    found = past_turns(records(session))
    assert [(one.said, one.before, one.snapshot) for one in found] == [("a", None, "1"), ("b", 1, "")]
    session.append(rewound_to(session.transcript, 1))
    assert [one.said for one in past_turns(records(session))] == ["a"]


def test_a_name_stands_for_the_title_until_it_is_taken_away() -> None:
    session = session_of(*turn("a"))
    session.metadata["title"] = "to a"
    session.append(renamed("  my\twork "))
    assert (session.metadata["name"], session.metadata["title"]) == ("my work", "my work")
    session.append(renamed(""))
    assert not {"name", "title"} & set(session.metadata)
    for name in ("x" * 101, "a\x1b[31m"):
        with pytest.raises(InvalidMessage, match="at most 100 characters"):
            renamed(name)


def test_what_is_changed_later_in_a_session_keeps_its_settings_and_name_apart_from_an_opening() -> None:
    session = session_of(SessionEvent(action="started"), *turn("a"), ConfigChanged(patch={"max_steps": 3}))
    session.append([renamed("x"), rewound_to(session.transcript, 0)])
    assert session.patch == {"max_steps": 3}
    copy = session_of(*fork(session))
    assert (copy.patch, texts(copy)) == ({"max_steps": 3}, [])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.integers(0, 2)),
        st.tuples(st.just("cut"), st.integers(0, 2)),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("insert"), st.sampled_from(["user", "assistant"])),
        st.tuples(st.just("compact"), st.none()),
    ),
    max_size=12,
)


@given(STEPS, st.integers(0, 12))
def test_whatever_is_changed_a_model_can_be_asked(
    problems_of: Any, steps: list[tuple[str, Any]], forked_at: int
) -> None:
    session = session_of(SessionEvent(action="started"))
    for number, (kind, how) in enumerate(steps):
        transcript = session.transcript
        match kind:
            case "turn":
                session.append(turn(str(number), calls=how))
            case "cut":
                session.append(turn(str(number), calls=how)[:-3])
            case "drop" if len(transcript):
                session.append(SessionEvent(action="rewound", data={"messages": how}))
            case "insert" if len(transcript):
                session.append(inserted(transcript, how, "x"))
            case "compact" if len(transcript):
                session.append(Compacted(up_to_seq=session.seq, summary="s"))
    assert problems_of(session.to_messages()) == []
    copy = session_of(*fork(session))
    assert copy.to_messages() == session.to_messages()
    part = session_of(*fork(session, forked_at)).to_messages()
    assert problems_of(part) == []
    assert len(part) <= forked_at + 1


# --- what is left to tell ---------------------------------------------------------------------


def test_without_a_change_all_facts_are_told() -> None:
    session = session_of(*turn("a"), *turn("b", calls=1))
    assert standing(records(session)) == records(session)


def test_a_turn_that_was_taken_back_is_not_told() -> None:
    session = session_of(*turn("a", calls=1), *turn("b"))
    session.append([rewound_to(session.transcript, 4)])
    session.append(turn("c"))
    told = [record.event for record in standing(records(session))]
    assert told == [*session.events[: len(turn("a", calls=1))], *session.events[-len(turn("c")) :]]


def test_of_a_turn_that_was_taken_back_in_part_the_end_is_told() -> None:
    session = session_of(*turn("a"))
    session.append([dropping(session.transcript, 1)])
    told = [type(record.event) for record in standing(records(session))]
    assert told == [TurnStarted, UserMessage, TurnEnded]


@given(st.lists(st.integers(0, 2), max_size=5), st.lists(st.integers(0, 9), max_size=3))
def test_what_is_told_says_what_the_model_is_told(calls: list[int], drops: list[int]) -> None:
    session = session_of()
    for number, count in enumerate(calls):
        session.append(turn(f"t{number}", calls=count))
    for number in drops:
        if 0 < number <= len(session.transcript):
            session.append([dropping(session.transcript, number)])
            session.append(turn("again"))
    told = session_of(*(record.event for record in standing(records(session))))
    assert told.to_messages() == session.to_messages()
