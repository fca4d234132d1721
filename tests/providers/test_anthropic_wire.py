"""From our messages to the bodies that Anthropic's API takes."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aar.errors import InvalidSetting
from aar.journal.context import trim_messages
from aar.journal.transcript import to_messages
from aar.messages.content import AudioBlock, ImageBlock, ImageURL, Media, TextBlock
from aar.messages.events import AssistantMessage, ReasoningBlock, ToolCall, ToolResult, UserMessage
from aar.messages.provider import History, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers.anthropic_body import MessageBody, Shape, reshaped
from aar.providers.anthropic_wire import encode_message, encode_tools, encode_without_thoughts, wire_id

OWN = {"provider": "anthropic", "replay": True, "signature": "sig"}
FOREIGN = {"provider": "openai", "replay": True, "encrypted": "x", "signature": "sig"}
REDACTED = {"provider": "anthropic", "replay": True, "redacted": "secret"}
EPHEMERAL = {"type": "ephemeral"}
TOOLS = (
    ToolSchema("write", "Write.", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSchema("list", "List.", {}),
)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def thought(value: str, data: dict[str, Any] = OWN, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning", "text": value, "data": data | more}


def signed(value: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": value, "signature": "sig"}


def use(call_id: str, name: str = "ls", arguments: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments}


def result(call_id: str, content: Any = "out", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def source(**fields: str) -> dict[str, Any]:
    return {"type": "image", "source": fields}


def user(*blocks: dict[str, Any]) -> NeutralMessage:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> NeutralMessage:
    return {"role": "assistant", "content": list(blocks)}


def said(role: str, content: str) -> NeutralMessage:
    return {"role": role, "content": content}


def encoded(message: NeutralMessage) -> Any:
    data = encode_message(message)
    return json.loads(data) if data else None


def body_of(
    *messages: NeutralMessage, shape: Shape | None = None, system: str = "", tools: Any = None, **config: Any
) -> dict[str, Any]:
    made = MessageBody(ProviderConfig(**{"model": "m", **config}), has_tools=True)
    request = ProviderRequest(History(list(messages)), system=system, tools=tools)
    return json.loads(made.encode(request, shape or Shape()))  # type: ignore[no-any-return]


def messages_of(*messages: NeutralMessage, **more: Any) -> Any:
    return body_of(*messages, extra={"cache": False, **more.pop("extra", {})}, **more)["messages"]


# --- one message ------------------------------------------------------------------------------


@pytest.mark.covers("ANT-05")
@pytest.mark.parametrize(
    ("message", "content"),
    [
        (said("user", "hé"), [text("hé")]),
        (said("user", " \n"), None),
        (said("assistant", "a "), [text("a ")]),
        (user(text("a"), text(" "), text("b")), [text("a"), text("b")]),
        (assistant(text("a"), use("1", "ls", {"p": "é"})), [text("a"), use("1", "ls", {"p": "é"})]),
        (assistant(use("1", "ls", {"raw": '{"pa'})), [use("1", "ls", {"raw": '{"pa'})]),
        (assistant(use("1", "ls", "odd")), [use("1", "ls", {"raw": "odd"})]),
        (user(text("b"), result("1"), text("a")), [result("1"), text("b"), text("a")]),
        (user(result("1", "")), [{"type": "tool_result", "tool_use_id": "1"}]),
        (user(result("1", "\n", is_error=False)), [{"type": "tool_result", "tool_use_id": "1"}]),
        (user(result("1", "bad", is_error=True)), [result("1", "bad", is_error=True)]),
        (user(result("1", "", is_error=True)), [result("1", "(no message)", is_error=True)]),
        (
            user(result("1", [text("a"), image("https://h/x.png"), text("")])),
            [result("1", [text("a"), source(type="url", url="https://h/x.png")])],
        ),
        (user(), None),
    ],
)
def test_each_neutral_message_has_its_blocks(message: NeutralMessage, content: Any) -> None:
    assert encoded(message) == (content and {"role": message["role"], "content": content})


@pytest.mark.covers("ANT-04")
@pytest.mark.parametrize(
    ("url", "wire"),
    [
        ("https://h/x.png", source(type="url", url="https://h/x.png")),
        ("data:image/png;base64,AAAA", source(type="base64", media_type="image/png", data="AAAA")),
        ("data:image/webp;name=x;base64,AA", source(type="base64", media_type="image/webp", data="AA")),
        ("data:;base64,AAAA", source(type="base64", media_type="image/jpeg", data="AAAA")),
        ("data:AAAA", source(type="base64", media_type="image/jpeg", data="AAAA")),
    ],
)
def test_images_are_sources(url: str, wire: dict[str, Any]) -> None:
    assert encoded(user(image(url), text("look"))) == {"role": "user", "content": [wire, text("look")]}


def pdf(url: str, **more: str) -> dict[str, Any]:
    return {"type": "document", "document": {"url": url, **more}}


@pytest.mark.parametrize(
    ("block", "wire"),
    [
        (
            pdf("data:application/pdf;base64,JVBE", name="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                "title": "a.pdf",
            },
        ),
        (pdf("https://h/a.pdf"), {"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}}),
    ],
)
def test_documents_are_sources_with_a_title(block: dict[str, Any], wire: dict[str, Any]) -> None:
    assert encoded(user(block, text("read"))) == {"role": "user", "content": [wire, text("read")]}
    assert UserMessage(parts=[block]).model_dump(mode="json", exclude_none=True)["parts"][0]["type"] == "document"


@pytest.mark.parametrize(
    "block",
    [
        pdf("data:text/csv;base64,AA"),
        {"type": "audio", "audio": {"url": "data:audio/wav;base64,AA"}},
        {"type": "video", "video": {"url": "x"}},
        image("data:image/png;base64,"),
        image("file:///etc/passwd"),
    ],
)
def test_what_the_api_does_not_take_is_left_out_with_one_warning(
    block: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert encoded(user(block, block, text("a"))) == {"role": "user", "content": [text("a")]}
    names = ", ".join([block["type"]] * 2)
    assert [record.getMessage() for record in caplog.records] == [
        f"Left out of a message, since Anthropic's API does not take it: {names}"
    ]
    assert encoded(user(block))["content"] == [text("(An attachment that this model cannot take was left out.)")]


@pytest.mark.covers("ANT-10")
@pytest.mark.parametrize(
    ("blocks", "content"),
    [
        ([thought("hm"), use("1")], [signed("hm"), use("1")]),
        ([thought(""), text("a")], [signed(""), text("a")]),
        (
            [thought("", REDACTED), thought("hm"), text("a"), use("1")],
            [{"type": "redacted_thinking", "data": "secret"}, signed("hm"), text("a"), use("1")],
        ),
        (
            [thought("x"), thought("y", text_before=2), text("abcd"), use("1")],
            [signed("x"), text("ab"), signed("y"), text("cd"), use("1")],
        ),
        ([thought("y", text_before=9), text("ab"), use("1")], [text("ab"), signed("y"), use("1")]),
        ([thought("x", FOREIGN), text("a")], [text("a")]),
        ([thought("x", {"provider": "anthropic"}), use("1")], [use("1")]),
        ([thought("x"), thought("y", text_before=1), text("a")], [signed("x"), text("a")]),
        ([thought("x")], None),
    ],
)
def test_signed_thoughts_go_back_to_where_they_stood_and_no_others(blocks: list[Any], content: Any) -> None:
    message = assistant(*blocks)
    assert encoded(message) == (content and {"role": "assistant", "content": content})
    plain = json.loads(encode_without_thoughts(message) or b'{"content":[]}')["content"]
    assert "thinking" not in json.dumps(plain)


def test_ids_of_other_providers_become_ids_that_the_api_takes_and_stay_apart() -> None:
    ids = ["toolu_1", "call:1", "call.1", "", "x" * 64, "x" * 65, "x" * 66, "é", "\ud800"]
    mapped = [wire_id(call_id) for call_id in ids]
    assert mapped == [wire_id(call_id) for call_id in ids]
    assert len(set(mapped)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call_id) for call_id in mapped)
    assert (mapped[0], mapped[4]) == ("toolu_1", "x" * 64)
    assert (
        encoded(assistant(use("a.b")))["content"][0]["id"] == encoded(user(result("a.b")))["content"][0]["tool_use_id"]
    )


def test_a_name_that_a_model_made_up_goes_back_in_letters_that_the_api_takes() -> None:
    names = ["bash", "functions.bash", "", "größe", "a" * 200]
    sent = [
        block["name"] for block in encoded(assistant(*[use(str(at), name) for at, name in enumerate(names)]))["content"]
    ]
    assert sent == ["bash", "functions_bash", "unknown", "gr__e", "a" * 128]


@pytest.mark.covers("AURA-52")
def test_a_conversation_with_a_tool_result_is_what_a_real_server_took(recorded: Path) -> None:
    sent = json.loads((recorded / "messages-tool-result.request.json").read_bytes())
    question, call, answer = sent["messages"]
    assert messages_of(said("user", question["content"]), assistant(*call["content"]), user(*answer["content"])) == [
        {"role": "user", "content": [text(question["content"])]},
        call,
        answer,
    ]
    tools = [ToolSchema(tool["name"], tool["description"], tool["input_schema"]) for tool in sent["tools"]]
    assert json.loads(encode_tools(tools)) == sorted(sent["tools"], key=lambda tool: tool["name"])


# --- the whole conversation -------------------------------------------------------------------


def test_neighbours_of_one_role_become_one_message_with_results_first() -> None:
    assert messages_of(
        said("user", "a"),
        said("user", "b"),
        said("assistant", "c"),
        assistant(text("d"), use("1")),
        user(result("1")),
        said("user", "e"),
        said("user", " "),
        said("user", "f"),
    ) == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c"), text("d"), use("1")]},
        {"role": "user", "content": [result("1"), text("e"), text("f")]},
    ]


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    opening = {"role": "user", "content": [text("(What was said before is not shown.)")]}
    go_on = {"role": "user", "content": [text("Go on.")]}
    a = {"role": "assistant", "content": [text("a")]}
    assert messages_of(said("assistant", "a"), said("user", "b")) == [
        opening,
        a,
        {"role": "user", "content": [text("b")]},
    ]
    assert messages_of(said("assistant", "a")) == [opening, a, go_on]
    assert messages_of() == [opening]


@pytest.mark.covers("ANT-01")
def test_a_request_has_every_part_in_its_place() -> None:
    body = body_of(
        said("user", "hi"),
        assistant(use("1")),
        user(result("1")),
        system="Be brief.",
        tools=TOOLS,
        max_tokens=100,
        temperature=0.5,
        extra={"metadata": {"user_id": "u"}},
    )
    assert body == {
        "messages": [
            {"role": "user", "content": [text("hi") | {"cache_control": EPHEMERAL}]},
            {"role": "assistant", "content": [use("1")]},
            {"role": "user", "content": [result("1") | {"cache_control": EPHEMERAL}]},
        ],
        "model": "m",
        "max_tokens": 100,
        "stream": True,
        "temperature": 0.5,
        "metadata": {"user_id": "u"},
        "system": [text("Be brief.") | {"cache_control": EPHEMERAL}],
        "tools": [
            {"name": "list", "description": "List.", "input_schema": {"type": "object", "properties": {}}},
            {
                "name": "write",
                "description": "Write.",
                "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
                "cache_control": EPHEMERAL,
            },
        ],
    }
    assert list(body) == ["messages", "model", "max_tokens", "stream", "temperature", "metadata", "system", "tools"]


@pytest.mark.parametrize("extra", [{"cache": False}, {"cache_control": {"type": "ephemeral"}}])
def test_without_breakpoints_a_request_is_plain(extra: dict[str, Any]) -> None:
    body = body_of(said("user", "hi"), system="Be brief.", tools=TOOLS, extra=extra)
    assert body["system"] == "Be brief."
    assert body["messages"] == [{"role": "user", "content": [text("hi")]}]
    assert "cache_control" not in body["tools"][-1]
    assert body.get("cache_control") == extra.get("cache_control")


def test_a_cache_may_live_for_an_hour_and_the_marks_of_a_long_conversation_are_four() -> None:
    talk = [said(role, str(at)) for at in range(20) for role in ("user", "assistant")]
    body = body_of(*talk, said("user", "now"), system="s", tools=TOOLS, extra={"cache_ttl": "1h"})
    mark = {"type": "ephemeral", "ttl": "1h"}
    marked = [at for at, message in enumerate(body["messages"]) if message["content"][-1].get("cache_control") == mark]
    assert (marked, json.dumps(body).count("cache_control")) == ([38, 40], 4)


@pytest.mark.covers("ANT-02")
@pytest.mark.parametrize(
    ("temperature", "extra", "sent"),
    [
        (0.0, {}, None),
        (0.7, {}, 0.7),
        (0.7, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, None),
        (0.7, {"thinking": {"type": "adaptive"}}, None),
        (0.7, {"thinking": {"type": "disabled"}}, 0.7),
    ],
)
def test_a_temperature_is_sent_above_zero_and_without_thinking(temperature: float, extra: Any, sent: Any) -> None:
    assert body_of(said("user", "hi"), temperature=temperature, extra=extra).get("temperature") == sent


@pytest.mark.covers("ANT-03")
@pytest.mark.parametrize(
    ("thinking", "limit", "sent"),
    [
        ({"type": "enabled", "budget_tokens": 2000}, 4096, 4096),
        ({"type": "enabled", "budget_tokens": 4096}, 4096, 8192),
        ({"type": "enabled", "budget_tokens": 2000}, 0, 32_000),
        ({"type": "adaptive", "display": "summarized"}, 100, 100),
    ],
)
def test_thinking_is_passed_on_and_leaves_room_for_the_answer(thinking: Any, limit: int, sent: int) -> None:
    body = body_of(said("user", "hi"), max_tokens=limit, extra={"thinking": thinking})
    assert (body["thinking"], body["max_tokens"]) == (thinking, sent)


@pytest.mark.parametrize(
    "thinking", [True, "enabled", {}, {"budget_tokens": 1}, {"type": "enabled", "budget_tokens": "1"}]
)
def test_a_thinking_that_is_none_is_refused_at_once(thinking: Any) -> None:
    if thinking == {}:
        assert "thinking" not in body_of(said("user", "hi"), extra={"supports_tools": True})
        return
    with pytest.raises(InvalidSetting, match=r"provider\.extra\.thinking must be an object"):
        body_of(said("user", "hi"), extra={"thinking": thinking})


LOOP = [user(result("1")), assistant(use("2")), user(result("2"))]
THINKING = {"type": "enabled", "budget_tokens": 1024}


@pytest.mark.parametrize(
    ("messages", "thinks"),
    [
        ([said("user", "a"), assistant(thought("hm"), use("1")), *LOOP], True),
        ([said("user", "a"), assistant(thought("", REDACTED), use("1")), *LOOP], True),
        ([said("user", "a"), assistant(use("1")), *LOOP], False),
        ([said("user", "a"), assistant(thought("x", FOREIGN), use("1")), *LOOP], False),
        ([said("user", "a"), assistant(use("1")), *LOOP, said("user", "steered")], False),
        ([said("user", "a"), assistant(use("1")), *LOOP, said("assistant", "done"), said("user", "next")], True),
        ([assistant(use("1")), *LOOP], False),
        ([said("user", "a")], True),
    ],
)
def test_a_budget_waits_for_the_next_prompt_when_the_work_began_without_a_thought(messages: Any, thinks: bool) -> None:
    assert ("thinking" in body_of(*messages, extra={"thinking": THINKING})) is thinks
    assert "thinking" in body_of(*messages, extra={"thinking": {"type": "adaptive"}})


@pytest.mark.covers("PRV-10")
def test_keys_that_are_for_aar_or_another_provider_are_never_sent() -> None:
    aar = dict.fromkeys(("supports_tools", "supports_vision", "supports_reasoning", "cache", "use_environment"), True)
    aar |= dict.fromkeys(("timeout", "read_timeout", "first_byte_timeout", "idle_timeout", "num_ctx"), 5)
    aar |= dict.fromkeys(("api", "auth_header", "endpoint", "keep_alive", "reasoning_effort", "cache_ttl"), "x")
    aar |= {"extra_headers": {"x-a": "1"}, "betas": ["b"], "messages": [], "model": "other", "stream": False}
    body = body_of(said("user", "hi"), extra=aar | {"top_k": 5, "stop_sequences": ["END"]})
    assert {name: value for name, value in body.items() if name != "messages"} == {
        "model": "m",
        "max_tokens": 4096,
        "stream": True,
        "top_k": 5,
        "stop_sequences": ["END"],
    }


def test_a_choice_of_tools_goes_only_with_tools() -> None:
    extra = {"tool_choice": {"type": "any"}}
    talk = [said("user", "hi"), assistant(use("1")), user(result("1"))]
    assert body_of(*talk, tools=TOOLS, extra=extra)["tool_choice"] == {"type": "any"}
    assert "tool_choice" not in body_of(said("user", "hi"), extra=extra)
    without = body_of(*talk, extra=extra)
    assert (without["tool_choice"], [tool["name"] for tool in without["tools"]]) == ({"type": "none"}, ["no_tool"])


def test_a_schema_for_the_answer_is_sent_with_and_without_its_wrapper() -> None:
    schema = {"type": "object", "properties": {}}
    expected = {"format": {"type": "json_schema", "schema": schema}}
    for given_schema in (schema, {"name": "n", "schema": schema}):
        body = body_of(said("user", "hi"), response_format="json_schema", json_schema=given_schema)
        assert body["output_config"] == expected
    effort = body_of(
        said("user", "hi"),
        response_format="json_schema",
        json_schema=schema,
        extra={"output_config": {"effort": "low"}},
    )
    assert effort["output_config"] == expected | {"effort": "low"}


def test_schemas_of_tools_are_objects_without_unions_at_the_top() -> None:
    tools = [ToolSchema("a", "A.", {"anyOf": [{"required": ["x"]}], "properties": {"x": {"anyOf": []}}})]
    [sent] = json.loads(encode_tools(tools))
    assert sent["input_schema"] == {"type": "object", "properties": {"x": {"anyOf": []}}}


@pytest.mark.parametrize(
    ("status", "said_by_server", "shape"),
    [
        (400, "temperature is not supported by this model", Shape(has_temperature=False)),
        (400, "max_tokens: 32000 > 8192, which is the maximum allowed", Shape(max_output=8192)),
        (400, "messages.1.content.0: Invalid `signature` in `thinking` block", Shape(has_thoughts=False)),
        (400, "Expected `thinking` or `redacted_thinking`, but found `tool_use`.", Shape(has_thoughts=False)),
        (400, "messages: roles must alternate", None),
        (422, "temperature is not supported", None),
    ],
)
def test_a_request_takes_the_shape_that_the_server_names(status: int, said_by_server: str, shape: Shape | None) -> None:
    assert reshaped(Shape(), status, said_by_server) == shape
    assert shape is None or reshaped(shape, status, said_by_server) is None


def test_a_shape_is_obeyed() -> None:
    talk = [said("user", "a"), assistant(thought("hm"), use("1")), user(result("1"))]
    shape = Shape(has_temperature=False, max_output=50, has_thoughts=False)
    body = body_of(*talk, shape=shape, temperature=1, extra={"thinking": THINKING, "temperature": 1})
    assert (body.get("temperature"), body.get("thinking"), body["max_tokens"]) == (None, None, 50)
    assert body["messages"][1] == {"role": "assistant", "content": [use("1")]}


# --- any conversation -------------------------------------------------------------------------

WORDS = st.sampled_from(["", " ", "\n", "a", "é\ud800", "b "])
IDS = st.sampled_from(["toolu_1", "call:2", "x" * 90, "", "gemini_tc_0"])
PARTS = st.one_of(
    st.builds(TextBlock, text=WORDS),
    st.builds(
        ImageBlock, image_url=st.builds(ImageURL, url=st.sampled_from(["https://h/a", "data:image/png;base64,AA", "x"]))
    ),
    st.builds(AudioBlock, audio=st.just(Media(url="x"))),
)
EVENTS = st.lists(
    st.one_of(
        st.builds(UserMessage, content=WORDS),
        st.builds(UserMessage, parts=st.lists(PARTS, max_size=3)),
        st.builds(AssistantMessage, content=WORDS),
        st.builds(
            ReasoningBlock, content=WORDS, data=st.sampled_from([OWN, FOREIGN, REDACTED, OWN | {"text_before": 1}, {}])
        ),
        st.builds(ToolCall, tool_call_id=IDS, tool_name=st.sampled_from(["bash", "a.b", "", "x" * 200])),
        st.builds(ToolResult, tool_call_id=IDS, output=WORDS, is_error=st.booleans()),
    ),
    max_size=25,
)


def check(body: dict[str, Any]) -> None:
    """The documented rules of the Messages API."""
    messages = body["messages"]
    assert [message["role"] for message in messages] == [("user", "assistant")[at % 2] for at in range(len(messages))]
    assert messages[-1]["role"] == "user"
    waiting: list[str] = []
    for message in messages:
        blocks = message["content"]
        assert blocks
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(answered) == sorted(waiting)
        assert all(block["type"] == "tool_result" for block in blocks[: len(answered)])
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert len(set(waiting)) == len(waiting)
        assert blocks[-1]["type"] not in ("thinking", "redacted_thinking")
        for block in blocks:
            check_block(block, message["role"])
    assert not waiting
    assert json.dumps(body).count("cache_control") <= 4


def check_block(block: dict[str, Any], role: str) -> None:
    allowed = {
        "user": {"text", "image", "tool_result"},
        "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
    }
    assert block["type"] in allowed[role]
    assert block["type"] != "text" or block["text"].strip()
    assert block["type"] != "thinking" or block["signature"]
    if block["type"] == "tool_use":
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])
        assert isinstance(block["input"], dict)
    if block["type"] == "tool_result":
        assert "content" not in block or block["content"].strip()
        assert block.get("content") or not block.get("is_error")


@settings(max_examples=300, deadline=None)
@given(EVENTS, st.integers(0, 60), st.booleans())
def test_any_conversation_makes_a_request_that_the_api_takes(events: list[Any], window: int, thinks: bool) -> None:
    messages, _ = trim_messages(to_messages(events), window, "compact" if thinks else "sliding_window")
    extra = {"thinking": THINKING} if thinks else {}
    body = body_of(*messages, system="s", tools=TOOLS, extra=extra)
    check(body)


@settings(max_examples=100, deadline=None)
@given(EVENTS, EVENTS)
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter_one(earlier: list[Any], later: list[Any]) -> None:
    before = to_messages([*earlier, UserMessage(content="now")])
    after = to_messages([*earlier, UserMessage(content="now"), AssistantMessage(content="done"), *later])
    made = MessageBody(ProviderConfig(extra={"cache": False}), has_tools=True)
    first, second = (made.encode(ProviderRequest(History(list(one))), Shape()) for one in (before, after))
    head = first[: first.index(b']}],"model"')]
    assert second.startswith(head)
