"""How the openai adapter reads answers of chat completions: recorded ones, odd ones, broken ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aar.messages.settings import ProviderConfig
from aar.providers.openai import OpenAIProvider
from tests.providers.streaming import REQUEST, answered

SMOL, GEMMA = "smollm2-135m", "gemma-3-270m-q4_k_m"


def provider_at(url: str, **extra: Any) -> OpenAIProvider:
    config = ProviderConfig(name="openai", model="gpt-5", base_url=url, api_key="sk-test-key", extra=extra)
    return OpenAIProvider(config, environ={})


@pytest.fixture
async def chat(server: Any) -> AsyncIterator[OpenAIProvider]:
    found = provider_at(server.url)
    yield found
    await found.aclose()


@pytest.fixture
async def thinker(server: Any) -> AsyncIterator[OpenAIProvider]:
    found = provider_at(server.url, supports_reasoning=True)
    yield found
    await found.aclose()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "model": "gpt-5-x",
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
    } | more


@pytest.mark.covers("OAI-04")
async def test_usage_that_trails_the_answer_lands_in_its_meta(server: Any, chat: OpenAIProvider, plain: Any) -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 5, "total_tokens": 95}
    usage |= {"prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 16}}
    server.sends_chunks(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "he"}),
        chunk({"content": "llo"}),
        chunk(finish="stop"),
        {"id": "c1", "model": "gpt-5-x", "choices": [], "usage": usage},
    )
    counted = {"input_tokens": 90, "output_tokens": 5, "total_tokens": 95}
    counted |= {"cache_read_tokens": 64, "cache_write_tokens": 16}
    meta = ("openai", "gpt-5-x", "c1", counted)
    assert await answered(chat, plain) == ("hello", [], "end_turn", [], meta)


def fragment(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    name = {"name": more.pop("name")} if "name" in more else {}
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments, **name}, **more}]})


@pytest.mark.covers("OAI-05")
async def test_two_calls_whose_pieces_come_in_turns_are_put_together(
    server: Any, chat: OpenAIProvider, plain: Any
) -> None:
    server.sends_chunks(
        fragment(0, "", id="call_a", name="read_file", type="function"),
        fragment(1, "", id="call_b", name="ls", type="function"),
        fragment(0, '{"path"'),
        fragment(1, '{"all":'),
        fragment(0, ': "a"}'),
        fragment(1, "true}"),
        chunk(finish="tool_calls"),
    )
    calls = [("call_a", "read_file", {"path": "a"}), ("call_b", "ls", {"all": True})]
    assert (await answered(chat, plain))[:3] == ("", calls, "tool_use")


@pytest.mark.covers("OAI-06")
@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "first\nsecond"},
        {"reasoning_details": [{"summary": "first"}, {"text": "second"}]},
        {"reasoning_details": [{"summary": "first", "text": "x"}, {"text": "second"}], "reasoning_content": None},
    ],
)
@pytest.mark.parametrize("streaming", [True, False])
async def test_thoughts_come_from_the_fields_that_hosts_use(
    fields: dict[str, Any], streaming: bool, server: Any, thinker: OpenAIProvider, plain: Any
) -> None:
    if streaming:
        server.sends_chunks(chunk(fields), chunk({"content": "said"}), chunk(finish="stop"))
        text, _, _, thoughts, _ = await answered(thinker, plain)
        thoughts = [(content.replace("firstsecond", "first\nsecond"), data) for content, data in thoughts]
    else:
        server.sends_json({"choices": [{"message": {"content": "said", **fields}, "finish_reason": "stop"}]})
        text, _, _, thoughts, _ = plain(await thinker.complete(REQUEST))
    assert (text, thoughts) == ("said", [("first\nsecond", {"provider": "openai"})])


@pytest.mark.covers("OAI-07")
@pytest.mark.parametrize("streaming", [True, False])
async def test_tags_are_thoughts_when_the_model_is_said_to_reason_and_text_otherwise(
    streaming: bool, server: Any, thinker: OpenAIProvider, chat: OpenAIProvider, plain: Any
) -> None:
    pieces = ["<thi", "nk>hm</thi", "nk>said"]
    whole = {"choices": [{"message": {"content": "".join(pieces)}, "finish_reason": "stop"}]}
    for _ in range(2):
        if streaming:
            server.sends_chunks(*(chunk({"content": piece}) for piece in pieces), chunk(finish="stop"))
        else:
            server.sends_json(whole)
    found = []
    for provider in (thinker, chat):
        answer = await answered(provider, plain) if streaming else plain(await provider.complete(REQUEST))
        found.append((answer[0], answer[3]))
    assert found == [("said", [("hm", {"provider": "openai"})]), ("<think>hm</think>said", [])]


@pytest.mark.covers("OAI-08")
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end_turn"), ("tool_calls", "tool_use"), ("length", "max_tokens"), ("content_filter", "error")],
)
async def test_finish_reasons_are_mapped(
    finish: str, stop: str, streaming: bool, server: Any, chat: OpenAIProvider, plain: Any
) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{}"}}
    said = {"content": "x"} | ({"tool_calls": [call]} if finish == "tool_calls" else {})
    if streaming:
        server.sends_chunks(chunk(said), chunk(finish=finish))
        answer = await answered(chat, plain)
    else:
        server.sends_json({"choices": [{"message": said, "finish_reason": finish}]})
        answer = plain(await chat.complete(REQUEST))
    assert answer[2] == stop


@pytest.mark.covers("AURA-52")
async def test_a_recorded_chat_is_read_as_the_generic_adapter_reads_it(
    server: Any, chat: OpenAIProvider, plain: Any
) -> None:
    server.sends_recorded("chat-tool-call.sse")
    usage = {"input_tokens": 937, "output_tokens": 33, "total_tokens": 970, "cache_read_tokens": 1}
    assert await answered(chat, plain) == (
        "",
        [("Dx5BTaf76suSQSNDPovOSlkWU13Y4eiw", "read_file", {"path": "notes.txt"})],
        "tool_use",
        [],
        ("openai", SMOL, "chatcmpl-iJ0hd4YKGSwbKW1OehedZAEbRqdeK0Kf", usage),
    )
