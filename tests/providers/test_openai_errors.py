"""What the openai adapter says when something goes wrong: one sentence, of the right kind, without the key."""

from __future__ import annotations

import socket
from contextlib import aclosing
from typing import Any

import pytest

from aar.errors import (
    BadProviderReply,
    ContentRefused,
    ContextTooLong,
    ProviderError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.provider import History, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.providers.openai import OpenAIProvider

ANSWER = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}


def asking() -> ProviderRequest:
    return ProviderRequest(History([{"role": "user", "content": "hi"}]))


def provider_at(url: str, **extra: Any) -> OpenAIProvider:
    config = ProviderConfig(name="openai", model="m", base_url=url, api_key="sk-test-key", extra=extra)
    return OpenAIProvider(config, environ={})


async def completed(provider: OpenAIProvider) -> Any:
    try:
        return await provider.complete(asking())
    finally:
        await provider.aclose()


async def streamed(provider: OpenAIProvider) -> list[Any]:
    try:
        async with aclosing(provider.stream(asking())) as deltas:
            return [delta async for delta in deltas]
    finally:
        await provider.aclose()


async def asked(provider: OpenAIProvider, *, streaming: bool) -> Any:
    return await (streamed if streaming else completed)(provider)


@pytest.mark.covers("PRV-09", "PRV-11")
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (400, ProviderError, "returned HTTP 400: it says so"),
        (
            401,
            ProviderUnauthorized,
            "refused the key (HTTP 401): it says so (check OPENAI_API_KEY or provider.api_key)",
        ),
        (408, ProviderTimeout, "returned HTTP 408: it says so"),
        (429, ProviderRateLimited, "rate limit exceeded (HTTP 429): it says so"),
        (500, ProviderUnavailable, "returned HTTP 500: it says so"),
        (503, ProviderUnavailable, "returned HTTP 503: it says so"),
        (529, ProviderUnavailable, "returned HTTP 529: it says so"),
    ],
)
async def test_a_status_becomes_a_typed_error_and_is_not_tried_again_here(
    status: int, kind: type[ProviderError], text: str, streaming: bool, api: str, server: Any
) -> None:
    server.sends_json({"error": {"message": "it says so"}}, status, retry_after="7")
    with pytest.raises(kind) as caught:
        await asked(provider_at(server.url, api=api), streaming=streaming)
    error = caught.value
    assert (type(error), str(error), error.status, error.provider) == (kind, f"OpenAI {text}", status, "openai")
    assert error.retry_after == (7.0 if error.retryable else None)
    assert error.retryable is (status in (408, 429) or status >= 500)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "error", "kind", "text"),
    [
        (
            404,
            {"message": "The model `gpt-9` does not exist or you do not have access to it.", "code": "model_not_found"},
            ProviderError,
            "OpenAI returned HTTP 404: The model `gpt-9` does not exist or you do not have access to it. "
            "(check provider.model, 'm')",
        ),
        (
            404,
            {"message": "Invalid URL (POST /chat/completions)"},
            ProviderError,
            "OpenAI returned HTTP 404: Invalid URL (POST /chat/completions) (check provider.base_url, {url})",
        ),
        (
            401,
            {"message": "Incorrect API key provided: sk-te***-key. You can find your API key elsewhere."},
            ProviderUnauthorized,
            "OpenAI refused the key (HTTP 401): Incorrect API key provided: [redacted]. You can find your API key "
            "elsewhere. (check OPENAI_API_KEY or provider.api_key)",
        ),
        (
            400,
            {
                "message": "This model's maximum context length is 128000 tokens.",
                "code": "context_length_exceeded",
            },
            ContextTooLong,
            "OpenAI context limit exceeded (HTTP 400): This model's maximum context length is 128000 tokens.",
        ),
        (
            400,
            {"message": "The response was filtered due to the prompt.", "code": "content_filter"},
            ContentRefused,
            "OpenAI refused the content (HTTP 400): The response was filtered due to the prompt.",
        ),
    ],
)
async def test_known_troubles_are_one_sentence_that_says_what_to_look_at(
    status: int, error: dict[str, Any], kind: type[ProviderError], text: str, server: Any
) -> None:
    server.sends_json({"error": error}, status)
    with pytest.raises(ProviderError) as caught:
        await completed(provider_at(server.url))
    assert (type(caught.value), str(caught.value)) == (kind, text.replace("{url}", server.url))
    assert not caught.value.retryable


async def test_an_account_without_credit_is_not_tried_again(server: Any) -> None:
    told = {"message": "You exceeded your current quota.", "code": "insufficient_quota"}
    server.sends_json({"error": told}, 429, retry_after="1")
    with pytest.raises(ProviderRateLimited, match="current quota") as caught:
        await completed(provider_at(server.url))
    assert not caught.value.retryable


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_web_page_is_no_answer(streaming: bool, server: Any) -> None:
    server.sends(b"<!doctype html><title>Log in</title>", 200, "text/html; charset=utf-8")
    server.sends(b"<html><h1>Nothing here</h1></html>", 404, "text/html")
    provider = provider_at(server.url + "/page")
    for text in (
        f"{server.url}/page answered with something that is no JSON: a web page instead of an answer (Log in) "
        "(check provider.base_url)",
        "OpenAI returned HTTP 404: a web page instead of an answer (Nothing here) "
        f"(check provider.base_url, {server.url}/page)",
    ):
        with pytest.raises(ProviderError) as caught:
            await asked(provider, streaming=streaming)
        assert str(caught.value) == text


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b'"x"', b"{}", b'{"choices":[]}', b"[" * 50_000], ids=lambda body: body[:9]
)
async def test_json_that_is_no_answer_is_a_bad_reply(body: bytes, server: Any) -> None:
    server.sends_json(body)
    with pytest.raises(BadProviderReply) as caught:
        await completed(provider_at(server.url))
    assert caught.value.provider == "openai"


async def test_a_redirect_is_not_followed_and_says_where_it_goes(server: Any) -> None:
    server.sends(b"", 307, "text/plain", location="https://elsewhere/v1")
    with pytest.raises(ProviderError) as caught:
        await completed(provider_at(server.url))
    assert str(caught.value) == "OpenAI returned HTTP 307: redirected to https://elsewhere/v1: use that URL as base_url"


async def test_nobody_listening_is_a_network_error_with_the_address() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        with pytest.raises(ProviderUnavailable, match=r"^OpenAI network error: ") as caught:
            await completed(provider_at(url))
    assert str(caught.value).endswith(f"({url})")
    assert caught.value.retryable


async def test_a_key_never_stands_in_an_error(server: Any) -> None:
    for status in (400, 401, 500):
        server.sends_json({"error": {"message": "your key is sk-test-key and x-value-1"}}, status)
    provider = provider_at(server.url, extra_headers={"x-a": "x-value-1"})
    for _ in range(3):
        with pytest.raises(ProviderError) as caught:
            await provider.complete(asking())
        assert "your key is [redacted] and [redacted]" in str(caught.value)
    await provider.aclose()
