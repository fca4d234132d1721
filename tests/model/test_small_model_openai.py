"""The openai adapter, both its APIs, against a real llama.cpp server."""

from __future__ import annotations

from contextlib import aclosing

import pytest
import trio

from aar.messages.provider import History, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers.base import Assembly
from aar.providers.openai import OpenAIProvider
from tests.model.conftest import Served

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]  # seconds: a busy machine reads slowly

HI: list[NeutralMessage] = [{"role": "user", "content": "What is the capital of France?"}]
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolSchema("read_file", "Read a file.", PATH),)
CALL = {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "notes.txt"}}
RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": "the secret word is pineapple", "is_error": False}
TALK: list[NeutralMessage] = [
    {"role": "user", "content": "Read notes.txt and tell me the secret word"},
    {"role": "assistant", "content": [CALL]},
    {"role": "user", "content": [RESULT]},
]


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_real_server_takes_what_is_sent_and_what_it_answers_is_read(api: str, server: Served) -> None:
    url = f"{server.root}/v1"
    config = ProviderConfig(name="openai", model="m", base_url=url, api_key=server.api_key, max_tokens=24)
    config = config.model_copy(update={"extra": {"api": api, "supports_reasoning": True}})
    provider = OpenAIProvider(config, environ={})
    with trio.fail_after(600):
        assert len(await provider.models()) == 1
        for request in (ProviderRequest(History(HI)), ProviderRequest(History(TALK), "Be brief.", TOOLS)):
            whole = await provider.complete(request)
            assembly = Assembly()
            async with aclosing(provider.stream(request)) as deltas:
                async for delta in deltas:
                    assembly.add(delta)
            streamed = assembly.response()
            for answer in (whole, streamed):
                assert answer.content or answer.tool_calls
                assert answer.meta is not None
                assert answer.meta.usage["input_tokens"] > 5
                assert answer.meta.usage["output_tokens"] > 0
        await provider.aclose()
