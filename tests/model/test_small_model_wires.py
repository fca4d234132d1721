"""The formats of three vendors, spoken by a real llama.cpp server: its own reading of them, not ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
import trio

from aar.messages.provider import History, NeutralMessage, ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers import open_provider
from aar.providers.base import Assembly, Provider
from tests.model.conftest import Served

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]  # seconds: a busy machine reads slowly

HI: list[NeutralMessage] = [{"role": "user", "content": "What is the capital of France?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (ToolSchema("weather", "The weather in a city.", CITY),)

# How the server is spoken to, where, and how it is made to call a tool; generic sends no such wish.
WIRES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "chat completions": ("openai", "/v1", {}, {"tool_choice": "required", "temperature": 0}),
    "chat completions, generic": ("generic", "/v1", {}, {}),
    "responses": ("openai", "/v1", {"api": "responses"}, {"tool_choice": "required", "temperature": 0}),
    "messages": ("anthropic", "", {"cache": False}, {"tool_choice": {"type": "any"}, "temperature": 0}),
}


@asynccontextmanager
async def open_wire(
    server: Served, wire: str, *, forced: bool = False, max_tokens: int = 24
) -> AsyncIterator[Provider]:
    name, path, extra, wish = WIRES[wire]
    config = ProviderConfig(name=name, model="m", base_url=server.root + path, api_key=server.api_key)
    settings = {"max_tokens": max_tokens, "extra": extra | (wish if forced else {})}
    provider = open_provider(config.model_copy(update=settings))
    with trio.fail_after(600):
        yield provider
    await provider.aclose()


async def streamed(provider: Provider, request: ProviderRequest) -> tuple[ProviderResponse, int]:
    """The answer, and in how many pieces its text came."""
    assembly, pieces = Assembly(), 0
    async with aclosing(provider.stream(request)) as deltas:
        async for delta in deltas:
            assembly.add(delta)
            pieces += bool(delta.text)
    return assembly.response(), pieces


@pytest.mark.parametrize("wire", WIRES)
async def test_a_text_comes_whole_and_in_pieces_and_a_cancelled_one_holds_nothing_up(wire: str, server: Served) -> None:
    async with open_wire(server, wire, max_tokens=400) as provider:
        first, pieces = await streamed(provider, ProviderRequest(History(HI), max_tokens=24))
        whole = await provider.complete(ProviderRequest(History(HI), max_tokens=24))
        assert pieces > 3
        for answer in (first, whole):
            assert answer.content
            assert answer.tool_calls == ()
            assert answer.meta is not None
            usage = answer.meta.usage
            # In Anthropic's format, what was read from the cache is not among the input.
            assert usage["input_tokens"] + usage.get("cache_read_tokens", 0) > 5
            assert 0 < usage["output_tokens"] <= 24
        story = ProviderRequest(History([{"role": "user", "content": "Tell me a long story about a king."}]))
        async with aclosing(provider.stream(story)) as deltas:
            async for delta in deltas:
                if delta.text:
                    break
        with trio.fail_after(60):  # the server has one slot: it must be free again
            again, _ = await streamed(provider, ProviderRequest(History(HI), max_tokens=8))
        assert again.content


@pytest.mark.parametrize("wire", [wire for wire in WIRES if WIRES[wire][3]])
async def test_a_call_is_read_and_its_result_goes_back(wire: str, server: Served) -> None:
    question: NeutralMessage = {"role": "user", "content": "What is the weather in Paris?"}
    async with open_wire(server, wire, forced=True, max_tokens=96) as provider:
        asked = ProviderRequest(History([question]), "Be brief.", TOOLS)
        answers = [(await streamed(provider, asked))[0], await provider.complete(asked)]
        for answer in answers:
            assert answer.stop_reason == "tool_use"
            [call] = answer.tool_calls
            assert (call.tool_name, list(call.arguments)) == ("weather", ["city"])
            assert call.tool_call_id
    use = {"type": "tool_use", "id": call.tool_call_id, "name": call.tool_name, "input": call.arguments}
    result = {"type": "tool_result", "tool_use_id": call.tool_call_id, "content": "sunny", "is_error": False}
    talk: list[NeutralMessage] = [
        question,
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
        {"role": "user", "content": [result]},
        {"role": "user", "content": "So?"},
    ]
    async with open_wire(server, wire) as provider:
        after, _ = await streamed(provider, ProviderRequest(History(talk), "Be brief.", TOOLS))
        assert after.content or after.tool_calls
