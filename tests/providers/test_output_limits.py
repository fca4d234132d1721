"""A limit that a request brings along is above all that the settings say: budgets are held to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aar.errors import ProviderError
from aar.messages.provider import History, ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.providers import open_provider
from aar.providers.anthropic_body import MessageBody, Shape
from aar.providers.base import Provider

KEY = "a-key-of-nobody"
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 10_000}}


def opened(name: str, extra: dict[str, Any], max_tokens: int = 4096) -> Provider:
    return open_provider(
        ProviderConfig(
            name=name, model="m", base_url="http://127.0.0.1:9", api_key=KEY, extra=extra, max_tokens=max_tokens
        )
    )


def asking(max_tokens: int | None) -> ProviderRequest:
    return ProviderRequest(History([{"role": "user", "content": "hi"}]), max_tokens=max_tokens)


def limits_in(body: dict[str, Any]) -> list[int]:
    """Each limit on the answer, wherever it stands."""
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "num_predict")
    inner = [body, body.get("generationConfig", {}), body.get("options", {})]
    return [found[name] for found in inner for name in names if name in found]


OWN_NAMES = [
    ("openai", {"max_completion_tokens": 20_000}),
    ("openai", {"max_tokens": 20_000, "max_completion_tokens": 20_000}),
    ("openai", {"api": "responses", "max_output_tokens": 20_000}),
    ("gemini", {"generation_config": {"maxOutputTokens": 20_000}}),
    ("ollama", {"num_predict": 20_000, "num_ctx": 4096}),
]


@pytest.mark.parametrize(("name", "extra"), OWN_NAMES, ids=str)
async def test_a_limit_under_the_vendors_own_name_counts_and_that_of_a_request_is_above_it(
    name: str, extra: dict[str, Any], server: Any
) -> None:
    server.sends_json({"error": {"message": "no"}}, status=400)
    provider = opened(name, extra)
    assert provider.output_limit == 20_000
    provider = open_provider(provider.config.model_copy(update={"base_url": server.url}))
    for limit in (None, 1000):
        with pytest.raises(ProviderError):
            await provider.complete(asking(limit))
    await provider.aclose()
    bodies = [request.json for request in server.requests]
    assert {limit for body in bodies[:1] for limit in limits_in(body)} == {20_000}
    assert {limit for body in bodies[1:] for limit in limits_in(body)} == {1000}


@pytest.mark.parametrize("unlimited", [-1, -2, "many"])
def test_a_setting_that_is_no_number_of_tokens_is_no_limit(unlimited: Any) -> None:
    assert opened("ollama", {"num_predict": unlimited, "num_ctx": 4096}).output_limit == 0


@pytest.mark.parametrize("name", ["generic", "openai", "ollama", "gemini", "anthropic"])
def test_without_one_it_is_the_limit_of_the_settings(name: str) -> None:
    assert opened(name, {}, max_tokens=123).output_limit == 123


@pytest.mark.parametrize(
    ("max_tokens", "asked", "sent", "thinks"),
    [
        (4096, None, 14_096, 10_000),
        (20_000, None, 20_000, 10_000),
        (4096, 12_000, 12_000, 10_000),
        (4096, 8000, 8000, 4000),
        (4096, 1500, 1500, None),
    ],
)
def test_thinking_is_made_shorter_where_a_request_leaves_no_room_for_it(
    max_tokens: int, asked: int | None, sent: int, thinks: int | None
) -> None:
    config = ProviderConfig(name="anthropic", model="m", max_tokens=max_tokens, extra=THINKING)
    body = MessageBody(config, has_tools=True)
    found = json.loads(body.encode(asking(asked), Shape()))
    assert found["max_tokens"] == sent
    assert found.get("thinking", {}).get("budget_tokens") == thinks
    assert opened("anthropic", THINKING, max_tokens).output_limit == max(max_tokens, 14_096)


async def test_a_provider_of_ones_own_has_the_limit_of_its_settings() -> None:
    class Plain(Provider):
        async def complete(self, request: ProviderRequest) -> ProviderResponse:
            return ProviderResponse(content="hi")

    assert Plain(ProviderConfig(max_tokens=7)).output_limit == 7
