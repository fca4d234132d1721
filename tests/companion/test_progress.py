"""Moods, levels and the table of experience, as a fold over events and ticks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.companion.face import FACES, bar, drawn, status_lines
from aar.companion.progress import Companion
from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    ReasoningBlock,
    StreamChunk,
    ToolCall,
    TurnEnded,
    TurnStarted,
)

CALL = ToolCall(tool_name="bash")


def seeing(*events: Event, start: Companion | None = None) -> Companion:
    companion = start or Companion()
    for event in events:
        companion = companion.after(event)
    return companion


@pytest.mark.covers("EXT-24")
@pytest.mark.parametrize(
    ("steps", "level", "xp"),
    [
        (0, 1, 0.0),
        (1, 1, 0.2),
        (4, 1, 0.8),
        (5, 2, 0.0),
        (10, 2, 0.5),
        (14, 2, 0.9),
        (15, 3, 0.0),
        (29, 3, 14 / 15),
        (30, 4, 0.0),
        (49, 4, 0.95),
        (50, 5, 1.0),
        (999, 5, 1.0),
    ],
)
def test_tool_calls_make_experience_and_experience_makes_levels(steps, level, xp) -> None:
    companion = seeing(*[CALL] * steps)
    assert (companion.steps, companion.level, companion.xp) == (steps, level, pytest.approx(xp))


@pytest.mark.covers("EXT-24")
@pytest.mark.parametrize(
    ("event", "mood"),
    [
        (CALL, "focused"),
        (StreamChunk(text="a"), "excited"),
        (AssistantMessage(content="a"), "excited"),
        (StreamChunk(reasoning_text="hm"), "thinking"),
        (ReasoningBlock(content="hm"), "thinking"),
        (ErrorEvent(message="no"), "stressed"),
        (TurnEnded(), "happy"),
    ],
)
def test_each_event_has_its_mood(event, mood) -> None:
    assert seeing(event).mood == mood


@pytest.mark.parametrize("event", [StreamChunk(finished=True), AssistantMessage(), TurnStarted()])
def test_what_says_nothing_leaves_the_mood(event) -> None:
    assert seeing(StreamChunk(reasoning_text="hm"), event).mood == "thinking"


@pytest.mark.covers("EXT-24")
def test_a_new_level_is_celebrated_for_eight_ticks_whatever_happens_meanwhile() -> None:
    companion = seeing(*[CALL] * 5)
    assert companion.mood == "level_up"
    companion = seeing(ErrorEvent(message="no"), TurnEnded(), CALL, start=companion)
    assert companion.mood == "level_up"
    assert [companion.ticked(count).mood for count in (7, 8)] == ["level_up", "focused"]


@pytest.mark.covers("EXT-24")
@pytest.mark.parametrize(
    ("dirty", "mood"), [(None, "happy"), (0, "happy"), (1, "focused"), (4, "focused"), (5, "stressed")]
)
def test_at_rest_it_minds_what_is_not_committed(dirty, mood) -> None:
    assert Companion(dirty=dirty).mood == mood
    assert seeing(StreamChunk(text="a"), start=Companion(dirty=dirty)).mood == "excited"


@pytest.mark.covers("EXT-24")
def test_after_sixty_quiet_ticks_it_sleeps_and_anything_wakes_it() -> None:
    resting = seeing(TurnEnded())
    assert [resting.ticked(count).mood for count in (60, 61)] == ["happy", "sleeping"]
    assert resting.ticked(61).with_dirty(9).mood == "sleeping"
    assert resting.ticked(61).after(TurnStarted()).mood == "happy"


@pytest.mark.covers("EXT-24")
def test_a_session_brings_its_calls_and_errors_and_what_went_before_them() -> None:
    events = [CALL, CALL, ErrorEvent(message="no"), AssistantMessage(content="done")]
    assert Companion.resting(events) == Companion(steps=2, errors=1)
    metadata = {"companion_baseline": Companion(steps=40, errors=2).as_baseline()}
    assert Companion.resting(events, metadata) == Companion(steps=42, errors=3)
    assert [Companion.of(events, metadata).steps, Companion.of(events, metadata).errors] == [42, 3]
    assert Companion.of([], {"companion_baseline": 7}).steps == 7


@pytest.mark.parametrize("told", [None, "many", -3, True, [], {"steps": "x", "errors": None}])
def test_a_baseline_that_makes_no_sense_counts_as_nothing(told) -> None:
    assert Companion.of([], {"companion_baseline": told}) == Companion()


def test_a_celebration_that_is_long_over_is_not_taken_up_again() -> None:
    early = [ToolCall(tool_name="x", timestamp=100.0 + at) for at in range(5)]
    assert Companion.of(early).mood == "level_up"
    assert Companion.of([*early, ErrorEvent(message="no", timestamp=200.0)]).mood == "stressed"


def test_all_of_a_long_session_counts() -> None:
    companion = Companion.of([*[CALL] * 300, ErrorEvent(message="no"), *[CALL] * 300, TurnEnded()])
    assert (companion.steps, companion.errors, companion.mood) == (600, 1, "happy")


@given(st.lists(st.sampled_from([CALL, ErrorEvent(message="no"), StreamChunk(text="a"), TurnEnded()]), max_size=70))
def test_progress_never_goes_back(events) -> None:
    levels, companion = [], Companion()
    for event in events:
        companion = companion.after(event).ticked()
        levels.append((companion.level, companion.xp))
    assert levels == sorted(levels)
    assert companion.steps == events.count(CALL)


def test_a_bar_is_full_when_all_is_done() -> None:
    assert [bar(share) for share in (0.0, 0.5, 1.0)] == ["[░░░░░░░░]", "[■■■■░░░░]", "[■■■■■■■■]"]


def test_faces_are_as_wide_as_one_another() -> None:
    assert {len(face) for faces in FACES.values() for face in faces} == {5}


def test_the_parts_of_it_stand_in_the_order_that_is_asked_for() -> None:
    companion = seeing(*[CALL] * 10).ticked(8)
    assert drawn(companion, ["kaomoji", "xp_bar", "level", "mood"]) == "(o_o) [■■■■░░░░] lv.2 focused"
    assert drawn(companion, ["name", "steps"], name="Bit") == "Bit 10 steps"
    assert drawn(companion, []) == ""


def test_its_status_is_five_lines() -> None:
    companion = seeing(*[CALL] * 9, ErrorEvent(message="no")).ticked(8)
    assert status_lines(companion).splitlines() == [
        "mood: stressed",
        "level: 2 / 5",
        "xp: 40%",
        "steps: 9",
        "errors: 1",
    ]
