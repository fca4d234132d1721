"""What Gemini's answers become."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from google.genai.types import FinishReason
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import AnswerCut, BadProviderReply, ContentRefused, ProviderError, ProviderRateLimited
from aar.messages.provider import ModelInfo, StreamDelta
from aar.providers.failures import explain
from aar.providers.gemini_stream import AnswerEvents, AnswerReader, models_of, stop_reason, usage_of

Plain = Callable[[Any], Any]

USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 17}


def chunk(*parts: dict[str, Any], finish: str = "", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **more}


def say(value: str, **more: Any) -> dict[str, Any]:
    return {"text": value, **more}


def call(name: str, arguments: Any, *, signature: str = "", **more: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": arguments, **more}}
    return {**part, "thoughtSignature": signature} if signature else part


ANSWER = [
    chunk(say("Hm", thought=True), modelVersion="gemini-2.5-pro-001", responseId="r1"),
    chunk(say("Let é", thoughtSignature="dGV4dA=="), usageMetadata={"promptTokenCount": 10}),
    chunk(say("me see.")),
    chunk(call("ls", {"path": "."}, signature="c2ln", id="g1"), call("cat", {}, id="g2")),
    chunk(finish="STOP", usageMetadata=USAGE),
]
WANTED: list[Any] = [
    ("g1", "ls", {"path": "."}),
    ("g2", "cat", {}),
    (
        "done",
        "tool_use",
        [
            (
                "Hm",
                {
                    "provider": "gemini",
                    "replay": True,
                    "model": "asked",
                    "calls": [{"id": "g1", "signature": "c2ln"}, {"id": "g2"}],
                    "text_signature": "dGV4dA==",
                },
            )
        ],
        (
            "gemini",
            "gemini-2.5-pro-001",
            "r1",
            {"input_tokens": 10, "output_tokens": 7, "total_tokens": 17},
        ),
    ),
]


def read(*chunks: Any) -> list[StreamDelta]:
    reading = AnswerReader(model="asked")
    first = reading.read([json.dumps(each) for each in chunks])
    return [first, *reading.end()]


def through(pieces: list[bytes]) -> list[StreamDelta]:
    """The deltas of a body as the network cuts it, the text merged into one."""
    events, reading = AnswerEvents(), AnswerReader(model="asked")
    found = [reading.read(events.feed(piece)) for piece in pieces]
    found.append(reading.read(events.finish()))
    text = "".join(delta.text for delta in found)
    thought = "".join(delta.reasoning_delta for delta in found)
    return [StreamDelta(text, thought), *reading.end()]


@pytest.mark.covers("GEM-10", "GEM-11", "AURA-52")
def test_an_answer_is_text_thoughts_calls_usage_and_what_must_be_sent_again(plain: Plain) -> None:
    assert plain(read(*ANSWER)) == [("Let éme see.", "Hm"), *WANTED]


SSE = b"".join(b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in ANSWER)
FRAMED = {
    "events": SSE,
    "events and a marker": SSE + b"data: [DONE]\n\n",
    "events without empty lines": SSE.replace(b"\r\n\r\n", b"\n"),
    "comments": b": hello\n\n" + SSE,
    "lines": b"".join(json.dumps(each).encode() + b"\n" for each in ANSWER),
    "lines, the last without an end": b"\n".join(json.dumps(each).encode() for each in ANSWER),
    "an array": json.dumps(ANSWER, indent=2).encode(),
    "an array in one line": json.dumps(ANSWER).encode(),
    "an array by lines": b"[" + b"\n,\r\n".join(json.dumps(each).encode() for each in ANSWER) + b"\n]\n",
}


@pytest.mark.covers("GEM-09")
@pytest.mark.parametrize("body", FRAMED.values(), ids=FRAMED)
def test_every_framing_gives_the_same_answer(body: bytes, plain: Plain) -> None:
    assert plain(through([body])) == [("Let éme see.", "Hm"), *WANTED]


@pytest.mark.covers("GEM-09")
@given(st.sampled_from(list(FRAMED.values())), st.lists(st.integers(0, len(SSE) * 2), max_size=12))
def test_however_the_network_cuts_it_the_answer_is_the_same(body: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    found = through([body[start:end] for start, end in pairwise(edges)])
    assert found[0] == StreamDelta("Let éme see.", "Hm")
    assert [delta.tool_call_delta and delta.tool_call_delta.tool_name for delta in found[1:]] == ["ls", "cat", None]
    assert found[-1].reasoning[0].data == WANTED[-1][2][0][1]


@pytest.mark.covers("GEM-11")
@pytest.mark.parametrize(
    ("finish", "wanted"),
    [
        ("STOP", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "error"),
        ("RECITATION", "error"),
        ("PROHIBITED_CONTENT", "error"),
        ("OTHER", "end_turn"),
        ("SOMETHING_NEW", "end_turn"),
        ("CONTINUATION", "max_tokens"),
    ],
)
def test_each_finish_reason_has_our_word_also_in_the_vendors_enumeration(finish: str, wanted: str) -> None:
    assert read(chunk(say("a"), finish=finish))[-1].stop_reason == wanted
    assert stop_reason(f"FinishReason.{finish}") == wanted
    if finish in FinishReason.__members__:
        assert stop_reason(FinishReason[finish]) == wanted


@pytest.mark.covers("GEM-11")
def test_calls_make_it_tool_use_unless_the_answer_was_cut() -> None:
    assert read(chunk(call("a", {}), finish="STOP"))[-1].stop_reason == "tool_use"
    assert read(chunk(call("a", {}), finish="MAX_TOKENS"))[-1].stop_reason == "max_tokens"


@pytest.mark.covers("GEM-10")
@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (None, {}),
        ({}, {}),
        (
            {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
            {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        ),
        (
            {**USAGE, "cachedContentTokenCount": 8},
            {"input_tokens": 10, "output_tokens": 7, "total_tokens": 17, "cache_read_tokens": 8},
        ),
        ({"promptTokenCount": 5, "thoughtsTokenCount": 2}, {"input_tokens": 5, "output_tokens": 2}),
        ({"promptTokenCount": -1, "totalTokenCount": "7", "cachedContentTokenCount": 0}, {"input_tokens": 0}),
    ],
)
def test_thoughts_are_counted_as_output(usage: Any, wanted: dict[str, int]) -> None:
    assert usage_of(usage) == wanted


def test_the_last_usage_counts() -> None:
    found = read(chunk(say("a"), usageMetadata={"promptTokenCount": 1}), chunk(finish="STOP", usageMetadata=USAGE))
    assert found[-1].meta is not None
    assert found[-1].meta.usage == {"input_tokens": 10, "output_tokens": 7, "total_tokens": 17}


def test_ids_that_are_missing_or_repeat_are_made_up() -> None:
    calls = [call("a", {}), call("b", None), call("c", [1], id="x"), call("d", {}, id="x")]
    found = [delta.tool_call_delta for delta in read(chunk(*calls, finish="STOP"))[1:-1]]
    ids = [each.tool_call_id for each in found if each]
    assert ids[2] == "x"
    assert len(set(ids)) == 4
    assert [each.arguments for each in found if each] == [{}, {}, {"raw": "[1]"}, {}]


def test_numbers_that_are_none_do_not_get_into_arguments() -> None:
    reading = AnswerReader(model="m")
    reading.read([json.dumps(chunk(call("a", {"x": float("nan")}), finish="STOP"))])
    [found, _] = reading.end()
    assert found.tool_call_delta is not None
    assert found.tool_call_delta.arguments == {"x": None}


def test_an_answer_without_thoughts_and_signatures_has_nothing_to_be_sent_again() -> None:
    assert read(chunk(say("a"), finish="STOP"))[-1].reasoning == ()
    [block] = read(chunk(say("hm", thought=True), say("a"), finish="STOP"))[-1].reasoning
    assert (block.content, block.data) == ("hm", {"provider": "gemini"})


@pytest.mark.parametrize(
    ("chunks", "kind", "words"),
    [
        ([chunk(say("a"))], AnswerCut, "in the middle of the answer"),
        ([], AnswerCut, "in the middle of the answer"),
        ([chunk(finish="SAFETY")], ContentRefused, r"filter stopped the answer \(SAFETY\): change what you ask for"),
        ([{"promptFeedback": {"blockReason": "OTHER"}}], ContentRefused, r"refused the prompt \(OTHER\): change what"),
        ([chunk(say("a"), finish="MALFORMED_FUNCTION_CALL")], BadProviderReply, "could not finish its tool call"),
        ([chunk(finish="MISSING_THOUGHT_SIGNATURE")], BadProviderReply, "misses signatures"),
        (
            [{"error": {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED"}}],
            ProviderRateLimited,
            "Slow down",
        ),
        ([{"error": {"code": 503, "message": "Overloaded"}}], ProviderError, "Overloaded"),
        (["text"], BadProviderReply, "unexpected shape"),
        ([{"candidates": [3]}], BadProviderReply, "unexpected shape"),
        ([{"candidates": {"a": 1}}], BadProviderReply, "unexpected shape"),
        ([chunk(say("a" * 8_000_001))], BadProviderReply, "more than 8,000,000 characters"),
        ([chunk(*[call("a", {})] * 1025)], BadProviderReply, "more than 1024 tool calls"),
    ],
)
def test_what_is_no_answer_is_an_error(chunks: list[Any], kind: type[ProviderError], words: str) -> None:
    with pytest.raises(kind, match=words):
        read(*chunks)


@pytest.mark.parametrize(
    ("finish", "retryable"),
    [("MALFORMED_FUNCTION_CALL", True), ("UNEXPECTED_TOOL_CALL", True), ("MISSING_THOUGHT_SIGNATURE", False)],
)
def test_a_call_that_the_model_could_not_write_down_may_be_asked_for_again(finish: str, retryable: bool) -> None:
    with pytest.raises(BadProviderReply) as caught:
        read(chunk(finish=finish))
    assert caught.value.retryable is retryable


def test_a_refusal_is_told_as_it_is() -> None:
    with pytest.raises(ContentRefused) as caught:
        read({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    assert explain(caught.value) == (
        "Gemini refused the prompt (PROHIBITED_CONTENT): change what you ask for, or take another model"
    )


def test_damaged_events_are_retried_and_foreign_ones_skipped() -> None:
    reading = AnswerReader(model="m")
    assert reading.read(["hello", json.dumps(chunk(say("a")))]) == StreamDelta("a")
    with pytest.raises(BadProviderReply, match="damaged") as caught:
        reading.read(['{"candidates": [{'])
    assert caught.value.retryable


@given(
    st.recursive(
        st.one_of(st.none(), st.text(), st.integers(), st.floats()),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "candidates",
                        "content",
                        "parts",
                        "text",
                        "functionCall",
                        "finishReason",
                        "usageMetadata",
                        "error",
                        "thoughtSignature",
                        "args",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=20,
    )
)
def test_no_answer_at_all_gives_anything_but_a_provider_error(body: Any) -> None:
    with suppress(ProviderError):
        read(body)


def test_models_are_those_that_generate_content() -> None:
    listed = {
        "models": [
            {
                "name": "models/gemini-2.5-pro",
                "inputTokenLimit": 1048576,
                "outputTokenLimit": 65536,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
                "thinking": True,
            },
            {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
            {"name": "house-model"},
        ]
    }
    assert models_of(listed) == (
        ModelInfo("gemini-2.5-pro", 1048576, 65536, ("thinking",)),
        ModelInfo("house-model"),
    )
    with pytest.raises(BadProviderReply, match="list of models"):
        models_of({"models": [1]})
