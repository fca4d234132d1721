"""A session with Gemini: what the journal keeps of an answer is what the API gets to see again."""

from __future__ import annotations

from typing import Any

import pytest

from aar.messages.settings import AgentConfig, ProviderConfig
from aar.runtime import open_runtime
from aar.tools.registry import ToolRegistry

MODEL = "gemini-3-pro-preview"


def chunk(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, "finishReason": "STOP"}]}


async def weather(city: str) -> str:
    """The weather."""
    return f"sunny in {city}"


async def test_signed_calls_of_a_turn_are_sent_back_with_their_results(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    calls = [
        {"functionCall": {"id": "g1", "name": "weather", "args": {"city": "Rome"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "g2", "name": "weather", "args": {"city": "Oslo"}}},
    ]
    server.sends_chunks(chunk({"text": "Two cities", "thought": True}, *calls), done=False)
    server.sends_chunks(chunk(*calls), done=False)  # the same ids once more: the session gives the calls new ones
    server.sends_chunks(chunk({"text": "Sunny."}), done=False)
    tools = ToolRegistry()
    tools.register(description="The weather.")(weather)
    config = AgentConfig(provider=ProviderConfig(name="gemini", model=MODEL, api_key="AIza-key"), streaming=True)
    async with open_runtime(config, tools=tools) as runtime:
        session = await runtime.sessions.open("/")
        ended = await session.run("Weather?")
    assert ended.stop == "end_turn"
    answer = {"role": "model", "parts": calls}
    results = {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "g1", "name": "weather", "response": {"content": "sunny in Rome"}}},
            {"functionResponse": {"id": "g2", "name": "weather", "response": {"content": "sunny in Oslo"}}},
        ],
    }
    question = {"role": "user", "parts": [{"text": "Weather?"}]}
    assert [sent.json["contents"] for sent in server.requests] == [
        [question],
        [question, answer, results],
        [question, answer, results, answer, results],
    ]
