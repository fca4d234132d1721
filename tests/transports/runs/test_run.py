"""What a run tells while a message is said, and said again: its pieces always give the message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.events import AssistantMessage, ErrorEvent, Event, ReasoningBlock, StepRestarted, StreamChunk
from aar.transports.runs.request import RunRequest
from aar.transports.runs.run import Run, message
from tests.transports.acp_http.conftest import text_of


def told_of(*events: Event) -> Run:
    run = Run("aar", request=RunRequest("go"))
    for event in events:
        run.notice(event)
    return run


def pieces(run: Run) -> list[tuple[str, int]]:
    return [
        (text_of(event["message"]), event.get("replaces", 0))
        for event in run.events
        if event["type"] == "message_created"
    ]


def joined(run: Run) -> str:
    text = ""
    for piece, replaced in pieces(run):
        text = text[: len(text) - replaced] + piece
    return text


def chunks(*texts: str) -> list[StreamChunk]:
    return [StreamChunk(text=text) for text in texts]


def test_a_message_is_told_in_the_pieces_in_which_it_came() -> None:
    run = told_of(*chunks("One ", "two"), StreamChunk(finished=True), AssistantMessage(content="One two"))
    assert pieces(run) == [("One ", 0), ("two", 0)]
    assert run.output == [message("One two")]


def test_what_a_slow_reader_missed_comes_with_the_message() -> None:
    assert pieces(told_of(*chunks("One "), AssistantMessage(content="One two"))) == [("One ", 0), ("two", 0)]
    assert pieces(told_of(AssistantMessage(content="One two"))) == [("One two", 0)]


def test_an_attempt_that_begins_like_the_one_before_goes_on_where_that_ended() -> None:
    run = told_of(*chunks("One tw"), StepRestarted(), *chunks("One", " two three"))
    assert pieces(run) == [("One tw", 0), ("o three", 0)]


def test_an_attempt_that_says_something_else_makes_the_one_before_void() -> None:
    run = told_of(*chunks("One"), StepRestarted(), *chunks("Six"), AssistantMessage(content="Six."))
    assert pieces(run) == [("One", 0), ("Six", 3), (".", 0)]


def test_a_shorter_message_than_was_told_makes_that_void() -> None:
    run = told_of(*chunks("One two"), StepRestarted(), AssistantMessage(content="One"))
    assert pieces(run) == [("One two", 0), ("One", 7)]
    nothing = told_of(*chunks("One two"), StepRestarted(), AssistantMessage(content=""))
    assert (pieces(nothing), nothing.output) == ([("One two", 0), ("", 7)], [])


def test_thoughts_and_calls_alone_say_nothing() -> None:
    run = told_of(StreamChunk(reasoning_text="hm"), ReasoningBlock(content="hm"), AssistantMessage(content=""))
    assert (pieces(run), run.output) == ([], [])


attempts = st.lists(st.lists(st.text("ab", max_size=4), max_size=4), max_size=3)


@given(st.lists(st.tuples(attempts, st.text("ab", max_size=9)), max_size=4))
def test_whatever_is_tried_the_pieces_give_the_output(said: list[tuple[list[list[str]], str]]) -> None:
    events: list[Event] = []
    for tries, whole in said:
        for number, texts in enumerate(tries):
            events += [StepRestarted()] if number else []
            events += chunks(*texts)
        events.append(AssistantMessage(content=whole))
    run = told_of(*events)
    assert joined(run) == text_of(*run.output) == "".join(whole for _, whole in said)


@pytest.mark.covers("ACPH-14")
def test_a_failed_run_says_the_last_thing_that_went_wrong() -> None:
    run = told_of(ErrorEvent(message="Provider error (ProviderTimeout): too slow"), ErrorEvent(message="Gave up."))
    run.settle("error")
    assert (run.status, run.error, run.as_data()["stop_reason"]) == ("failed", "Gave up.", "error")
    run.settle("end_turn")
    assert run.status == "failed"


@pytest.mark.parametrize(
    ("stop", "status"),
    [
        ("end_turn", "completed"),
        ("max_tokens", "completed"),
        ("max_steps", "completed"),
        ("budget_exceeded", "completed"),
        ("cancelled", "cancelled"),
        ("timed_out", "failed"),
        ("refused", "failed"),
        ("error", "failed"),
        ("interrupted", "failed"),
    ],
)
def test_every_end_of_a_turn_is_an_end_of_its_run(stop: str, status: str) -> None:
    run = told_of()
    run.settle(stop)
    assert (run.status, run.stop_reason, run.error is None) == (status, stop, status != "failed")
    assert run.events[-1] == {"type": f"run_{status}", "run": run.as_data()}
