"""What a conversation looks like to Gemini."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import InvalidSetting
from aar.journal.transcript import to_messages
from aar.messages.content import ImageBlock, ImageURL, TextBlock
from aar.messages.events import AssistantMessage, Event, ReasoningBlock, ToolCall, ToolResult, UserMessage
from aar.messages.provider import History, NeutralMessage
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers.gemini_wire import (
    NO_SIGNATURE,
    Thinking,
    answer_format,
    contents_of,
    encode_tools,
    function_name,
    generation_config,
    is_before_gemini_3,
)

MODEL = "gemini-2.5-pro"
NEWER = "gemini-3-pro-preview"
OPENING = {"role": "user", "parts": [{"text": "(What was said before is not shown.)"}]}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any, *, is_error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}


def signed(model: str = MODEL, **data: Any) -> dict[str, Any]:
    return {"type": "reasoning", "text": "hm", "data": {"provider": "gemini", "replay": True, "model": model, **data}}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def call(name: str, arguments: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": arguments, **more}}


def response(name: str, content: str, **more: str) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"content": content}, **more}}


def contents(messages: list[NeutralMessage], name: str = MODEL) -> Any:
    return json.loads(contents_of(History(messages), name))


def said(role: str, content: Any) -> NeutralMessage:
    return {"role": role, "content": content}


@pytest.mark.covers("GEM-06", "AURA-52")
def test_a_conversation_with_tools_names_the_function_in_each_result() -> None:
    messages = [
        said("user", "What is here?"),
        said("assistant", [text("I look."), use("a", "ls", {"path": "."}), use("b", "cat", {"path": "é"})]),
        said("user", [result("a", "x.txt"), result("b", "Error: gone", is_error=True)]),
        said("assistant", "One file."),
        said("user", "Thanks"),
    ]
    assert contents(messages) == [
        user("What is here?"),
        model("I look.", call("ls", {"path": "."}), call("cat", {"path": "é"})),
        user(response("ls", "x.txt"), response("cat", "Error: gone")),
        model("One file."),
        user("Thanks"),
    ]


@pytest.mark.covers("GEM-06")
@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ([said("user", " \n"), said("user", "hi")], [user("hi")]),
        ([said("user", "a"), said("user", "b"), said("user", "c")], [user("a", "b", "c")]),
        ([said("user", "a"), said("assistant", ""), said("user", "b")], [user("a", "b")]),
        ([said("user", "a"), said("assistant", "b"), said("assistant", [text("c")])], [user("a"), model("b", "c")]),
        ([said("assistant", "b"), said("user", "c")], [OPENING, model("b"), user("c")]),
        ([], [OPENING]),
        ([said("user", "")], [OPENING]),
        ([said("user", [result("lost", "out")])], [user(response("lost", "out"))]),
        (
            [
                said("user", "a"),
                said("assistant", [use("1", "my tool!", {"raw": '{"p'})]),
                said("user", [result("1", "no")]),
            ],
            [user("a"), model(call("my_tool_", {"raw": '{"p'})), user(response("my_tool_", "no"))],
        ),
        (
            [
                said("user", "a"),
                said("assistant", [use("1", "t", {})]),
                said("user", [result("1", [text("b"), text("c")])]),
                said("user", "d"),
            ],
            [user("a"), model(call("t", {})), user(response("t", "b c"), "d")],
        ),
    ],
)
def test_roles_alternate_and_begin_with_the_user(messages: list[NeutralMessage], wanted: list[Any]) -> None:
    assert contents(messages) == wanted


@pytest.mark.covers("GEM-12")
def test_images_go_as_data() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/PNG;charset=x;base64,iVBORw0="}}
    wanted = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0="}}
    assert contents([said("user", [image, text("What is it?")])]) == [user(wanted, "What is it?")]


def test_what_cannot_be_sent_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    blocks = [
        text("look"),
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:,x"}},
        {"type": "audio", "audio": {"url": "data:audio/wav;base64,AA"}},
        {"type": "video", "video": {"url": "x"}},
    ]
    with caplog.at_level(logging.WARNING):
        assert contents([said("user", blocks)]) == [user("look", "[image: https://example.org/a.png]")]
    assert [record.message for record in caplog.records] == [
        "An image is left out, its address is sent instead: Gemini is given images only as data",
        "An image is left out: its data URI has no type, or no base64",
        "Gemini is not sent audio here: left out",
        "Gemini is not sent video here: left out",
    ]


def test_signatures_and_ids_of_the_api_go_back_where_they_were() -> None:
    marks = [{"id": "g1", "signature": "c2ln"}, {"id": "g2"}]
    messages = [
        said("user", "a"),
        said(
            "assistant",
            [signed(calls=marks, text_signature="dGV4dA=="), text("b"), use("g1", "t", {}), use("renamed", "u", {})],
        ),
        said("user", [result("g1", "c"), result("renamed", "d")]),
    ]
    assert contents(messages) == [
        user("a"),
        model(
            "b",
            {"text": "", "thoughtSignature": "dGV4dA=="},
            {**call("t", {}, id="g1"), "thoughtSignature": "c2ln"},
            call("u", {}, id="g2"),
        ),
        user(response("t", "c", id="g1"), response("u", "d", id="g2")),
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        signed("another", calls=[{"signature": "x"}]),
        {**signed(), "data": {"provider": "anthropic", "replay": True, "signature": "y"}},
    ],
)
def test_signatures_of_others_are_not_sent(foreign: dict[str, Any]) -> None:
    messages = [said("user", "a"), said("assistant", [foreign, text("b"), use("1", "t", {}), use("2", "t", {})])]
    assert contents(messages) == [user("a"), model("b", call("t", {}), call("t", {}))]
    # The newer models refuse a first call without any.
    marked = {**call("t", {}), "thoughtSignature": NO_SIGNATURE}
    assert contents(messages, NEWER) == [user("a"), model("b", marked, call("t", {}))]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("gemini-2.5-flash", True),
        ("models/gemini-1.5-pro-002", True),
        ("gemini-pro", True),
        ("gemma-3-27b-it", True),
        ("gemini-3-pro-preview", False),
        ("gemini-3.8-flash", False),
        ("gemini-12", False),
        ("gemini-pro-latest", False),
        ("house-model", False),
    ],
)
def test_old_models_are_known_by_their_names(name: str, wanted: bool) -> None:
    assert is_before_gemini_3(name) is wanted


def test_a_result_finds_its_call_also_when_only_the_result_is_new() -> None:
    settled = [said("user", "a"), said("assistant", [signed(calls=[{"id": "g"}]), use("1", "t", {})])]
    cache: dict[str, Any] = {}
    contents_of(History(settled, cache=cache), MODEL)
    settled.append(said("user", [result("1", "b")]))
    found = json.loads(contents_of(History(settled, cache=cache), MODEL))
    assert found[-1] == user(response("t", "b", id="g"))


def test_a_new_result_finds_its_call_without_reading_a_long_conversation_again() -> None:
    class Counting(list[Any]):
        reads = 0

        def __getitem__(self, index: Any) -> Any:
            self.reads += 1
            return super().__getitem__(index)

    settled = Counting(
        [
            said("assistant", [use(str(n), "t", {})]) if n % 2 else said("user", [result(str(n - 1), "b")])
            for n in range(200)
        ]
    )
    settled.append(said("assistant", [use("last", "found", {})]))
    cache: dict[str, Any] = {}
    contents_of(History(settled, cache=cache), MODEL)
    settled.reads = 0
    settled.append(said("user", [result("last", "b")]))
    found = json.loads(contents_of(History(settled, cache=cache), MODEL))
    assert found[-1] == user(response("found", "b"))
    assert settled.reads < 5


def test_a_message_is_encoded_once_for_a_model() -> None:
    first = said("user", "a")
    settled = [first]
    cache: dict[str, Any] = {}
    before = contents_of(History(settled, cache=cache), MODEL)
    first["content"] = "changed in place, which nobody does"
    assert contents_of(History(settled, cache=cache), MODEL) == before
    assert contents_of(History(settled, cache=cache), NEWER) != before


def test_half_a_surrogate_pair_does_not_break_a_request() -> None:
    assert contents([said("user", "a\ud800")]) == [user("a?")]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("read_file", "read_file"),
        ("a.b-c", "a.b-c"),
        ("", "unknown"),
        ("1st", "_1st"),
        ("é x", "__x"),
        ("n" * 99, "n" * 64),
    ],
)
def test_names_are_those_that_the_api_accepts(name: str, wanted: str) -> None:
    assert function_name(name) == wanted


def test_tools_are_declared_in_the_order_of_their_names_in_the_dialect() -> None:
    schema = {"type": "object", "properties": {"p": {"type": ["string", "null"]}}, "additionalProperties": False}
    tools = (ToolSchema("write", "Write.", schema), ToolSchema("list", "List.", {"type": "object", "properties": {}}))
    assert json.loads(encode_tools(tools)) == [
        {
            "functionDeclarations": [
                {"name": "list", "description": "List."},
                {
                    "name": "write",
                    "description": "Write.",
                    "parameters": {"type": "object", "properties": {"p": {"type": "string", "nullable": True}}},
                },
            ]
        }
    ]


# --- settings -----------------------------------------------------------------------------------


def config(name: str = "gemini-2.5-flash", *, extra: dict[str, Any] | None = None, **more: Any) -> ProviderConfig:
    return ProviderConfig(name="gemini", model=name, extra=extra or {}, **more)


@pytest.mark.covers("GEM-07")
@pytest.mark.parametrize(
    ("extra", "wanted"),
    [
        ({"thinking_budget": 0}, {"thinkingBudget": 0}),
        ({"thinking_budget": 0, "include_thoughts": True}, {"thinkingBudget": 0}),
        ({"thinking_budget": 512}, {"thinkingBudget": 512, "includeThoughts": True}),
        ({"thinking_budget": 512, "include_thoughts": False}, {"thinkingBudget": 512}),
        ({"thinking_budget": -1}, {"includeThoughts": True}),
        ({"thinking_budget": -1, "include_thoughts": False}, None),
        ({"thinking_level": "low"}, {"thinkingLevel": "low", "includeThoughts": True}),
    ],
)
def test_a_thinking_budget_becomes_the_thinking_config(extra: dict[str, Any], wanted: Any) -> None:
    assert Thinking.of(config(extra=extra)).config() == wanted


@pytest.mark.covers("GEM-08")
@pytest.mark.parametrize(("name", "budget"), [("gemini-2.5-pro", -1), ("gemini-2.5-flash", 0), ("house-model", 0)])
def test_models_called_pro_think_as_they_like_and_others_do_not(name: str, budget: int) -> None:
    found = Thinking.of(config(name))
    assert (found.budget, found.includes_thoughts, found.is_chosen) == (budget, budget != 0, False)


@pytest.mark.parametrize("budget", [-2, True, 1.5, "512", None])
def test_a_budget_that_is_none_is_refused(budget: Any) -> None:
    with pytest.raises(InvalidSetting, match="thinking_budget must be a number of tokens"):
        Thinking.of(config(extra={"thinking_budget": budget}))


@pytest.mark.covers("GEM-14")
@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {}),
        ({"response_format": "text"}, {}),
        ({"response_format": "json"}, {"responseMimeType": "application/json"}),
        ({"response_format": "json_object"}, {"responseMimeType": "application/json"}),
        ({"response_format": "json_schema"}, {}),
        (
            {"response_format": "json_schema", "json_schema": {"type": "array", "items": {"type": "integer"}}},
            {"responseMimeType": "application/json", "responseSchema": {"type": "array", "items": {"type": "integer"}}},
        ),
        (
            {
                "response_format": "json_schema",
                "json_schema": {"name": "n", "strict": True, "schema": {"type": "boolean"}},
            },
            {"responseMimeType": "application/json", "responseSchema": {"type": "boolean"}},
        ),
    ],
)
def test_json_answers_are_asked_for_in_the_generation_config(settings: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = answer_format(config(**settings))
    assert found == wanted
    assert generation_config(config(max_tokens=0, **settings), None, None, found) == wanted


def test_the_generation_config_has_what_is_set() -> None:
    asked = config(max_tokens=100, temperature=0.5, extra={"generation_config": {"topP": 0.9}})
    assert generation_config(asked, None, {"thinkingBudget": 0}, {}) == {
        "maxOutputTokens": 100,
        "temperature": 0.5,
        "thinkingConfig": {"thinkingBudget": 0},
        "topP": 0.9,
    }
    assert generation_config(config(max_tokens=100), 7, None, {}) == {"maxOutputTokens": 7}


# --- any conversation ---------------------------------------------------------------------------

call_ids = st.sampled_from(["1", "2", "3", "toolu_x"])
names = st.sampled_from(["ls", "my tool", "", "read.file"])
texts = st.sampled_from(["", " ", "hi", "\n", "é"])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(UserMessage, content=texts),
    st.builds(
        UserMessage,
        content=texts,
        parts=st.just([TextBlock(text=" "), ImageBlock(image_url=ImageURL(url="data:image/png;base64,AA"))]),
    ),
    st.builds(AssistantMessage, content=texts),
    st.builds(
        ToolCall, tool_call_id=call_ids, tool_name=names, arguments=st.sampled_from([{}, {"a": 1}, {"raw": "{"}])
    ),
    st.builds(ToolResult, tool_call_id=call_ids, output=texts),
    st.builds(
        ReasoningBlock,
        content=texts,
        data=st.sampled_from(
            [
                {"provider": "gemini", "replay": True, "model": NEWER, "calls": [{"signature": "s", "id": "g"}]},
                {"provider": "gemini", "replay": True, "model": MODEL, "calls": [], "text_signature": "t"},
                {"provider": "anthropic", "replay": True, "signature": "z"},
            ]
        ),
    ),
)


@given(st.lists(events, max_size=14), st.sampled_from([MODEL, NEWER]))
def test_any_conversation_is_one_that_the_api_accepts(happened: list[Event], name: str) -> None:
    found = contents(to_messages(happened), name)
    roles = [content["role"] for content in found]
    assert roles == [("user", "model")[index % 2] for index in range(len(roles))]
    waiting: list[str] = []
    for content in found:
        assert content["parts"]
        calls = [part for part in content["parts"] if "functionCall" in part]
        results = [part["functionResponse"]["name"] for part in content["parts"] if "functionResponse" in part]
        assert sorted(results) == sorted(waiting)
        waiting = [part["functionCall"]["name"] for part in calls]
        if name == NEWER and calls:
            assert calls[0]["thoughtSignature"]
    assert waiting == []


@given(st.lists(events, max_size=10), events)
def test_a_longer_conversation_begins_as_the_shorter_one_did(happened: list[Event], more: Event) -> None:
    def parts(messages: list[NeutralMessage]) -> list[Any]:
        return [(content["role"], part) for content in contents(messages) for part in content["parts"]]

    before = to_messages([*happened, UserMessage(content="now")])
    after = to_messages([*happened, UserMessage(content="now"), more])
    assert parts(after)[: len(parts(before))] == parts(before)
