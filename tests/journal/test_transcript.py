"""Events in, valid messages out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.journal.transcript import SUMMARY_TITLE, UNANSWERED, Transcript, to_messages
from aar.messages.events import (
    AssistantMessage,
    Compacted,
    ErrorEvent,
    Event,
    Notice,
    ProviderMeta,
    ProviderSwitchEvent,
    ReasoningBlock,
    SessionEvent,
    StreamChunk,
    ToolCall,
    ToolResult,
    UserMessage,
)
from aar.messages.provider import NeutralMessage


def user(text: str) -> UserMessage:
    return UserMessage(content=text)


def says(text: str) -> AssistantMessage:
    return AssistantMessage(content=text)


def call(name: str, call_id: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool_name=name, tool_call_id=call_id, arguments=arguments)


def result(call_id: str, output: str, is_error: bool = False) -> ToolResult:
    return ToolResult(tool_call_id=call_id, output=output, is_error=is_error)


def use_block(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result_block(call_id: str, output: str, is_error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def message(role: str, *content: Any) -> NeutralMessage:
    return {"role": role, "content": content[0] if isinstance(content[0], str) else list(content)}


def blocks(one: NeutralMessage, kind: str) -> list[dict[str, Any]]:
    content = one["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] == kind]


def assert_valid(messages: Sequence[NeutralMessage]) -> None:
    """What every provider wants: each call is answered in the very next message, each result has its call."""
    asked: list[str] = []
    seen: set[str] = set()
    for one in messages:
        answered = [block["tool_use_id"] for block in blocks(one, "tool_result")]
        assert sorted(answered) == sorted(asked), messages
        assert not answered or one["role"] == "user"
        asked = [block["id"] for block in blocks(one, "tool_use")]
        assert not asked or one["role"] == "assistant"
        assert len(set(asked)) == len(asked), messages
        assert seen.isdisjoint(asked), messages
        seen.update(asked)
        assert one["content"] != []
    assert asked == [], messages


@pytest.mark.covers("SES-12")
def test_no_events_make_no_messages() -> None:
    assert to_messages([]) == []


@pytest.mark.covers("SES-04")
def test_a_chat_of_text_is_plain_strings() -> None:
    assert to_messages([user("hi"), says("hello")]) == [message("user", "hi"), message("assistant", "hello")]


@pytest.mark.covers("SES-05")
def test_parallel_calls_and_their_results_make_one_message_each() -> None:
    events = [
        user("go"),
        call("a", "c1", p=1),
        call("b", "c2"),
        says("ok"),
        result("c1", "1"),
        result("c2", "2", is_error=True),
        says("done"),
        user("next"),
    ]
    assert to_messages(events) == [
        message("user", "go"),
        message("assistant", text_block("ok"), use_block("a", "c1", p=1), use_block("b", "c2")),
        message("user", result_block("c1", "1"), result_block("c2", "2", is_error=True)),
        message("assistant", "done"),
        message("user", "next"),
    ]


@pytest.mark.covers("SES-06")
def test_a_call_and_its_result_at_the_end_are_there_without_an_assistant_message() -> None:
    assert to_messages([call("a", "c1"), result("c1", "x")]) == [
        message("assistant", use_block("a", "c1")),
        message("user", result_block("c1", "x")),
    ]


@pytest.mark.covers("SES-07")
def test_an_empty_text_beside_calls_makes_no_block() -> None:
    events = [call("a", "c1"), says(""), result("c1", "x")]
    assert to_messages(events)[0] == message("assistant", use_block("a", "c1"))


@pytest.mark.covers("SES-08", "EV-10")
def test_a_multimodal_message_is_a_list_of_its_parts_without_nulls() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, text_block("what?")]
    assert to_messages([UserMessage.of(parts)]) == [
        message("user", {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, text_block("what?"))
    ]


@pytest.mark.covers("SES-09")
def test_a_result_that_comes_before_the_assistant_message_still_follows_its_call() -> None:
    assert to_messages([user("q"), call("a", "c1"), result("c1", "x"), says("")]) == [
        message("user", "q"),
        message("assistant", use_block("a", "c1")),
        message("user", result_block("c1", "x")),
    ]


@pytest.mark.covers("SES-10")
def test_an_unanswered_call_gets_an_error_before_the_next_prompt() -> None:
    assert to_messages([user("q"), call("a", "c1"), says(""), user("again")]) == [
        message("user", "q"),
        message("assistant", use_block("a", "c1")),
        message("user", result_block("c1", UNANSWERED, is_error=True)),
        message("user", "again"),
    ]


def test_an_unanswered_call_at_the_end_gets_an_error_until_its_result_comes() -> None:
    transcript = Transcript()
    for event in [user("q"), call("a", "c1"), call("b", "c2"), says(""), result("c2", "2")]:
        transcript.apply(event)
    waiting = message("user", result_block("c2", "2"), result_block("c1", UNANSWERED, is_error=True))
    assert transcript.messages()[-1] == waiting
    transcript.apply(result("c1", "1"))
    assert transcript.messages()[-1] == message("user", result_block("c2", "2"), result_block("c1", "1"))


@pytest.mark.covers("SES-11")
def test_events_that_are_not_said_to_a_model_change_nothing() -> None:
    silent: list[Event] = [
        StreamChunk(text="h", reasoning_text="r", finished=True),
        ReasoningBlock(content="hm", data={"signature": "s"}),
        ProviderMeta(provider="p"),
        ErrorEvent(message="e"),
        SessionEvent(action="started"),
        ProviderSwitchEvent(),
        Notice(kind="retry"),
    ]
    spoken = [user("q"), call("a", "c1"), says("t"), result("c1", "1"), says("done")]
    mixed = [part for event in spoken for part in (*silent, event)]
    assert to_messages([*mixed, *silent]) == to_messages(spoken)


def test_reasoning_that_its_provider_wants_back_stands_in_front_of_its_step() -> None:
    data = {"replay": True, "signature": "s", "provider": "p"}
    reasoning = {"type": "reasoning", "text": "hm", "data": data}
    events = [user("q"), ReasoningBlock(content="hm", data=data), call("a", "c1"), says("t"), result("c1", "1")]
    more = [ReasoningBlock(content="hm", data=data), says("done"), ReasoningBlock(content="hm", data=data), user("x")]
    assert to_messages([*events, *more]) == [
        message("user", "q"),
        message("assistant", reasoning, text_block("t"), use_block("a", "c1")),
        message("user", result_block("c1", "1")),
        message("assistant", reasoning, text_block("done")),
        message("user", "x"),
    ]


def test_results_without_a_call_and_second_results_are_left_out() -> None:
    events = [result("c0", "?"), user("q"), call("a", "c1"), says(""), result("c1", "1"), result("c1", "again")]
    assert to_messages([*events, says("done"), result("c1", "late")]) == [
        message("user", "q"),
        message("assistant", use_block("a", "c1")),
        message("user", result_block("c1", "1")),
        message("assistant", "done"),
    ]


def test_the_ids_of_all_calls_are_known() -> None:
    transcript = Transcript()
    for event in [call("a", "c1"), says(""), result("c1", "1"), call("a", "c1"), call("a", "c2")]:
        transcript.apply(event)
    assert transcript.known_call_ids == {"c1", "c2"}


def test_a_summary_takes_the_place_of_what_it_covers() -> None:
    transcript = Transcript()
    for seq, event in enumerate([user("one"), says("1"), user("two"), says("2")], start=1):
        transcript.apply(event, seq)
    before = transcript.history()
    transcript.apply(Compacted(up_to_seq=2, summary="numbers"), 5)
    transcript.apply(user("three"), 6)
    assert transcript.messages() == [
        message("user", f"{SUMMARY_TITLE}\n\nnumbers"),
        message("user", "two"),
        message("assistant", "2"),
        message("user", "three"),
    ]
    assert [one["content"] for one in before] == ["one", "1", "two", "2"]


def test_a_summary_that_cuts_between_a_call_and_its_result_leaves_both() -> None:
    transcript = Transcript()
    events = [user("q"), call("a", "c1"), says(""), result("c1", "1"), says("done")]
    for seq, event in enumerate(events, start=1):
        transcript.apply(event, seq)
    transcript.apply(Compacted(up_to_seq=3, summary="s"), 6)
    assert transcript.messages()[1:] == [
        message("assistant", use_block("a", "c1")),
        message("user", result_block("c1", "1")),
        message("assistant", "done"),
    ]


def test_a_summary_leaves_a_call_that_still_waits_for_its_result() -> None:
    transcript = Transcript()
    for seq, event in enumerate([user("q"), call("a", "c1"), says("")], start=1):
        transcript.apply(event, seq)
    transcript.apply(Compacted(up_to_seq=3, summary="s"), 4)
    transcript.apply(result("c1", "1"), 5)
    assert transcript.messages()[1:] == [
        message("assistant", use_block("a", "c1")),
        message("user", result_block("c1", "1")),
    ]


ids = st.sampled_from(["c1", "c2", "c3", "c4"])
texts = st.sampled_from(["", "t"])
any_event = st.one_of(
    st.builds(user, texts),
    st.builds(says, texts),
    st.builds(call, st.just("a"), ids),
    st.builds(result, ids, texts),
    st.builds(lambda text: ReasoningBlock(content=text, data={"replay": True}), texts),
    st.builds(lambda up_to: Compacted(up_to_seq=up_to, summary="s"), st.integers(0, 30)),
    st.just(ErrorEvent(message="e")),
)
any_events = st.lists(any_event, max_size=30)


@pytest.mark.covers("SES-09", "SES-10")
@given(any_events)
def test_whatever_happens_the_messages_are_valid_at_every_moment(events: list[Event]) -> None:
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
        assert_valid(transcript.messages())
        assert len(transcript) == len(transcript.messages())


@given(any_events)
def test_a_history_handed_out_never_changes_and_is_encoded_once(events: list[Event]) -> None:
    transcript = Transcript()
    handed_out = []
    encoded: list[str] = []

    def encode(one: NeutralMessage) -> bytes:
        encoded.append(json.dumps(one))
        return encoded[-1].encode()

    for event in events:
        transcript.apply(event)
        handed_out.append((transcript.history(), json.dumps(transcript.messages())))
    for history, messages in handed_out:
        assert json.dumps(list(history)) == messages
        assert b"[%b]" % b", ".join(history.encoded("test", encode)) == messages.encode()
    settled = [history for history, _ in handed_out]
    assert not events or settled[-1].encoded("test", encode) == [json.dumps(one).encode() for one in settled[-1]]


@given(st.lists(st.tuples(texts, st.lists(texts, max_size=3)), max_size=8))
def test_nothing_that_was_said_in_order_is_lost(steps: list[tuple[str, list[str]]]) -> None:
    events: list[Event] = [user("q")]
    expected = [message("user", "q")]
    for step, (text, outputs) in enumerate(steps):
        calls = [f"c{step}-{index}" for index in range(len(outputs))]
        events += [call("a", call_id) for call_id in calls]
        events.append(says(text))
        events += [result(call_id, output) for call_id, output in zip(calls, outputs, strict=True)]
        if calls:
            spoken = [text_block(text)] if text else []
            expected.append(message("assistant", *spoken, *(use_block("a", call_id) for call_id in calls)))
            answers = zip(calls, outputs, strict=True)
            expected.append(message("user", *(result_block(call_id, output) for call_id, output in answers)))
        elif text:
            expected.append(message("assistant", text))
    assert to_messages(events) == expected
