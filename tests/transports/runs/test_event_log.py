"""A run that says very much keeps a part of it, and says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.events import AssistantMessage, StreamChunk
from aar.transports.runs import event_log
from aar.transports.runs.event_log import ENTRY_WEIGHT, EventLog
from aar.transports.runs.request import RunRequest
from aar.transports.runs.run import Run, message


def read(log: EventLog, number: int) -> list[dict[str, Any]]:
    events = []
    while (found := log.at(number)) is not None:
        event, number = found
        events.append(event)
    return events


def said(number: int) -> dict[str, Any]:
    return {"type": "message_created", "number": number}


@given(st.integers(0, 12), st.integers(1, 5), st.integers(0, 14))
def test_whoever_reads_from_wherever_is_told_of_every_event_or_of_a_gap(count: int, most: int, start: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_log, "MOST_EVENTS", most)
        log = EventLog()
        log.add({"type": "run_created"})
        for number in range(count):
            log.add(said(number))
    everything = [{"type": "run_created"}, *map(said, range(count))]
    lost = max(0, count - most)
    missed = min(lost, max(0, lost + 1 - max(start, 1)))
    gap = [{"type": "events_dropped", "count": missed}] if missed else []
    head = everything[start:1]
    assert read(log, start) == [*head, *gap, *everything[max(start, 1 + lost) :]]
    assert log.weight == ENTRY_WEIGHT * (1 + min(most, count))
    assert log.all() == read(log, 0)


def test_long_pieces_take_no_more_room_than_they_may_and_the_last_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST_WEIGHT", 3000)
    log = EventLog()
    for number in range(10):
        log.add(said(number), 700)
    assert log.all() == [{"type": "events_dropped", "count": 8}, said(8), said(9)]
    log.add(said(10), 1_000_000)
    assert log.all() == [{"type": "events_dropped", "count": 10}, said(10)]


async def test_a_run_that_told_too_much_still_has_all_of_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST_EVENTS", 3)
    run = Run("aar", request=RunRequest("go"))
    run.begin()
    for letter in "abcdefgh":
        run.notice(StreamChunk(text=letter))
    run.notice(AssistantMessage(content="abcdefgh"))
    run.settle("end_turn")
    types = [event["type"] for event in run.events]
    assert types == ["run_created", "run_in_progress", "events_dropped", *["message_created"] * 2, "run_completed"]
    assert await run.event(2) == ({"type": "events_dropped", "count": 6}, 8)
    assert run.events[-1]["run"]["output"] == [message("abcdefgh")]
    assert await run.event(11) is None
