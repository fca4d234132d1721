"""What can go wrong with Gemini, and its connections, through the vendor's client and by HTTP."""

from __future__ import annotations

import json
import socket
from contextlib import aclosing
from typing import Any

import pytest
import trio

import aar.actors.provider_call as provider_calls
from aar.errors import (
    AnswerCut,
    BadProviderReply,
    ContentRefused,
    ContextTooLong,
    ProviderError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.events import Notice
from aar.messages.provider import History, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.providers.failures import explain
from aar.providers.gemini import GeminiProvider
from aar.providers.http import HttpPool
from aar.providers.sdk import load

KEY = "AIza-secret-key"
MODEL = "gemini-2.5-flash"
HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
WHOLE = {
    "candidates": [{"content": {"parts": [{"text": "hello"}], "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4},
    "modelVersion": "gemini-2.5-flash-001",
    "responseId": "r1",
}
CHUNKS = (
    {"candidates": [{"content": {"parts": [{"text": "hel"}], "role": "model"}}], "responseId": "r1"},
    {"candidates": [{"content": {"parts": [{"text": "lo"}], "role": "model"}, "finishReason": "STOP"}]},
)

MODES = ("sdk", "http")
both_modes = pytest.mark.parametrize("mode", MODES)


def error(code: int, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


def provider_at(
    url: str, mode: str = "http", *, extra: dict[str, Any] | None = None, pool: HttpPool | None = None, **config: Any
) -> GeminiProvider:
    config = {"name": "gemini", "model": MODEL, "api_key": KEY, **config}
    if mode == "sdk":
        return GeminiProvider(
            ProviderConfig(extra=extra or {}, **config), environ={"GOOGLE_GEMINI_BASE_URL": url}, pool=pool
        )
    base = f"{url}/v1beta/models/{config['model']}"
    return GeminiProvider(ProviderConfig(base_url=base, extra=extra or {}, **config), environ={}, pool=pool)


def asking() -> ProviderRequest:
    return ProviderRequest(History(list(HI)))


async def asked(provider: GeminiProvider, *, streaming: bool, request: ProviderRequest | None = None) -> Any:
    """The answer, or the deltas of it."""
    if not streaming:
        return await provider.complete(request or asking())
    async with aclosing(provider.stream(request or asking())) as deltas:
        return [delta async for delta in deltas]


async def failed(provider: GeminiProvider, kind: type[ProviderError], *, streaming: bool) -> ProviderError:
    with pytest.raises(kind) as caught:
        await asked(provider, streaming=streaming)
    await provider.aclose()
    assert type(caught.value) is kind
    assert KEY not in str(caught.value)
    assert caught.value.provider == "gemini"
    return caught.value


# --- what goes wrong ------------------------------------------------------------------------------

CHECK_KEY = "(check GEMINI_API_KEY or provider.api_key)"
CHECK_MODEL = "(check provider.model and provider.base_url)"
PAGE = b"<html><title>404 Not Found</title></html>"
WRONG_KEY = error(400, "API key not valid. Please pass a valid API key.", details=[{"reason": "API_KEY_INVALID"}])
TOO_LONG = error(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")


@both_modes
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.covers("GEM-13", "PRV-09")
@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (
            401,
            error(401, "No key"),
            ProviderUnauthorized,
            f"Gemini refused the key (HTTP 401): No key {CHECK_KEY}",
        ),
        (
            403,
            error(403, "Denied"),
            ProviderUnauthorized,
            f"Gemini refused the key (HTTP 403): Denied {CHECK_KEY}",
        ),
        (
            400,
            WRONG_KEY,
            ProviderUnauthorized,
            f"Gemini refused the key (HTTP 400): API key not valid. Please pass a valid API key. {CHECK_KEY}",
        ),
        (
            404,
            error(404, "models/m is not found"),
            ProviderError,
            f"Gemini returned HTTP 404: models/m is not found {CHECK_MODEL}",
        ),
        (
            404,
            PAGE,
            ProviderError,
            f"Gemini returned HTTP 404: a web page instead of an answer (404 Not Found) {CHECK_MODEL}",
        ),
        (400, TOO_LONG, ContextTooLong, f"Gemini context limit exceeded (HTTP 400): {TOO_LONG['error']['message']}"),
        (400, error(400, "Bad"), ProviderError, "Gemini returned HTTP 400: Bad"),
        (400, [error(400, "In a list")], ProviderError, "Gemini returned HTTP 400: In a list"),
        (408, b"", ProviderTimeout, "Gemini returned HTTP 408"),
        (429, error(429, "Quota"), ProviderRateLimited, "Gemini rate limit exceeded (HTTP 429): Quota"),
        (500, error(500, "Internal"), ProviderUnavailable, "Gemini returned HTTP 500: Internal"),
        (503, error(503, "Overloaded"), ProviderUnavailable, "Gemini returned HTTP 503: Overloaded"),
        (529, b"busy", ProviderUnavailable, "Gemini returned HTTP 529: busy"),
        (500, b"\xff\xfe", ProviderUnavailable, "Gemini returned HTTP 500: \ufffd\ufffd"),
        (500, b'"text"', ProviderUnavailable, 'Gemini returned HTTP 500: "text"'),
    ],
)
async def test_each_status_is_an_error_of_its_kind(
    server: Any, mode: str, streaming: bool, status: int, body: Any, kind: type[ProviderError], text: str
) -> None:
    server.sends_json(body, status)
    found = await failed(provider_at(server.url, mode), kind, streaming=streaming)
    assert str(found) == text
    assert found.status == status
    assert len(server.requests) == 1  # nobody but the caller tries again


@both_modes
@pytest.mark.covers("PRV-11")
async def test_the_server_says_when_to_come_back(server: Any, mode: str) -> None:
    server.sends_json(error(429, "Slow"), 429, retry_after="7")
    server.sends_json(error(429, "Slow", details=[{"@type": "RetryInfo", "retryDelay": "12.5s"}]), 429)
    for wanted in (7.0, 12.5):
        found = await failed(provider_at(server.url, mode), ProviderRateLimited, streaming=True)
        assert found.retry_after == wanted


@both_modes
@pytest.mark.covers("PRV-09", "PRV-11")
async def test_too_many_requests_are_tried_again_when_the_server_allows(
    server: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_calls.random, "uniform", lambda low, high: 0.0)
    server.sends_json(error(429, "Slow"), 429, retry_after_ms="20")
    server.sends_json(WHOLE)
    provider = provider_at(server.url, mode)
    policy = provider_calls.RetryPolicy(2, trio.Event())
    async with provider_calls.provider_call(provider, asking(), policy, streaming=False) as items:
        seen = [item async for item in items]
    await provider.aclose()
    [notice] = [item for item in seen if isinstance(item, Notice)]
    assert notice.data == {"attempt": 1, "delay": 0.02}
    assert seen[-1].content == "hello"


@both_modes
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"<html><title>Sign in</title></html>", "text/html", "no JSON: a web page instead of an answer"),
        (b"hello", "application/json", "no JSON: hello|in the middle of the answer"),
        (b"[1]", "application/json", "unexpected shape"),
        (b"null", "application/json", "unexpected shape|no JSON|in the middle"),
    ],
)
async def test_what_is_no_answer_is_said_in_one_sentence(
    server: Any, mode: str, streaming: bool, body: bytes, kind: str, words: str
) -> None:
    server.sends(body, 200, kind)
    provider = provider_at(server.url, mode)
    with pytest.raises((BadProviderReply, AnswerCut), match=words):
        await asked(provider, streaming=streaming)
    await provider.aclose()


async def test_an_answer_without_candidates_shows_what_came(server: Any) -> None:
    server.sends_json({"usageMetadata": {}, "odd": "x" * 500})
    found = await failed(provider_at(server.url), BadProviderReply, streaming=False)
    assert str(found).startswith('Gemini gave no candidates: {"usageMetadata": {}, "odd": "xxx')
    assert len(str(found)) == 27 + 400


@both_modes
async def test_a_refused_prompt_is_said_in_one_sentence(server: Any, mode: str) -> None:
    server.sends_json({"promptFeedback": {"blockReason": "SAFETY"}})
    for streaming in (False, True):
        found = await failed(provider_at(server.url, mode), ContentRefused, streaming=streaming)
        assert explain(found) == "Gemini refused the prompt (SAFETY): change what you ask for, or take another model"


@both_modes
async def test_a_connection_that_ends_in_the_middle_is_a_cut_that_may_be_tried_again(server: Any, mode: str) -> None:
    async def cut(connection: Any) -> None:
        await connection.begin()
        await connection.send(b"data: " + json.dumps(CHUNKS[0]).encode() + b"\n\n")
        await connection.close()

    server.plays(cut)
    server.sends_chunks(CHUNKS[0], done=False)
    for words in ("network error", "the stream ended in the middle of the answer"):
        found = await failed(provider_at(server.url, mode), AnswerCut, streaming=True)
        assert found.retryable
        assert words in str(found)


@both_modes
@pytest.mark.parametrize("is_started", [False, True])
async def test_cancelling_closes_the_connection_at_once(
    server: Any, mode: str, is_started: bool, nursery: trio.Nursery
) -> None:
    asked_for, left = trio.Event(), trio.Event()

    async def silent(connection: Any) -> None:
        if is_started:
            await connection.begin()
            await connection.send(b"data: " + json.dumps(CHUNKS[0]).encode() + b"\n\n")
        asked_for.set()
        await connection.client_leaves()
        left.set()

    server.plays(silent)
    provider = provider_at(server.url, mode)
    scope = trio.CancelScope()

    async def ask() -> None:
        with scope:
            await asked(provider, streaming=True)

    nursery.start_soon(ask)
    await asked_for.wait()
    scope.cancel()
    with trio.fail_after(5):
        await left.wait()
    await provider.aclose()


@both_modes
async def test_cancelling_while_the_body_of_an_error_comes_leaves_nothing_open(server: Any, mode: str) -> None:
    left = trio.Event()
    scope = trio.CancelScope()

    async def slow(connection: Any) -> None:
        await connection.begin(500, "application/json")
        await connection.send(b"{")
        scope.cancel()
        await connection.client_leaves()
        left.set()

    server.plays(slow)
    provider = provider_at(server.url, mode)
    with scope:
        await asked(provider, streaming=True)
    assert scope.cancelled_caught
    with trio.fail_after(5):
        await left.wait()
    await provider.aclose()


@both_modes
async def test_leaving_a_stream_closes_its_connection(server: Any, mode: str) -> None:
    left = trio.Event()

    async def endless(connection: Any) -> None:
        await connection.begin()
        await connection.send(b"data: " + json.dumps(CHUNKS[0]).encode() + b"\n\n")
        await connection.client_leaves()
        left.set()

    server.plays(endless)
    provider = provider_at(server.url, mode)
    async with aclosing(provider.stream(asking())) as deltas:
        assert (await anext(deltas)).text == "hel"
    with trio.fail_after(5):
        await left.wait()
    await provider.aclose()


@both_modes
async def test_a_server_that_is_not_there_is_a_network_error(mode: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        found = await failed(provider_at(url, mode), ProviderUnavailable, streaming=True)
    assert str(found).startswith("Gemini network error: ")
    assert str(found).endswith(f"({url}/v1beta/models/{MODEL}:generateContent)")
    assert found.retryable


@both_modes
@pytest.mark.covers("GEM-13")
async def test_connecting_gives_up_after_ten_seconds(mode: str, mock_clock: trio.testing.MockClock) -> None:
    await load("google.genai")  # in a thread, which the virtual clock would not wait for
    mock_clock.autojump_threshold = 0.01
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.socket() as waiting:
            waiting.connect(full.getsockname())  # the queue is full now: further connections get no answer
            url = f"http://127.0.0.1:{full.getsockname()[1]}"
            found = await failed(provider_at(url, mode), ProviderTimeout, streaming=False)
    assert str(found).startswith("Gemini request timed out after 10s: no connection to ")


# --- connections ----------------------------------------------------------------------------------


@both_modes
async def test_connections_are_kept_and_a_stale_one_is_replaced(server: Any, mode: str) -> None:
    async def hang_up(connection: Any) -> None:
        await connection.close()

    server.sends_json(WHOLE)
    server.sends_json(WHOLE)
    server.plays(hang_up)
    server.sends_json(WHOLE)
    provider = provider_at(server.url, mode)
    for _ in range(3):
        assert (await provider.complete(asking())).content == "hello"
    await provider.aclose()
    assert server.connections == 2


@both_modes
async def test_it_can_be_used_again_after_it_was_closed(server: Any, mode: str) -> None:
    server.sends_json(WHOLE)
    provider = provider_at(server.url, mode)
    await provider.aclose()
    for _ in range(2):
        assert (await provider.complete(asking())).content == "hello"
        await provider.aclose()
        await provider.aclose()


async def test_a_pool_of_others_is_not_closed(server: Any) -> None:
    server.sends_json(WHOLE)
    pool = HttpPool()
    for mode in MODES:
        provider = provider_at(server.url, mode, pool=pool)
        await provider.complete(asking())
        await provider.aclose()
    await provider_at(server.url, pool=pool).complete(asking())
    assert server.connections == 1
    await pool.aclose()


@both_modes
async def test_many_sessions_share_one_provider(server: Any, mode: str) -> None:
    async def play(connection: Any) -> None:
        said = server.requests[-1].json["contents"][0]["parts"][0]["text"]
        await connection.begin()
        for letter in said:
            await trio.lowlevel.checkpoint()
            part = {"candidates": [{"content": {"parts": [{"text": letter}]}, "finishReason": "STOP"}]}
            await connection.send(b"data: " + json.dumps(part).encode() + b"\n\n")
        await connection.end()

    server.plays(play)
    provider = provider_at(server.url, mode)
    found: dict[str, str] = {}

    async def ask(word: str) -> None:
        request = ProviderRequest(History([{"role": "user", "content": word}]))
        found[word] = "".join([delta.text for delta in await asked(provider, streaming=True, request=request)])

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(ask, f"session {number}")
    await provider.aclose()
    assert found == {word: word for word in (f"session {number}" for number in range(40))}
