"""Trimming to the window."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.journal.context import ContextStrategy, estimate_token_count, trim, trim_messages
from aar.journal.transcript import Transcript
from aar.messages.events import AssistantMessage, Event, ToolCall, ToolResult, UserMessage
from aar.messages.provider import NeutralMessage


def chat(*lengths: int) -> list[NeutralMessage]:
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": "x" * length} for index, length in enumerate(lengths)]


def transcript_of(events: Sequence[Event]) -> Transcript:
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript


def kinds(messages: Sequence[NeutralMessage]) -> list[list[str]]:
    return [
        [block["type"] for block in one["content"]] if not isinstance(one["content"], str) else ["text"]
        for one in messages
    ]


@pytest.mark.covers("SES-28")
def test_four_characters_count_as_one_token() -> None:
    assert estimate_token_count(chat(10)) == 2


def test_blocks_count_by_their_text_content_and_input() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "x" * 10},
        {"type": "image_url", "image_url": {"url": "https://example.org/" + "x" * 1000}},
        {"type": "tool_use", "id": "c1", "name": "a", "input": {"p": 1}},
        {"type": "tool_result", "tool_use_id": "c1", "content": "x" * 22, "is_error": False},
    ]
    assert estimate_token_count([{"role": "user", "content": blocks}]) == (10 + len("{'p': 1}") + 22) // 4


@pytest.mark.covers("SES-29")
def test_the_sliding_window_keeps_the_newest_messages_that_fit() -> None:
    messages = chat(400, 400, 400, 400)
    assert trim_messages(messages, 250, "sliding_window") == (messages[2:], 2)


@pytest.mark.covers("SES-30")
def test_the_newest_message_stays_even_when_it_alone_is_too_big() -> None:
    messages = chat(4, 40_000)
    assert trim_messages(messages, 1, "sliding_window") == (messages[1:], 1)
    assert trim_messages(messages[1:], 1, "sliding_window") == (messages[1:], 0)


@pytest.mark.covers("SES-31")
def test_compact_keeps_the_first_message_and_marks_what_is_gone() -> None:
    messages = chat(400, 400, 400, 400)
    marker: NeutralMessage = {
        "role": "user",
        "content": "[Earlier conversation truncated — 2 messages comprising approximately 200 tokens were removed "
        "to fit context window]",
    }
    assert trim_messages(messages, 250, "compact") == ([messages[0], marker, messages[3]], 2)


def test_compact_leaves_two_messages_alone() -> None:
    messages = chat(4000, 4000)
    assert trim_messages(messages, 10, "compact") == (messages, 0)


@pytest.mark.covers("SES-32")
@pytest.mark.parametrize(("window", "strategy"), [(1, "none"), (0, "sliding_window"), (0, "compact"), (400, "compact")])
def test_nothing_is_trimmed_without_a_strategy_a_window_or_a_need(window: int, strategy: ContextStrategy) -> None:
    messages = chat(400, 400, 400, 400)
    assert trim_messages(messages, window, strategy) == (messages, 0)


lengths = st.integers(0, 60)


@st.composite
def conversations(draw: st.DrawFn) -> list[Event]:
    events: list[Event] = []
    for step in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            events.append(UserMessage(content="u" * draw(lengths)))
        calls = [f"c{step}-{index}" for index in range(draw(st.integers(0, 2)))]
        events += [ToolCall(tool_name="a", tool_call_id=call_id, arguments={"p": 1}) for call_id in calls]
        if draw(st.booleans()):
            events.append(AssistantMessage(content="a" * draw(lengths)))
        events += [ToolResult(tool_call_id=call_id, output="r" * draw(lengths)) for call_id in calls]
    return events


@pytest.mark.covers("SES-33")
@given(conversations(), st.integers(1, 100), st.sampled_from(["sliding_window", "compact"]))
def test_trimming_never_parts_a_call_from_its_result(
    events: list[Event], window: int, strategy: ContextStrategy
) -> None:
    transcript = transcript_of(events)
    history, dropped = trim(transcript, window, strategy)
    kept = list(history)
    asked: list[str] = []
    for one in kept:
        blocks = [] if isinstance(one["content"], str) else one["content"]
        assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == asked
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert asked == []
    everything = transcript.messages()
    assert not everything or kept[-1] == everything[-1]
    assert len(history) == len(everything) - dropped + (strategy == "compact" and dropped > 0)


@given(conversations(), st.integers(1, 100), st.sampled_from(["sliding_window", "compact", "none"]))
def test_a_transcript_is_trimmed_like_the_list_of_its_messages(
    events: list[Event], window: int, strategy: ContextStrategy
) -> None:
    transcript = transcript_of(events)
    history, dropped = trim(transcript, window, strategy)
    assert (list(history), dropped) == trim_messages(transcript.messages(), window, strategy)


@given(conversations(), st.integers(1, 100))
def test_the_sliding_window_keeps_as_much_as_fits(events: list[Event], window: int) -> None:
    transcript = transcript_of(events)
    everything = transcript.messages()
    history, dropped = trim(transcript, window, "sliding_window")
    if dropped:
        assert estimate_token_count(everything) > window
        pair = 1 + ("tool_result" in kinds(everything)[dropped - 1])
        assert estimate_token_count(everything[dropped - pair :]) > window
    last_pair = 2 if everything and "tool_result" in kinds(everything)[-1] else 1
    assert estimate_token_count(history) <= window or len(history) <= last_pair or not dropped


def test_a_long_conversation_is_trimmed_in_the_time_of_a_short_one() -> None:
    def best_of(transcript: Transcript) -> float:
        times = []
        for _ in range(20):
            began = time.process_time()
            for _ in range(20):
                trim(transcript, 200, "sliding_window")
            times.append(time.process_time() - began)
        return min(times)

    def conversation(length: int) -> Transcript:
        return transcript_of([UserMessage(content="x" * 40) for _ in range(length)])

    assert best_of(conversation(20_000)) < 10 * best_of(conversation(100))
