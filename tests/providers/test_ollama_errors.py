"""What the Ollama adapter makes of a server that fails, refuses, or is none."""

from __future__ import annotations

import socket
from contextlib import aclosing
from typing import Any

import pytest
import trio

from aar.errors import (
    BadProviderReply,
    ContextTooLong,
    ProviderError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.provider import History, NeutralMessage, ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.providers.base import explain
from aar.providers.ollama import OllamaProvider
from aar.providers.ollama_errors import not_running

HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
ANSWER = {"model": "qwen3", "message": {"role": "assistant", "content": "hello"}, "done": True, "done_reason": "stop"}
FIXED = {"num_ctx": None}  # the server's own window: nothing is asked before the request itself


def asking() -> ProviderRequest:
    return ProviderRequest(History(list(HI)))


def provider_at(url: str, extra: dict[str, Any] = FIXED, **config: Any) -> OllamaProvider:
    settings = {"name": "ollama", "model": "qwen3", "base_url": url, "extra": extra, **config}
    return OllamaProvider(ProviderConfig(**settings), environ={})


async def completed(provider: OllamaProvider) -> ProviderResponse:
    try:
        return await provider.complete(asking())
    finally:
        await provider.aclose()


async def asked(provider: OllamaProvider, *, streaming: bool) -> Any:
    """The answer, or the deltas of it."""
    if not streaming:
        return await completed(provider)
    try:
        async with aclosing(provider.stream(asking())) as deltas:
            return [delta async for delta in deltas]
    finally:
        await provider.aclose()


def refuses(server: Any, text: str, status: int = 400) -> None:
    server.sends_json({"error": text}, status)


@pytest.mark.covers("OLL-11", "PRV-09", "PRV-11")
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("status", "kind", "text", "retryable"),
    [
        (400, ProviderError, "returned HTTP 400: {}", False),
        (401, ProviderUnauthorized, "refused the key (HTTP 401): {}", False),
        (408, ProviderTimeout, "returned HTTP 408: {}", True),
        (429, ProviderRateLimited, "rate limit exceeded (HTTP 429): {}", True),
        (500, ProviderUnavailable, "returned HTTP 500: {}", True),
        (503, ProviderUnavailable, "returned HTTP 503: {}", True),
        (529, ProviderUnavailable, "returned HTTP 529: {}", True),
    ],
)
async def test_a_status_becomes_a_typed_error_with_four_hundred_characters_of_its_text(
    status: int, kind: type[ProviderError], text: str, retryable: bool, streaming: bool, server: Any
) -> None:
    server.sends_json({"error": "it says so" * 50}, status, retry_after="7")
    with pytest.raises(kind) as caught:
        await asked(provider_at(server.url), streaming=streaming)
    error = caught.value
    said = ("it says so" * 50)[:400]
    assert (type(error), str(error), error.status, error.provider) == (
        kind,
        f"Ollama {text}".format(said),
        status,
        "ollama",
    )
    assert (error.retryable, error.retry_after) == (retryable, 7.0 if retryable else None)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (
            404,
            {"error": "model 'qwen3' not found"},
            "Ollama has no model 'qwen3': get it with `ollama pull qwen3`, or see `ollama list`.",
        ),
        (
            404,
            {"error": 'model "qwen3" not found, try pulling it first'},
            "Ollama has no model 'qwen3': get it with `ollama pull qwen3`, or see `ollama list`.",
        ),
        (
            404,
            b"404 page not found",
            "{} does not answer like Ollama (HTTP 404: 404 page not found): check provider.base_url.",
        ),
        (
            502,
            b"<html><title>Bad Gateway</title></html>",
            "{} does not answer like Ollama (HTTP 502: a web page instead of an answer (Bad Gateway)): "
            "check provider.base_url.",
        ),
    ],
)
async def test_an_unknown_model_and_another_kind_of_server_have_their_sentence(
    status: int, body: Any, text: str, server: Any
) -> None:
    server.sends_json(body, status)
    with pytest.raises(ProviderError) as caught:
        await completed(provider_at(server.url))
    expected = text.format(server.url)
    assert (str(caught.value), explain(caught.value), caught.value.status) == (expected, expected, status)


async def test_a_model_too_big_for_the_machine_is_not_tried_again(server: Any) -> None:
    refuses(server, "model requires more system memory (44.0 GiB) than is available (7.6 GiB)", 500)
    with pytest.raises(ProviderUnavailable) as caught:
        await completed(provider_at(server.url))
    assert not caught.value.retryable
    assert explain(caught.value) == (
        "model requires more system memory (44.0 GiB) than is available (7.6 GiB): "
        "choose a smaller model, or a smaller window with provider.context_window."
    )


async def test_a_model_in_the_cloud_asks_to_sign_in(server: Any) -> None:
    refuses(server, "unauthorized", 401)
    with pytest.raises(ProviderUnauthorized) as caught:
        await completed(provider_at(server.url))
    assert explain(caught.value) == (
        f"Ollama at {server.url} refused the request: for its cloud models run `ollama signin`, else set "
        "provider.api_key."
    )


async def test_a_prompt_that_the_server_will_not_cut_is_too_long(server: Any) -> None:
    refuses(server, "the input length exceeds the context length")
    with pytest.raises(ContextTooLong):
        await completed(provider_at(server.url))


@pytest.mark.parametrize("streaming", [True, False])
async def test_nobody_listening_says_how_to_start_it(streaming: bool) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(ProviderUnavailable) as caught:
            await asked(provider_at(url, extra={}), streaming=streaming)
    text = f"Ollama is not running at {url}: start it with `ollama serve`."
    assert (str(caught.value), explain(caught.value), caught.value.retryable) == (text, text, True)


def test_a_server_elsewhere_that_cannot_be_reached_is_named() -> None:
    error = not_running("http://far.example", "no route", is_here=False)
    text = "No Ollama can be reached at http://far.example (no route): check provider.base_url, and that it runs there."
    assert (str(error), explain(error), error.retryable) == (text, text, True)


async def test_the_password_of_an_address_is_in_no_error() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(ProviderUnavailable) as caught:
            await completed(provider_at(f"http://me:word@127.0.0.1:{held.getsockname()[1]}"))
    assert "word" not in str(caught.value) + explain(caught.value)


async def test_connecting_gives_up_after_ten_seconds(autojump_clock: trio.testing.MockClock) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.socket() as waiting:
            waiting.connect(full.getsockname())  # the queue is full now: further connections get no answer
            url = f"http://127.0.0.1:{full.getsockname()[1]}"
            with pytest.raises(ProviderTimeout) as caught:
                await completed(provider_at(url))
    assert str(caught.value) == f"Ollama request timed out after 10s: no connection to {url}"


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_web_page_is_no_answer(streaming: bool, server: Any) -> None:
    server.sends(b"<!doctype html><title>Log in</title>", 200, "text/html; charset=utf-8")
    with pytest.raises(BadProviderReply) as caught:
        await asked(provider_at(server.url), streaming=streaming)
    assert str(caught.value) == (
        f"{server.url} answered with something that is no JSON: a web page instead of an answer (Log in) "
        "(check provider.base_url)"
    )


@pytest.mark.parametrize("body", [b'{"model":', b"[]", b"{}", b'{"message":3}', b'{"message":{"tool_calls":[3]}}'])
async def test_a_whole_answer_of_another_shape_is_a_bad_reply(body: bytes, server: Any) -> None:
    server.sends_json(body)
    with pytest.raises(BadProviderReply):
        await completed(provider_at(server.url))


async def test_an_error_in_a_whole_answer_is_raised(server: Any) -> None:
    server.sends_json({"error": "llama runner process has terminated"})
    with pytest.raises(ProviderUnavailable, match=r"^Ollama reported an error: llama runner process has terminated$"):
        await completed(provider_at(server.url))


async def test_a_redirect_is_not_followed_and_says_where_it_goes(server: Any) -> None:
    server.sends(b"", 307, "text/plain", location="https://elsewhere")
    with pytest.raises(ProviderError, match="redirected to https://elsewhere: use that URL as base_url"):
        await completed(provider_at(server.url))


async def test_without_a_model_the_error_says_what_to_set() -> None:
    with pytest.raises(ProviderError, match=r"^No model is named: set provider\.model"):
        await completed(provider_at("", model=""))


@pytest.mark.parametrize("kind", ["status", "answer", "text"])
async def test_no_error_repeats_the_key_or_a_header(kind: str, server: Any) -> None:
    said = "you sent Bearer my-own-key and header-value"
    if kind == "text":
        server.sends_json(said.encode())
    else:
        server.sends_json({"error": said}, status=404 if kind == "status" else 200)
    extra = {**FIXED, "extra_headers": {"X-A": "header-value"}}
    with pytest.raises(ProviderError, match="you sent") as caught:
        await completed(provider_at(server.url, api_key="my-own-key", extra=extra))
    shown = str(caught.value) + explain(caught.value)
    assert ("my-own-key" in shown, "header-value" in shown) == (False, False)
