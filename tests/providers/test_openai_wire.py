from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import BadProviderReply
from aar.messages.provider import NeutralMessage
from aar.messages.tools import ToolSchema
from aar.providers.openai_wire import (
    encode_json,
    encode_message,
    encode_tools,
    parse_answer,
    parse_arguments,
    response_format,
    stop_reason,
    tool_calls,
    usage_of,
)

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": None}}
WIRE_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any, *, is_error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}


def wire_use(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.covers("PRV-07")
@pytest.mark.parametrize(
    ("message", "wire"),
    [
        ({"role": "system", "content": "s"}, [{"role": "system", "content": "s"}]),
        ({"role": "user", "content": "hé"}, [{"role": "user", "content": "hé"}]),
        ({"role": "assistant", "content": "a"}, [{"role": "assistant", "content": "a"}]),
        (
            {"role": "assistant", "content": [text("a"), use("1", "ls", {"p": "é"}), text("b")]},
            [{"role": "assistant", "content": "a b", "tool_calls": [wire_use("1", "ls", '{"p": "é"}')]}],
        ),
        (
            {"role": "assistant", "content": [use("1", "ls", {}), use("2", "cat", {"raw": '{"pa'})]},
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [wire_use("1", "ls", "{}"), wire_use("2", "cat", '{"raw": "{\\"pa"}')],
                }
            ],
        ),
        ({"role": "assistant", "content": [{"type": "reasoning", "text": "hm", "data": {}}]}, []),
        (
            {"role": "user", "content": [result("1", "out"), text("dropped"), result("2", "bad", is_error=True)]},
            [
                {"role": "tool", "tool_call_id": "1", "content": "out"},
                {"role": "tool", "tool_call_id": "2", "content": "bad"},
            ],
        ),
        (
            {"role": "user", "content": [result("1", [text("a"), IMAGE, text("b")])]},
            [{"role": "tool", "tool_call_id": "1", "content": "a b"}],
        ),
        (
            {"role": "user", "content": [text("look"), IMAGE, {"type": "audio", "audio": {"url": "x"}}]},
            [{"role": "user", "content": [text("look"), WIRE_IMAGE]}],
        ),
        ({"role": "user", "content": [text("only")]}, [{"role": "user", "content": "only"}]),
        ({"role": "user", "content": [IMAGE]}, [{"role": "user", "content": [WIRE_IMAGE]}]),
        ({"role": "user", "content": [{"type": "video", "video": {"url": "x"}}]}, []),
        ({"role": "user", "content": []}, []),
    ],
)
def test_each_neutral_message_has_its_wire_messages(message: NeutralMessage, wire: list[dict[str, Any]]) -> None:
    assert json.loads(b"[" + encode_message(message) + b"]") == wire


@pytest.mark.covers("AURA-52")
def test_a_conversation_with_a_tool_result_is_what_a_real_server_took(recorded: Path) -> None:
    sent = json.loads((recorded / "chat-tool-result.request.json").read_bytes())
    history: list[NeutralMessage] = [
        {"role": "system", "content": sent["messages"][0]["content"]},
        {"role": "user", "content": "Read notes.txt and tell me the secret word"},
        {"role": "assistant", "content": [use("call_1", "read_file", {"path": "notes.txt"})]},
        {"role": "user", "content": [result("call_1", "the secret word is pineapple\n")]},
    ]
    assert json.loads(b"[" + b",".join(map(encode_message, history)) + b"]") == sent["messages"]
    tools = [
        ToolSchema(function["name"], function["description"], function["parameters"])
        for function in (tool["function"] for tool in sent["tools"])
    ]
    by_name = sorted(sent["tools"], key=lambda tool: tool["function"]["name"])
    assert json.loads(encode_tools(tools)) == by_name


def test_half_a_surrogate_pair_does_not_break_a_request() -> None:
    assert encode_json({"a": "x\ud800y"}) == b'{"a":"x?y"}'


@pytest.mark.covers("PRV-08")
def test_tools_are_functions_in_the_order_of_their_names() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tools = (ToolSchema("write", "Write.", schema), ToolSchema("list", "List.", {}))
    assert json.loads(encode_tools(tools)) == [
        {
            "type": "function",
            "function": {
                "name": "list",
                "description": "List.",
                "parameters": {"type": "object", "properties": {}},
            },
        },
        {"type": "function", "function": {"name": "write", "description": "Write.", "parameters": schema}},
    ]
    assert encode_tools(tools) == encode_tools(reversed(tools))


@pytest.mark.covers("PRV-06")
@pytest.mark.parametrize(
    ("sent", "arguments"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ("", {}),
        ("  ", {}),
        (None, {}),
        ("null", {}),
        ("{}", {}),
        ('{"a": ', {"raw": '{"a": '}),
        ("rm -rf", {"raw": "rm -rf"}),
        ("[1]", {"raw": "[1]"}),
        ([1], {"raw": "[1]"}),
        ("5", {"raw": "5"}),
        ('{"a": NaN}', {"raw": '{"a": NaN}'}),
        ("[" * 100_000, {"raw": "[" * 100_000}),
    ],
    ids=lambda value: str(value)[:12],
)
def test_arguments_are_an_object_or_kept_raw(sent: Any, arguments: dict[str, Any]) -> None:
    assert parse_arguments(sent) == arguments


@given(st.text())
def test_any_arguments_can_be_sent_back_as_a_json_object(sent: str) -> None:
    message: NeutralMessage = {"role": "assistant", "content": [use("1", "x", parse_arguments(sent))]}
    [wire] = json.loads(b"[" + encode_message(message) + b"]")
    assert isinstance(json.loads(wire["tool_calls"][0]["function"]["arguments"]), dict)


def test_missing_and_repeated_call_ids_are_replaced() -> None:
    calls = tool_calls([("a", "x", "{}"), ("", "y", "{}"), ("a", "z", "{}"), ("b", "w", "{}")])
    ids = [call.tool_call_id for call in calls]
    assert (ids[0], ids[3], len(set(ids))) == ("a", "b", 4)
    assert [call_id[:13] for call_id in ids[1:3]] == ["generic_tc_1_", "generic_tc_2_"]


def test_a_last_call_cut_before_its_arguments_is_a_damaged_one() -> None:
    calls = [("a", "list", ""), ("b", "list", "")]
    assert [call.arguments for call in tool_calls(calls, is_cut=True)] == [{}, {"raw": ""}]
    assert [call.arguments for call in tool_calls(calls)] == [{}, {}]


@pytest.mark.parametrize(
    ("finish", "has_calls", "reason"),
    [
        ("stop", False, "end_turn"),
        ("stop", True, "tool_use"),
        ("tool_calls", True, "tool_use"),
        ("length", True, "max_tokens"),
        ("content_filter", False, "error"),
        ("odd", False, "end_turn"),
        (None, False, "end_turn"),
        ({}, True, "tool_use"),
    ],
)
def test_finish_reasons_are_mapped(finish: Any, has_calls: bool, reason: str) -> None:
    assert stop_reason(finish, has_calls=has_calls) == reason


@pytest.mark.parametrize(
    ("sent", "usage"),
    [
        (None, {}),
        ("odd", {}),
        ({"prompt_tokens": 3, "completion_tokens": 4}, {"input_tokens": 3, "output_tokens": 4}),
        (
            {"prompt_tokens": 3, "total_tokens": 7.0, "prompt_tokens_details": {"cached_tokens": 2}},
            {"input_tokens": 3, "total_tokens": 7, "cache_read_tokens": 2},
        ),
        ({"prompt_tokens": True, "completion_tokens": -1, "prompt_tokens_details": None}, {"output_tokens": 0}),
        (
            {
                "input_tokens": 9,
                "output_tokens": 4,
                "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
            },
            {"input_tokens": 9, "output_tokens": 4, "cache_read_tokens": 2, "cache_write_tokens": 3},
        ),
        ({"prompt_tokens": 3, "prompt_cache_hit_tokens": 1}, {"input_tokens": 3, "cache_read_tokens": 1}),
        ({"prompt_tokens": float("inf"), "prompt_tokens_details": {"cached_tokens": 0}}, {}),
    ],
)
def test_usage_has_our_names_and_whole_numbers(sent: Any, usage: dict[str, int]) -> None:
    assert usage_of(sent) == usage


@pytest.mark.parametrize(
    ("kind", "schema", "field"),
    [
        ("text", {"type": "object"}, None),
        ("json", {}, {"type": "json_object"}),
        ("json_object", {}, {"type": "json_object"}),
        ("json_schema", {}, None),
        (
            "json_schema",
            {"name": "n", "schema": {}},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        ),
        (
            "json_schema",
            {"type": "object"},
            {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
        ),
    ],
)
def test_response_formats(kind: str, schema: dict[str, Any], field: Any) -> None:
    assert response_format(kind, schema) == field


def parsed(message: Any, *, finish: str = "stop", splits_tags: bool = False, **more: Any) -> Any:
    body = {"choices": [{"message": message, "finish_reason": finish}], **more}
    return parse_answer(body, provider="generic", model="m", splits_tags=splits_tags)


THOUGHT = {"provider": "generic"}


@pytest.mark.parametrize(
    ("message", "splits_tags", "answer"),
    [
        ({"content": None}, False, ("", [])),
        ({"content": "a<think>b</think>"}, False, ("a<think>b</think>", [])),
        ({"content": "a<think>b</think>"}, True, ("a", [("b", THOUGHT)])),
        ({"content": "a", "reasoning_content": " b "}, True, ("a", [("b", THOUGHT)])),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "b"}]}, text("a")]},
            False,
            ("a", [("b", THOUGHT)]),
        ),
        ({"content": None, "refusal": "no"}, False, ("no", [])),
        (None, False, ("", [])),
    ],
)
def test_text_and_thoughts_of_a_whole_answer(message: Any, splits_tags: bool, answer: Any, plain: Any) -> None:
    said, calls, stop, thoughts, meta = plain(parsed(message, splits_tags=splits_tags))
    assert ((said, thoughts), calls, stop, meta) == (answer, [], "end_turn", ("generic", "m", "", {}))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": None},
        [],
        "odd",
        None,
        {"choices": ["odd"]},
        {"choices": [{"message": {"tool_calls": [{}]}}]},
    ],
)
def test_an_answer_of_another_shape_is_a_bad_reply(body: Any) -> None:
    with pytest.raises(BadProviderReply):
        parse_answer(body, provider="generic", model="m", splits_tags=False)


def test_a_name_that_a_model_made_up_goes_back_in_letters_that_servers_take() -> None:
    names = ["bash", "functions.bash", "", "größe", "a" * 70]
    blocks = [use(str(index), name, {}) for index, name in enumerate(names)]
    [message] = json.loads(b"[" + encode_message({"role": "assistant", "content": blocks}) + b"]")
    sent = [call["function"]["name"] for call in message["tool_calls"]]
    assert sent == ["bash", "functions_bash", "unknown", "gr__e", "a" * 64]


@pytest.mark.parametrize("call_id", ["a" * 41, "functions.bash:0" * 9, "x\ud800" * 40, ""])
def test_an_id_that_servers_would_refuse_becomes_the_same_short_one_in_call_and_result(call_id: str) -> None:
    [asked] = json.loads(encode_message({"role": "assistant", "content": [use(call_id, "ls", {})]}))["tool_calls"]
    told = json.loads(encode_message({"role": "user", "content": [result(call_id, "x")]}))
    assert asked["id"] == told["tool_call_id"]
    assert (asked["id"][:5], len(asked["id"])) == ("call_", 37)


def test_ids_that_servers_take_stay_as_they_are() -> None:
    ids = ["call_1", "toolu_01A09q90qw90lq917835lq9", "9f5c2a4e-0d5b-4f0e-9d7b-0c7d3e5a1b2c", "a" * 40]
    message: NeutralMessage = {"role": "assistant", "content": [use(call_id, "ls", {}) for call_id in ids]}
    assert [call["id"] for call in json.loads(encode_message(message))["tool_calls"]] == ids


@pytest.mark.parametrize(("count", "known"), [(10**400, 2**53), (1e308, 2**53), (-1, 0), (3.0, 3)])
def test_a_count_beyond_all_measure_is_cut(count: float, known: int) -> None:
    assert usage_of({"prompt_tokens": count}) == {"input_tokens": known}


def test_numbers_for_ids_in_a_whole_answer_are_taken_as_text() -> None:
    call = {"id": 7, "function": {"name": "bash", "arguments": "{}"}}
    body = {"id": 1, "model": 2, "choices": [{"message": {"tool_calls": [call]}}]}
    answer = parse_answer(body, provider="generic", model="m", splits_tags=False)
    assert [call.tool_call_id for call in answer.tool_calls] == ["7"]
    assert answer.meta is not None
    assert (answer.meta.request_id, answer.meta.model) == ("1", "2")
