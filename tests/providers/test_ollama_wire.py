"""Messages in Ollama's words, and whole answers read from them."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.provider import NeutralMessage
from aar.providers.ollama_wire import (
    answer_format,
    encode_message,
    encode_message_without_images,
    parse_answer,
    stop_reason,
    tool_calls,
)

PIXELS = "iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXELS}"}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(name: str, arguments: dict[str, Any], call_id: str = "1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "1", "content": content, "is_error": False, **more}


def thought(value: str, provider: str) -> dict[str, Any]:
    return {"type": "reasoning", "text": value, "data": {"provider": provider, "replay": True}}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def encoded(message: NeutralMessage) -> Any:
    return json.loads(b"[" + encode_message(message) + b"]")


@pytest.mark.covers("AURA-52")
@pytest.mark.parametrize(
    ("message", "wire"),
    [
        ({"role": "user", "content": "hé"}, [{"role": "user", "content": "hé"}]),
        ({"role": "assistant", "content": "a"}, [{"role": "assistant", "content": "a"}]),
        (
            {"role": "assistant", "content": [text("a"), use("ls", {"p": "é"}), text("b"), use("cat", {"raw": '{"p'})]},
            [
                {
                    "role": "assistant",
                    "content": "a b",
                    "tool_calls": [
                        {"function": {"name": "ls", "arguments": {"p": "é"}}},
                        {"function": {"name": "cat", "arguments": {"raw": '{"p'}}},
                    ],
                }
            ],
        ),
        (
            {"role": "assistant", "content": [thought("mine", "ollama"), thought("theirs", "anthropic"), use("", {})]},
            [
                {
                    "role": "assistant",
                    "content": "",
                    "thinking": "mine",
                    "tool_calls": [{"function": {"name": "unknown", "arguments": {}}}],
                }
            ],
        ),
        ({"role": "assistant", "content": [thought("mine", "ollama")]}, []),
        (
            {"role": "user", "content": [result("out"), text("dropped"), result([text("a"), IMAGE], name="ls")]},
            [{"role": "tool", "content": "out"}, {"role": "tool", "content": "a", "tool_name": "ls"}],
        ),
        ({"role": "user", "content": [text("a"), text("b")]}, [{"role": "user", "content": "a b"}]),
        ({"role": "user", "content": []}, []),
    ],
)
def test_each_neutral_message_has_its_wire_messages(message: NeutralMessage, wire: list[dict[str, Any]]) -> None:
    assert encoded(message) == wire


@pytest.mark.covers("OLL-06")
def test_images_go_beside_the_text_as_bare_base64(caplog: pytest.LogCaptureFixture) -> None:
    message: NeutralMessage = {"role": "user", "content": [text("look"), IMAGE, text("here"), IMAGE]}
    assert encoded(message) == [{"role": "user", "content": "look here", "images": [PIXELS, PIXELS]}]
    assert encoded({"role": "user", "content": [IMAGE]}) == [{"role": "user", "content": "", "images": [PIXELS]}]
    assert caplog.messages == []


@pytest.mark.parametrize(
    "url",
    [
        f"data:image/png;base64,{PIXELS}",
        f"DATA:image/png;name=x;BASE64,{PIXELS[:4]}\r\n{PIXELS[4:]}",
        "data:image/png;base64,iVBORw0KGgo",
        "data:image/png;base64,iVBORw0KGgo%3D",
        "data:image/png,%89PNG%0D%0A%1A%0A",
    ],
)
def test_an_image_is_written_as_the_server_can_read_it(url: str) -> None:
    [message] = encoded({"role": "user", "content": [image(url)]})
    assert message["images"] == [PIXELS]


def test_base64_for_urls_becomes_the_usual_one() -> None:
    [message] = encoded({"role": "user", "content": [image("data:image/png;base64,-_-_")]})
    assert message["images"] == ["+/+/"]


@pytest.mark.parametrize("url", ["https://example.org/a.png", "data:image/png;base64", "data:image/png;base64,a", "!"])
def test_an_image_that_the_server_would_refuse_is_left_out_with_a_warning(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert encoded({"role": "user", "content": [text("look"), image(url)]}) == [{"role": "user", "content": "look"}]
    assert caplog.messages == ["Not sent to Ollama: an image that is no readable data: URI"]


@pytest.mark.covers("OLL-07")
def test_audio_is_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    audio = {"type": "audio", "audio": {"url": "data:audio/wav;base64,AA==", "format": "wav"}}
    video = {"type": "video", "video": {"url": "data:video/mp4;base64,AA=="}}
    message: NeutralMessage = {"role": "user", "content": [text("listen"), audio, audio, video]}
    assert encoded(message) == [{"role": "user", "content": "listen"}]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "Not sent to Ollama: audio, audio, video")
    ]


def test_a_model_that_sees_nothing_gets_the_words(caplog: pytest.LogCaptureFixture) -> None:
    assert json.loads(encode_message_without_images({"role": "user", "content": [text("look"), IMAGE]})) == {
        "role": "user",
        "content": "look",
    }
    assert caplog.messages == ["Not sent to Ollama: an image, which the model cannot see"]


def test_a_number_beyond_all_measure_does_not_break_the_request() -> None:
    [message] = encoded({"role": "assistant", "content": [use("a", {"x": float("inf")}), use("b", {"y": 1})]})
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == [
        {"raw": "{'x': inf}"},
        {"raw": "{'y': 1}"},
    ]


def test_half_a_surrogate_pair_does_not_break_the_request() -> None:
    assert encode_message({"role": "user", "content": "x\ud800y"}) == b'{"role":"user","content":"x?y"}'


# --- any history ------------------------------------------------------------------------------

words = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
text_blocks = st.builds(text, words)
call_blocks = st.builds(use, words, st.dictionaries(words, json_values, max_size=3), words)
thought_blocks = st.builds(thought, words, st.sampled_from(["ollama", "anthropic", "gemini"]))
image_blocks = st.builds(image, st.binary(max_size=9).map(lambda data: f"data:image/png;base64,{data.hex()}") | words)
media_blocks = st.just({"type": "audio", "audio": {"url": "x"}})
contents = st.one_of(
    st.tuples(
        st.just("assistant"), words | st.lists(st.builds(text, words) | call_blocks | thought_blocks, max_size=4)
    ),
    st.tuples(st.just("user"), words | st.lists(st.builds(text, words) | image_blocks | media_blocks, max_size=4)),
    st.tuples(st.just("user"), st.lists(st.builds(result, words), min_size=1, max_size=4)),
)


@given(contents)
def test_any_message_is_one_that_the_server_takes(content: tuple[str, Any]) -> None:
    role, blocks = content

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    sent = json.loads(b"[" + encode_message({"role": role, "content": blocks}) + b"]", parse_constant=refuse)
    for message in sent:
        assert isinstance(message["content"], str)
        assert message["role"] in ("user", "assistant", "tool")
        for payload in message.get("images", ()):
            base64.b64decode(payload, validate=True)
        for call in message.get("tool_calls", ()):
            assert isinstance(call["function"]["arguments"], dict)
            assert call["function"]["name"]
    if isinstance(blocks, list):
        kinds = [block["type"] for block in blocks]
        assert sum(len(message.get("tool_calls", ())) for message in sent) == kinds.count("tool_use")
        assert sum(message["role"] == "tool" for message in sent) == kinds.count("tool_result")


# --- what comes in ----------------------------------------------------------------------------


@pytest.mark.covers("OLL-09")
def test_calls_without_ids_get_different_ones_at_every_step() -> None:
    call = {"function": {"name": "ls", "arguments": {"path": "."}}}
    made = [*tool_calls([call, call]), *tool_calls([call])]
    assert [(found.tool_name, found.arguments) for found in made] == [("ls", {"path": "."})] * 3
    assert len({found.tool_call_id for found in made}) == 3


@pytest.mark.covers("PRV-06")
@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        ({"x": 1}, {"x": 1}),
        ('{"x": 1}', {"x": 1}),
        ('{"x": ', {"raw": '{"x": '}),
        (None, {}),
        ("", {}),
        ([1], {"raw": "[1]"}),
    ],
)
def test_arguments_are_an_object_or_what_was_said(arguments: Any, parsed: dict[str, Any]) -> None:
    [call] = tool_calls([{"id": "call_1", "function": {"name": "ls", "arguments": arguments}}])
    assert (call.tool_call_id, call.arguments) == ("call_1", parsed)


def test_ids_of_the_server_are_kept_once() -> None:
    made = tool_calls([{"id": "call_1", "function": {"name": name}} for name in "ab"])
    assert made[0].tool_call_id == "call_1"
    assert made[1].tool_call_id != "call_1"


@pytest.mark.parametrize(
    ("reason", "has_calls", "stop"),
    [
        ("stop", False, "end_turn"),
        ("stop", True, "tool_use"),
        ("length", False, "max_tokens"),
        ("length", True, "tool_use"),
        ("load", False, "end_turn"),
        (None, False, "end_turn"),
        ({}, False, "end_turn"),
    ],
)
def test_reasons_to_stop_are_mapped(reason: Any, has_calls: bool, stop: str) -> None:
    assert stop_reason(reason, has_calls=has_calls) == stop


OWN = {"provider": "ollama", "replay": True}
TAGGED = {"provider": "ollama"}


@pytest.mark.covers("OLL-04", "OLL-05")
@pytest.mark.parametrize(
    ("message", "said", "thoughts"),
    [
        ({"content": "a"}, "a", []),
        ({"content": "a", "thinking": " b "}, "a", [("b", OWN)]),
        ({"content": "a", "thinking": " "}, "a", []),
        ({"content": "<think>b</think>\n\na"}, "a", [("b", TAGGED)]),
        ({"content": "<|channel>thought\nb<channel|>a<think>c</think>"}, "a", [("b", TAGGED), ("c", TAGGED)]),
        ({"content": "the <think> tag", "thinking": "b"}, "the <think> tag", [("b", OWN)]),
        ({"content": None}, "", []),
    ],
)
def test_thoughts_are_told_apart_whether_the_server_does_or_not(
    message: dict[str, Any], said: str, thoughts: list[Any], plain: Any
) -> None:
    answer = plain(parse_answer({"message": message, "done": True}, model="m"))
    assert answer == (said, [], "end_turn", thoughts, ("ollama", "m", "", {}))


def test_a_whole_answer_has_calls_usage_and_its_model(plain: Any) -> None:
    body = {
        "model": "qwen3:8b",
        "created_at": "2025-10-17T23:14:07.414671Z",
        "message": {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_x", "function": {"index": 0, "name": "ls", "arguments": {"path": "."}}}],
        },
        "done": True,
        "done_reason": "stop",
        "total_duration": 174560334,
        "prompt_eval_count": 11,
        "eval_count": 18,
    }
    assert plain(parse_answer(body, model="m")) == (
        "",
        [("call_x", "ls", {"path": "."})],
        "tool_use",
        [],
        ("ollama", "qwen3:8b", "", {"input_tokens": 11, "output_tokens": 18}),
    )


@pytest.mark.parametrize(
    ("kind", "schema", "field"),
    [
        ("text", {"type": "object"}, None),
        ("json", {}, "json"),
        ("json_object", {}, "json"),
        ("json_schema", {}, None),
        ("json_schema", {"type": "object"}, {"type": "object"}),
        ("json_schema", {"name": "n", "schema": {"type": "object"}}, {"type": "object"}),
    ],
)
def test_formats_of_answers(kind: str, schema: dict[str, Any], field: Any) -> None:
    assert answer_format(kind, schema) == field
