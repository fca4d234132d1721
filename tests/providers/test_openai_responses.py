"""OpenAI's Responses API: what is sent, and how a conversation with thoughts in it is sent again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aar.errors import ProviderError
from aar.journal.transcript import to_messages
from aar.messages.events import AssistantMessage, Event, ToolResult, UserMessage
from aar.messages.provider import History, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers.base import Assembly
from aar.providers.openai import OpenAIProvider
from aar.providers.openai_responses import encode_items, encode_tools
from aar.providers.openai_responses_stream import ResponseStream

HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
TOOLS = (ToolSchema("b", "B.", {"type": "object"}), ToolSchema("a", "A.", {}))
DONE = {"id": "resp_1", "model": "gpt-5", "status": "completed", "output": []}


def provider_at(url: str = "", **config: Any) -> OpenAIProvider:
    extra = {"api": "responses", **config.pop("extra", {})}
    config = {"name": "openai", "model": "gpt-5", "base_url": url, "api_key": "sk-test-key", **config}
    return OpenAIProvider(ProviderConfig(**config, extra=extra), environ={})


def body_for(request: ProviderRequest | None = None, *, streaming: bool = False, **config: Any) -> Any:
    provider = provider_at(config.pop("base_url", "https://host/v1"), **config)
    request = request or ProviderRequest(History(list(HI)))
    return json.loads(provider._api.body(request, provider._fields, streaming=streaming))


def options_of(body: Any) -> Any:
    return {name: value for name, value in body.items() if name not in ("input", "model", "store")}


# --- bodies -----------------------------------------------------------------------------------


@pytest.mark.covers("OAI-01")
async def test_a_request_carries_all_and_leaves_nothing_on_the_server(server: Any) -> None:
    server.sends_json(DONE)
    provider = provider_at(server.url + "/v1", temperature=0.5, max_tokens=700, extra={"reasoning_effort": "low"})
    await provider.complete(ProviderRequest(History(list(HI)), system="be brief", tools=TOOLS))
    await provider.aclose()
    [sent] = server.requests
    assert (sent.method, sent.path) == ("POST", "/v1/responses")
    assert sent.body == (
        b'{"input":[{"role":"user","content":"hi"}],"model":"gpt-5","instructions":"be brief",'
        b'"max_output_tokens":700,"temperature":0.5,"store":false,"include":["reasoning.encrypted_content"],'
        b'"reasoning":{"effort":"low","summary":"auto"},"tools":['
        b'{"type":"function","name":"a","description":"A.","parameters":{"type":"object","properties":{}},"strict":false},'
        b'{"type":"function","name":"b","description":"B.","parameters":{"type":"object"},"strict":false}]}'
    )


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"max_tokens": 0}, {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}),
        ({"model": "gpt-4o", "max_tokens": 3}, {"max_output_tokens": 16}),
        (
            {
                "model": "gpt-4o",
                "max_tokens": 0,
                "extra": {"supports_reasoning": True, "reasoning": {"effort": "high"}},
            },
            {"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "high"}},
        ),
        (
            {"model": "gpt-4o", "max_tokens": 0, "extra": {"reasoning_summary": "detailed", "reasoning_effort": "low"}},
            {"reasoning": {"effort": "low", "summary": "detailed"}},
        ),
        (
            {"model": "gpt-4o", "max_tokens": 0, "response_format": "json", "extra": {"verbosity": "low"}},
            {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
        ),
        (
            {"model": "gpt-4o", "max_tokens": 0, "response_format": "json_schema", "json_schema": {"type": "object"}},
            {"text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}}},
        ),
        (
            {"model": "gpt-4o", "max_tokens": 0, "extra": {"truncation": "auto", "service_tier": "flex", "timeout": 5}},
            {"truncation": "auto", "service_tier": "flex"},
        ),
    ],
)
@pytest.mark.covers("OAI-02", "PRV-10")
def test_settings_become_the_fields_of_this_api(config: dict[str, Any], options: dict[str, Any]) -> None:
    body = body_for(**config)
    assert (options_of(body), body["store"]) == (options, False)


def test_openai_itself_is_told_the_session_and_sends_no_padding() -> None:
    request = ProviderRequest(History(list(HI)), session_id="s1")
    config = {"model": "gpt-4o", "max_tokens": 0, "streaming": True}
    assert options_of(body_for(request, base_url="https://api.openai.com/v1", **config)) == {
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "prompt_cache_key": "s1",
    }
    assert options_of(body_for(request, **config)) == {"stream": True}


def test_tools_are_flat_and_in_the_order_of_their_names() -> None:
    assert encode_tools(TOOLS) == encode_tools(reversed(TOOLS))


# --- messages ---------------------------------------------------------------------------------


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": False}


def said(text: str) -> dict[str, Any]:
    """With its type, which OpenAI does without and llama.cpp does not."""
    return {"type": "message", "role": "assistant", "content": text}


def wire_call(call_id: str, name: str, arguments: str, **more: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def items_of(message: NeutralMessage, model: str = "gpt-5") -> Any:
    return json.loads(b"[" + encode_items(message, provider="openai", model=model) + b"]")


LONG_ID = "functions.bash:0" * 5
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": None}}


@pytest.mark.parametrize(
    ("message", "items"),
    [
        ({"role": "user", "content": "hé"}, [{"role": "user", "content": "hé"}]),
        ({"role": "assistant", "content": "a"}, [said("a")]),
        (
            {"role": "assistant", "content": [text("a"), use("1", "ls", {"p": "é"}), use("2", "", {"raw": '{"p'})]},
            [
                said("a"),
                wire_call("1", "ls", '{"p": "é"}'),
                wire_call("2", "unknown", '{"raw": "{\\"p"}'),
            ],
        ),
        (
            {"role": "user", "content": [result("1", "out"), text("dropped"), result("2", [text("a"), IMAGE])]},
            [
                {"type": "function_call_output", "call_id": "1", "output": "out"},
                {"type": "function_call_output", "call_id": "2", "output": "a"},
            ],
        ),
        (
            {"role": "user", "content": [text("look"), IMAGE, {"type": "audio", "audio": {"url": "x"}}]},
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "look"},
                        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"},
                    ],
                }
            ],
        ),
        ({"role": "user", "content": [{"type": "video", "video": {"url": "x"}}]}, []),
        ({"role": "assistant", "content": [{"type": "reasoning", "text": "hm", "data": {"provider": "x"}}]}, []),
    ],
)
def test_each_neutral_message_has_its_items(message: NeutralMessage, items: list[dict[str, Any]]) -> None:
    assert items_of(message) == items


@pytest.mark.covers("AURA-52")
def test_a_conversation_with_a_tool_result_is_what_a_real_server_took(recorded: Path) -> None:
    sent = json.loads((recorded / "responses-tool-result.request.json").read_bytes())
    history: list[NeutralMessage] = [
        {"role": "user", "content": "Read notes.txt and tell me the secret word"},
        {"role": "assistant", "content": [use("call_1", "read_file", {"path": "notes.txt"})]},
        {"role": "user", "content": [result("call_1", "the secret word is pineapple\n")]},
    ]
    assert [item for message in history for item in items_of(message)] == [
        {"type": "function_call", **item} if "arguments" in item else item for item in sent["input"]
    ]


def test_ids_longer_than_the_api_takes_are_the_same_short_ones_for_call_and_result() -> None:
    [call] = items_of({"role": "assistant", "content": [use(LONG_ID, "bash", {})]})
    [output] = items_of({"role": "user", "content": [result(LONG_ID, "x")]})
    assert call["call_id"] == output["call_id"]
    assert (len(call["call_id"]), call["call_id"][:5]) == (37, "call_")


# --- thoughts that are sent again -------------------------------------------------------------

THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "sealed-1",
}
MORE = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "sealed-2"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
}
CALL = wire_call("call_1", "ls", '{"p": "."}', id="fc_1", status="completed")
NEXT = wire_call("call_2", "ls", "{}", id="fc_2", status="completed")
OUTPUT = [THOUGHT, SAID, CALL, MORE, NEXT]


def answer_of(output: list[dict[str, Any]], model: str = "gpt-5") -> Any:
    reading = ResponseStream(provider="openai", model=model)
    assembly = Assembly()
    for delta in [reading.take_whole({**DONE, "output": output}), *reading.end()]:
        assembly.add(delta)
    return assembly.response()


def message_of(answer: Any) -> NeutralMessage:
    """The assistant message that a session makes of an answer."""
    events: list[Event] = [UserMessage(content="go"), *answer.reasoning, *answer.tool_calls]
    events += [AssistantMessage(content=answer.content)]
    events += [ToolResult(tool_call_id=call.tool_call_id, output="ok") for call in answer.tool_calls]
    return to_messages(events)[1]


def without_status(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in item.items() if name != "status" or item["type"] == "message"} for item in items
    ]


def test_an_answer_goes_back_as_it_came_its_thoughts_where_they_stood() -> None:
    message = message_of(answer_of(OUTPUT))
    assert items_of(message) == without_status(OUTPUT)
    json.dumps(message)  # it is kept in a journal


@pytest.mark.parametrize(("provider", "model"), [("openai", "gpt-5.4"), ("generic", "gpt-5"), ("openai", "")])
def test_another_model_is_not_sent_thoughts_that_it_cannot_read(provider: str, model: str) -> None:
    message = message_of(answer_of(OUTPUT))
    items = json.loads(b"[" + encode_items(message, provider=provider, model=model) + b"]")
    assert items == [
        said("Let me look."),
        wire_call("call_1", "ls", '{"p": "."}'),
        wire_call("call_2", "ls", "{}"),
    ]


def test_calls_that_were_given_other_ids_keep_their_thoughts() -> None:
    message = message_of(answer_of(OUTPUT))
    assert isinstance(message["content"], list)
    blocks = [{**block, "id": f"new-{block['id']}"} if "id" in block else block for block in message["content"]]
    items = items_of({"role": "assistant", "content": blocks})
    assert [item.get("call_id") for item in items] == [None, None, "new-call_1", None, "new-call_2"]


@pytest.mark.parametrize(
    "change",
    [
        lambda blocks: blocks[:-1],
        lambda blocks: [*blocks, use("call_3", "ls", {})],
        lambda blocks: [text("Other.") if block["type"] == "text" else block for block in blocks],
        lambda blocks: [text("Let me look. Or not.") if block["type"] == "text" else block for block in blocks],
    ],
    ids=["a call less", "a call more", "less text", "more text"],
)
def test_an_answer_that_was_changed_since_goes_back_without_its_thoughts(change: Callable[[Any], Any]) -> None:
    blocks = change(message_of(answer_of(OUTPUT))["content"])
    kinds = {item.get("type", "message") for item in items_of({"role": "assistant", "content": blocks})}
    assert kinds == {"message", "function_call"}


def test_several_messages_of_one_answer_are_told_apart_again() -> None:
    last = {**SAID, "id": "msg_2", "phase": "final_answer", "content": [{**SAID["content"][0], "text": "Done."}]}
    answer = answer_of([SAID, THOUGHT, last, MORE])
    assert answer.content == "Let me look.\n\nDone."
    assert items_of(message_of(answer)) == [SAID, THOUGHT, last]  # nothing follows the last thought: it is left out


def test_an_answer_without_sealed_thoughts_or_phases_has_nothing_to_send_again() -> None:
    open_thought = {**THOUGHT, "encrypted_content": None}
    plain = {name: value for name, value in SAID.items() if name != "phase"}
    answer = answer_of([open_thought, plain])
    assert [(block.content, block.data) for block in answer.reasoning] == [("hm", {"provider": "openai"})]
    assert items_of(message_of(answer)) == [said("Let me look.")]


# --- learning ---------------------------------------------------------------------------------


def refusal(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error"}}


HISTORY: list[NeutralMessage] = [
    *HI,
    message_of(answer_of(OUTPUT)),
    {"role": "user", "content": [result("call_1", "x"), result("call_2", "y")]},
]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "The encrypted content for item rs_1 could not be verified. Reason: it belongs to somebody else."),
        (404, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
        (400, "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
        (400, "Reasoning input items can only be provided to a reasoning or computer use model."),
    ],
)
async def test_thoughts_that_are_refused_are_left_out_and_the_session_goes_on(
    status: int, message: str, server: Any
) -> None:
    server.sends_json(refusal(message), status)
    server.sends_json(DONE)
    provider = provider_at(server.url)
    await provider.complete(ProviderRequest(History(list(HISTORY))))
    await provider.aclose()
    kinds = [[item.get("type", "message") for item in request.json["input"]] for request in server.requests]
    outputs = ["function_call_output"] * 2
    assert kinds == [
        ["message", "reasoning", "message", "function_call", "reasoning", "function_call", *outputs],
        ["message", "message", "function_call", "function_call", *outputs],
    ]


async def test_images_that_a_model_does_not_take_are_left_out_and_the_session_goes_on(server: Any) -> None:
    server.sends_json(refusal("Invalid content type. image_url is only supported by certain models."), 400)
    server.sends_json(DONE)
    provider = provider_at(server.url)
    history = History([{"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]}])
    await provider.complete(ProviderRequest(history))
    await provider.complete(ProviderRequest(history))
    await provider.aclose()
    parts = [[part["type"] for part in request.json["input"][0]["content"]] for request in server.requests]
    assert parts == [["input_text", "input_image"], ["input_text"] * 2, ["input_text"] * 2]
    assert server.requests[1].json["input"][0]["content"][1]["text"] == "[image left out: the model takes no images]"


async def test_summaries_and_sealed_thoughts_are_done_without_where_they_are_refused(server: Any) -> None:
    server.sends_json(refusal("Your organization must be verified to generate reasoning summaries."), 400)
    server.sends_json(refusal("Encrypted content is not supported with this model."), 400)
    server.sends_json(DONE)
    provider = provider_at(server.url, max_tokens=0)
    for _ in range(2):
        await provider.complete(ProviderRequest(History(list(HI))))
    await provider.aclose()
    assert [options_of(request.json) for request in server.requests] == [
        {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}},
        {"include": ["reasoning.encrypted_content"]},
        {},
        {},
    ]


async def test_a_refusal_of_something_else_is_raised(server: Any) -> None:
    server.sends_json(refusal("Invalid schema for function 'a'"), 400)
    provider = provider_at(server.url)
    with pytest.raises(ProviderError, match="Invalid schema"):
        await provider.complete(ProviderRequest(History(list(HISTORY))))
    await provider.aclose()
    assert len(server.requests) == 1


# --- any history ------------------------------------------------------------------------------

words = st.text(max_size=8)
thoughts = st.builds(
    lambda text, data: {"type": "reasoning", "text": text, "data": data},
    words,
    st.one_of(
        st.just({"provider": "anthropic", "replay": True, "signature": "s"}),
        st.builds(
            lambda output: {"provider": "openai", "model": "gpt-5", "replay": True, "output": output},
            st.lists(
                st.sampled_from(
                    [
                        THOUGHT,
                        {"type": "message", "id": "msg_1", "size": 3, "phase": ""},
                        {"type": "message", "id": "", "size": 2, "phase": "commentary"},
                        {"type": "function_call", "id": "fc_1"},
                        {"type": "function_call", "id": ""},
                    ]
                ),
                max_size=5,
            ),
        ),
    ),
)


@st.composite
def histories(draw: Any) -> list[NeutralMessage]:
    messages: list[NeutralMessage] = []
    for number in range(draw(st.integers(1, 4))):
        images = st.just(IMAGE) | st.just({"type": "audio", "audio": {"url": "x"}})
        messages.append({"role": "user", "content": draw(words | st.lists(st.builds(text, words) | images))})
        names = draw(st.lists(words, max_size=3))
        calls = [use(draw(words) * 9 + f"-{number}-{n}", name, {"a": name}) for n, name in enumerate(names)]
        said = draw(st.lists(st.builds(text, words), max_size=1))
        messages.append({"role": "assistant", "content": [*draw(st.lists(thoughts, max_size=2)), *said, *calls]})
        if calls:
            messages.append({"role": "user", "content": [result(call["id"], draw(words)) for call in calls]})
    return messages


@cache
def items_of_the_package() -> Any:
    """The package's own types of what may be sent."""
    from openai.types.responses import ResponseInputParam
    from pydantic import TypeAdapter

    return TypeAdapter(ResponseInputParam, config={"extra": "forbid"})


@given(histories())
@settings(max_examples=150, deadline=None)
def test_any_history_is_valid_with_every_call_answered_once(history: list[NeutralMessage]) -> None:
    pieces = History(history).encoded("x", lambda message: encode_items(message, provider="openai", model="gpt-5"))
    items = json.loads(b"[" + b",".join(pieces) + b"]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's types hold fields of odd names
        items_of_the_package().validate_python(items)
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert calls == outputs
    assert all(0 < len(call_id) <= 40 for call_id in calls)
    pairs = zip(items, [*items[1:], {"role": "nothing"}], strict=False)
    followers = [following for item, following in pairs if item.get("type") == "reasoning"]
    assert {item.get("role", "assistant") for item in followers} <= {"assistant"}
    assert "function_call_output" not in {item.get("type") for item in followers}


# --- a whole conversation ---------------------------------------------------------------------


async def test_a_request_after_an_answer_starts_with_the_one_before(server: Any) -> None:
    server.sends_json({**DONE, "output": OUTPUT})
    server.sends_json({**DONE, "output": [SAID]})
    provider = provider_at(server.url)
    history = list(HI)
    answer = await provider.complete(ProviderRequest(History(history)))
    history += [message_of(answer), *HISTORY[2:]]
    async with aclosing(provider.stream(ProviderRequest(History(history)))) as deltas:
        assert "".join([delta.text async for delta in deltas]) == "Let me look."
    await provider.aclose()
    first, second = (request.body for request in server.requests)
    start = first.index(b'],"model"')
    assert second[:start] == first[:start]
    assert json.loads(second)["input"][1:6] == without_status(OUTPUT)


@pytest.mark.covers("PRV-05")
async def test_one_conversation_goes_from_one_api_to_the_other_and_back(server: Any) -> None:
    server.sends_json({**DONE, "output": OUTPUT})
    server.sends_json({"choices": [{"message": {"content": "Two files."}, "finish_reason": "stop"}]})
    server.sends_json({**DONE, "output": [SAID]})
    history = list(HI)
    for number, api in enumerate(["responses", "chat", "responses"]):
        provider = provider_at(server.url, extra={"api": api})
        answer = await provider.complete(ProviderRequest(History(history)))
        await provider.aclose()
        history += [message_of(answer), *(HISTORY[2:] if answer.tool_calls else [])]
        history.append({"role": "user", "content": f"go on {number}"})
    sent = [request.json for request in server.requests]
    assert [item["role"] for item in sent[1]["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert [call["id"] for call in sent[1]["messages"][1]["tool_calls"]] == ["call_1", "call_2"]
    assert [item.get("type", item.get("role")) for item in sent[2]["input"]] == [
        *("user", "reasoning", "message", "function_call", "reasoning", "function_call"),
        *("function_call_output", "function_call_output", "user", "message", "user"),
    ]
