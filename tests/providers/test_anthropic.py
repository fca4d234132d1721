"""What the anthropic adapter sends through the vendor's package, and the errors it gives."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from contextlib import aclosing
from typing import Any

import pytest
import trio

from aar import Agent, AgentConfig
from aar.errors import (
    BadProviderReply,
    ContentRefused,
    ContextTooLong,
    InvalidSetting,
    MissingKey,
    ProviderError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.events import ReasoningBlock
from aar.messages.provider import History, ModelInfo, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers import anthropic_wire, open_provider
from aar.providers.anthropic import AnthropicProvider, server_root
from aar.providers.anthropic_body import MessageBody, Shape
from aar.providers.anthropic_wire import encode_message
from aar.providers.base import explain
from aar.providers.http import HttpPool

KEY = "sk-ant-test-1234"
HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
ANSWER = {"id": "msg_1", "model": "m", "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"}
TOOLS = (ToolSchema("b", "B.", {"type": "object"}), ToolSchema("a", "A.", {"type": "object"}))

SHORTER = (
    "Set context_window, so that the oldest messages are left out, or go on with a model that has a longer window."
)


def event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def stream_of(*blocks: dict[str, Any], reason: str = "end_turn", cached: int = 0) -> list[bytes]:
    """An answer with these blocks, each of them sent whole when it begins."""
    usage = {"input_tokens": 20, "cache_read_input_tokens": cached, "output_tokens": 1}
    begun = [event("content_block_start", index=at, content_block=block) for at, block in enumerate(blocks)]
    return [
        event("message_start", message={"id": "msg_1", "model": "claude-x", "usage": usage}),
        *begun,
        event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 9}),
        event("message_stop"),
    ]


def said(text: Any) -> dict[str, Any]:
    return {"type": "text", "text": text}


def asking(messages: list[NeutralMessage] | None = None, **more: Any) -> ProviderRequest:
    return ProviderRequest(History(list(messages or HI)), **more)


def provider_at(url: str, environ: dict[str, str] | None = None, **config: Any) -> AnthropicProvider:
    config = {"name": "anthropic", "model": "claude-x", "base_url": url, "api_key": KEY, **config}
    return AnthropicProvider(ProviderConfig(**config), environ=environ or {})


async def completed(provider: AnthropicProvider, request: ProviderRequest | None = None) -> Any:
    try:
        return await provider.complete(request or asking())
    finally:
        await provider.aclose()


async def asked(provider: AnthropicProvider, *, streaming: bool) -> Any:
    try:
        if not streaming:
            return await provider.complete(asking())
        async with aclosing(provider.stream(asking())) as deltas:
            return [delta async for delta in deltas]
    finally:
        await provider.aclose()


# --- address, key and headers -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "root"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com"),
        ("http://h:8080/v1/messages", "http://h:8080"),
        ("https://gateway/team/anthropic?x=1", "https://gateway/team/anthropic"),
        (" localhost:8080 ", "http://localhost:8080"),
        ("claude.example/v1", "https://claude.example"),
    ],
)
def test_an_address_may_end_with_the_version_or_the_method(address: str, root: str) -> None:
    assert server_root(address) == root


def test_the_address_comes_from_the_settings_then_the_environment_then_the_vendor() -> None:
    environ = {"ANTHROPIC_BASE_URL": "http://env/v1"}
    assert [
        provider_at("http://base", environ).endpoint,
        provider_at("", environ).endpoint,
        provider_at("", environ, extra={"use_environment": False}).endpoint,
        provider_at("").endpoint,
    ] == [
        "http://base/v1/messages",
        "http://env/v1/messages",
        "https://api.anthropic.com/v1/messages",
        "https://api.anthropic.com/v1/messages",
    ]


OWN_HEADERS = ("authorization", "x-api-key", "api-key", "x-a", "x-b", "anthropic-beta")


@pytest.mark.parametrize(
    ("config", "environ", "headers"),
    [
        ({}, {"ANTHROPIC_API_KEY": "env-key"}, {"authorization": f"Bearer {KEY}"}),
        ({"api_key": ""}, {"ANTHROPIC_API_KEY": " env-key\n"}, {"authorization": "Bearer env-key"}),
        ({"api_key": ""}, {"ANTHROPIC_AUTH_TOKEN": "token"}, {"authorization": "Bearer token"}),
        (
            {"api_key": ""},
            {"ANTHROPIC_API_KEY": "env-key", "ANTHROPIC_AUTH_TOKEN": "token"},
            {"authorization": "Bearer env-key"},
        ),
        ({"api_key": "", "extra": {"use_environment": False}}, {"ANTHROPIC_API_KEY": "env-key"}, {}),
        ({"api_key": ""}, {}, {}),
        ({"extra": {"auth_header": "X-Api-Key"}}, {}, {"x-api-key": KEY}),
        (
            {"extra": {"extra_headers": {"X-A": "1", "Authorization": "Basic x"}, "betas": ["one", "two"]}},
            {"ANTHROPIC_CUSTOM_HEADERS": "X-A: 0\nX-B: 2"},
            {"x-a": "1", "x-b": "2", "authorization": "Basic x", "anthropic-beta": "one,two"},
        ),
    ],
)
async def test_the_key_travels_in_one_header_and_nothing_comes_from_elsewhere(
    config: Any, environ: Any, headers: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the package would read by itself is not what it is given.
    monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "wrong")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-A: wrong\nApi-Key: wrong\nno colon")
    server.sends_json(ANSWER)
    assert (await completed(provider_at(server.url, environ, **config))).content == "hello"
    [request] = server.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert {name: value for name, value in request.headers.items() if name in OWN_HEADERS} == headers
    assert request.headers["content-type"] == "application/json"
    assert request.headers["anthropic-version"]


async def test_without_a_key_the_vendor_is_not_asked_and_the_sentence_says_what_to_set() -> None:
    provider = provider_at("", api_key="")
    with pytest.raises(MissingKey) as caught:
        await completed(provider)
    assert explain(caught.value) == (
        "There is no key for Anthropic: set ANTHROPIC_API_KEY in the environment, or provider.api_key in the settings"
    )


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"api_key": "a\nb"}, "provider.api_key"),
        ({"extra": {"extra_headers": {"x y": "1"}}}, "provider.extra.extra_headers"),
        ({"extra": {"extra_headers": "x"}}, "provider.extra.extra_headers"),
        ({"extra": {"thinking": "on"}}, "provider.extra.thinking"),
        ({"extra": {"timeout": "soon"}}, "provider.extra.timeout"),
        ({"base_url": "ftp://h"}, "provider.base_url"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(config: Any, field: str) -> None:
    with pytest.raises(InvalidSetting, match=field.replace(".", r"\.")) as caught:
        provider_at(
            **{"url": "http://h", **({"url": config.pop("base_url")} if "base_url" in config else {}), **config}
        )
    assert "a\nb" not in str(caught.value)


def test_opening_a_provider_loads_neither_the_package_nor_the_http_library() -> None:
    program = (
        "import sys\n"
        "from aar.messages.settings import ProviderConfig\n"
        "from aar.providers import open_provider\n"
        "open_provider(ProviderConfig(name='anthropic', api_key='k'))\n"
        "print(sorted({'httpx2', 'anthropic'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_what_it_can_do_is_told_and_may_be_corrected() -> None:
    provider = open_provider(ProviderConfig(name="anthropic", api_key="k"))
    assert provider.capabilities() == {
        "name": "anthropic",
        "tools": True,
        "reasoning": True,
        "streaming": True,
        "structured_output": True,
        "vision": True,
    }
    corrected = provider_at("", extra={"supports_tools": False, "supports_vision": False}).capabilities()
    assert (corrected["tools"], corrected["vision"]) == (False, False)


async def test_a_server_without_tools_is_not_sent_any(server: Any) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, extra={"supports_tools": False}), asking(tools=TOOLS))
    assert "tools" not in server.requests[0].json


async def test_what_the_api_cannot_promise_is_warned_of_once(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    server.sends_json(ANSWER)
    provider = provider_at(server.url, response_format="json")
    with caplog.at_level(logging.WARNING):
        await provider.complete(asking())
        await completed(provider)
    assert [record.getMessage() for record in caplog.records] == [
        "Anthropic promises JSON only for a schema, in provider.json_schema: asking for text"
    ]


# --- what servers refuse ----------------------------------------------------------------------


def refusal(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


async def test_what_a_model_does_not_take_is_left_out_from_then_on(server: Any) -> None:
    server.sends_json(refusal("`temperature` is deprecated for this model."), 400)
    server.sends_json(refusal("max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens"), 400)
    server.sends_json(ANSWER)
    provider = provider_at(server.url, temperature=0.5, max_tokens=9000)
    await provider.complete(asking())
    await completed(provider)
    sent = [(request.json.get("temperature"), request.json["max_tokens"]) for request in server.requests]
    assert sent == [(0.5, 9000), (None, 9000), (None, 8192), (None, 8192)]


async def test_a_thought_with_a_foreign_signature_is_left_out_of_that_request(server: Any) -> None:
    data = {"provider": "anthropic", "replay": True, "signature": "of another account"}
    talk: list[NeutralMessage] = [
        *HI,
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm", "data": data}, said("a")]},
        *HI,
    ]
    server.sends_json(refusal("messages.1.content.0: Invalid `signature` in `thinking` block"), 400)
    server.sends_json(ANSWER)
    thinking = {"type": "adaptive"}
    answer = await completed(provider_at(server.url, extra={"thinking": thinking, "cache": False}), asking(talk))
    assert answer.content == "hello"
    first, second = (request.json["messages"][1]["content"] for request in server.requests)
    assert first == [{"type": "thinking", "thinking": "hm", "signature": "of another account"}, said("a")]
    assert second == [said("a")]
    assert server.requests[1].json["thinking"] == thinking


@pytest.mark.covers("PRV-09", "PRV-11")
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (400, ProviderError, "returned HTTP 400: it says so"),
        (
            401,
            ProviderUnauthorized,
            "refused the key (HTTP 401): it says so (check ANTHROPIC_API_KEY or provider.api_key)",
        ),
        (
            403,
            ProviderUnauthorized,
            "refused the key (HTTP 403): it says so (check ANTHROPIC_API_KEY or provider.api_key)",
        ),
        (408, ProviderTimeout, "returned HTTP 408: it says so"),
        (413, ProviderError, "returned HTTP 413: it says so"),
        (429, ProviderRateLimited, "rate limit exceeded (HTTP 429): it says so"),
        (500, ProviderUnavailable, "returned HTTP 500: it says so"),
        (503, ProviderUnavailable, "returned HTTP 503: it says so"),
        (529, ProviderUnavailable, "returned HTTP 529: it says so"),
    ],
)
async def test_a_status_becomes_a_typed_error_and_is_not_tried_again_here(
    status: int, kind: type[ProviderError], text: str, streaming: bool, server: Any
) -> None:
    server.sends_json(refusal("it says so", "some_error"), status, retry_after="7")
    with pytest.raises(kind) as caught:
        await asked(provider_at(server.url), streaming=streaming)
    error = caught.value
    assert (type(error), str(error), error.status, error.provider) == (kind, f"Anthropic {text}", status, "anthropic")
    assert error.retry_after == (7.0 if error.retryable else None)
    assert error.retryable is (status in (408, 429) or status >= 500)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "message", "kind", "sentence"),
    [
        (
            404,
            "model: claude-x",
            ProviderError,
            "Anthropic has no model 'claude-x': name another one in provider.model.",
        ),
        (
            400,
            "prompt is too long: 210000 tokens > 200000 maximum",
            ContextTooLong,
            "Provider returned an error: Anthropic context limit exceeded (HTTP 400): "
            f"prompt is too long: 210000 tokens > 200000 maximum. {SHORTER}",
        ),
        (
            400,
            "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000",
            ContextTooLong,
            "Provider returned an error: Anthropic context limit exceeded (HTTP 400): "
            f"input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000. {SHORTER}",
        ),
        (
            400,
            "Output blocked by content filtering policy",
            ContentRefused,
            "Provider returned an error: Anthropic refused the content (HTTP 400): "
            "Output blocked by content filtering policy",
        ),
        (
            400,
            "num_gpu: Extra inputs are not permitted",
            ProviderError,
            "Provider returned an error: Anthropic rejected an unsupported parameter (HTTP 400): "
            "num_gpu: Extra inputs are not permitted",
        ),
    ],
)
async def test_a_refusal_is_one_sentence_that_says_what_to_do(
    status: int, message: str, kind: type[ProviderError], sentence: str, server: Any
) -> None:
    server.sends_json(refusal(message), status)
    with pytest.raises(ProviderError) as caught:
        await completed(provider_at(server.url))
    assert (type(caught.value), explain(caught.value), caught.value.retryable) == (kind, sentence, False)


PAGE = b"<html><head><title>404 Not Found</title></head></html>"


@pytest.mark.parametrize("status", [404, 405])
async def test_a_wrong_address_is_told_from_an_unknown_model(status: int, server: Any) -> None:
    server.sends(PAGE, status, "text/html")
    with pytest.raises(ProviderError) as caught:
        await completed(provider_at(server.url))
    advice = f"{server.url}/v1/messages is no Messages API of Anthropic's: check provider.base_url."
    assert explain(caught.value) == advice
    assert str(caught.value) == f"{advice} (HTTP {status}: a web page instead of an answer (404 Not Found))"


@pytest.mark.parametrize(("kind", "body"), [("text/html", PAGE), ("application/json", b"nonsense")])
async def test_a_web_page_or_nonsense_is_no_answer(kind: str, body: bytes, server: Any) -> None:
    server.sends(body, 200, kind)
    with pytest.raises(BadProviderReply, match=f"^{server.url}/v1/messages answered with something that is no JSON"):
        await completed(provider_at(server.url))


@pytest.mark.parametrize(
    "body", [{}, [], {"content": "odd"}, {"content": [1]}, {"content": [{"type": "text", "text": 1}]}]
)
async def test_json_of_another_shape_is_a_bad_reply(body: Any, server: Any) -> None:
    server.sends_json(body)
    with pytest.raises(BadProviderReply):
        await completed(provider_at(server.url))


async def test_an_error_in_a_whole_answer_is_raised(server: Any) -> None:
    server.sends_json(refusal("rate limit", "rate_limit_error"))
    with pytest.raises(ProviderRateLimited, match="Anthropic reported an error: rate limit"):
        await completed(provider_at(server.url))


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [("messages-error-401", 401, ProviderUnauthorized), ("messages-error", 500, ProviderUnavailable)],
)
async def test_recorded_errors_reach_the_caller_as_what_they_are(
    name: str, status: int, kind: type[ProviderError], server: Any
) -> None:
    server.sends_recorded(f"{name}.json", status)
    with pytest.raises(kind) as caught:
        await completed(provider_at(server.url))
    assert type(caught.value) is kind


async def test_a_redirect_is_not_followed_and_says_where_it_goes(server: Any) -> None:
    server.sends(b"", 301, "text/html", location="https://elsewhere/v1")
    with pytest.raises(ProviderError, match="redirected to https://elsewhere/v1: use that URL as base_url"):
        await completed(provider_at(server.url))
    assert len(server.requests) == 1


async def test_nobody_listening_is_a_network_error_with_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ProviderUnavailable, match="^Anthropic network error: .*" + url) as caught:
            await completed(provider_at(url))
    assert caught.value.retryable
    assert explain(caught.value).startswith("Could not connect to the provider")


async def test_connecting_gives_up_after_ten_seconds(mock_clock: trio.testing.MockClock) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        provider = provider_at(url)
        with socket.socket() as waiting:
            waiting.connect(full.getsockname())  # the queue is full now: further connections get no answer
            start = trio.current_time()
            mock_clock.autojump_threshold = 0.01
            with pytest.raises(ProviderTimeout) as caught:
                await completed(provider)
    assert str(caught.value) == f"Anthropic request timed out after 10s: no connection to {url}/v1/messages"
    assert trio.current_time() - start >= 10


@pytest.mark.parametrize("kind", ["status", "stream", "page", "missing"])
async def test_no_error_repeats_the_key_or_a_header(kind: str, server: Any) -> None:
    echo = f"your key {KEY} and header-value-1 are odd"
    if kind == "status":
        server.sends_json(refusal(echo), 400)
    elif kind == "stream":
        server.sends(event("error", error={"type": "api_error", "message": echo}))
    elif kind == "page":
        server.sends(echo.encode(), 200, "text/html")
    else:
        server.sends(echo.encode(), 404, "text/html")
    extra = {"extra_headers": {"x-secret": "header-value-1"}}
    with pytest.raises(ProviderError) as caught:
        await completed(provider_at(server.url, extra=extra))
    shown = f"{caught.value} {explain(caught.value)}"
    assert (KEY in shown, "header-value-1" in shown, "[redacted]" in shown) == (False, False, True)


# --- connections ------------------------------------------------------------------------------


async def test_one_connection_serves_one_answer_after_the_other_and_a_refusal(server: Any) -> None:
    server.sends(stream_of(said("a")))
    server.sends_json(refusal("no"), 400)
    server.sends(stream_of(said("b")))
    provider = provider_at(server.url)
    assert (await provider.complete(asking())).content == "a"
    with pytest.raises(ProviderError):
        await provider.complete(asking())
    assert (await completed(provider)).content == "b"
    assert (len(server.requests), server.connections) == (3, 1)


async def test_a_shared_pool_is_left_open(server: Any) -> None:
    server.sends_json(ANSWER)
    pool = HttpPool()
    config = ProviderConfig(model="m", base_url=server.url, api_key=KEY)
    for _ in range(2):
        await completed(AnthropicProvider(config, pool=pool, environ={}))
    assert server.connections == 1
    await pool.aclose()


async def test_sessions_that_share_a_provider_do_not_meet(server: Any) -> None:
    async def play(connection: Any) -> None:
        mine = server.requests[-1].json["messages"][-1]["content"][0]["text"]
        await connection.begin()
        for piece in stream_of(said(f"{mine} heard")):
            await connection.send(piece)
            await trio.lowlevel.checkpoint()
        await connection.end()

    server.plays(play)
    provider = provider_at(server.url)
    heard: dict[str, str] = {}

    async def ask(name: str) -> None:
        answer = await provider.complete(asking([{"role": "user", "content": name}]))
        heard[name] = answer.content

    async with trio.open_nursery() as sessions:
        for name in ("one", "two", "three"):
            sessions.start_soon(ask, name)
    await provider.aclose()
    assert heard == {name: f"{name} heard" for name in ("one", "two", "three")}


# --- models -----------------------------------------------------------------------------------


async def test_models_are_listed_with_what_the_server_tells_of_them(server: Any) -> None:
    capable = {"image_input": {"supported": True}, "thinking": {"supported": True}, "pdf_input": {"supported": False}}
    server.sends_json(
        {
            "data": [
                {"id": "a", "max_input_tokens": 200_000, "max_tokens": 64_000, "capabilities": capable},
                {"id": "old", "lifecycle": "retired"},
            ],
            "has_more": True,
            "last_id": "old",
        }
    )
    server.sends_json({"data": [{"id": "b"}], "has_more": False, "last_id": "b"})
    provider = provider_at(server.url)
    assert await provider.models() == (
        ModelInfo("a", 200_000, 64_000, ("tools", "vision", "thinking")),
        ModelInfo("b"),
    )
    await provider.aclose()
    assert [(request.method, request.path) for request in server.requests] == [
        ("GET", "/v1/models?limit=1000"),
        ("GET", "/v1/models?limit=1000&after_id=old"),
    ]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, refusal("no"), ProviderUnauthorized),
        (200, {"models": []}, BadProviderReply),
        (200, [], BadProviderReply),
        (200, {"data": ["m"]}, BadProviderReply),
        (200, {"data": [{"id": "m", "capabilities": {"thinking": True}}]}, BadProviderReply),
    ],
)
async def test_a_list_that_cannot_be_had_is_an_error(
    status: int, body: Any, kind: type[ProviderError], server: Any
) -> None:
    server.sends_json(body, status)
    provider = provider_at(server.url)
    with pytest.raises(kind):
        await provider.models()
    await provider.aclose()


# --- a whole session --------------------------------------------------------------------------


@pytest.mark.covers("ANT-09", "ANT-10")
async def test_a_session_with_tools_sends_signed_thoughts_again_and_marks_what_may_be_cached(
    server: Any, tmp_path: Any
) -> None:
    (tmp_path / "a.txt").write_text("pineapple")
    thoughts = [
        {"type": "thinking", "thinking": "I read it.", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "EmwK"},
    ]
    calls = [{"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a.txt"}}]
    server.sends(stream_of(*thoughts, said("Reading."), *calls, reason="tool_use"))
    server.sends(stream_of(said("The word is pineapple."), cached=900))
    server.sends(stream_of(said("You are welcome.")))
    extra = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    config = AgentConfig(
        provider=ProviderConfig(name="anthropic", model="claude-x", base_url=server.url, api_key=KEY, extra=extra)
    )
    async with Agent(config, cwd=tmp_path, home=tmp_path / "home") as agent:
        session = await agent.run("Read a.txt")
        assert session.last_text() == "The word is pineapple."
        session = await agent.run("Thanks", session)
    first, second, third = ([strip(block) for block in request.json["messages"]] for request in server.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert [block["type"] for block in second[1]["content"]] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert second[1]["content"] == [*thoughts, said("Reading."), *calls]
    assert second[2]["content"][0]["tool_use_id"] == "toolu_1"
    assert all(request.json["thinking"] == extra["thinking"] for request in server.requests)
    assert [json.dumps(request.json).count("cache_control") for request in server.requests] == [3, 4, 4]
    usage = [event.usage for event in session.events if event.type == "provider_meta"]
    assert usage == [
        {"input_tokens": 20, "output_tokens": 9},
        {"input_tokens": 20, "output_tokens": 9, "cache_read_tokens": 900},
        {"input_tokens": 20, "output_tokens": 9},
    ]
    kept = [event for event in session.events if isinstance(event, ReasoningBlock)]
    assert [block.content for block in kept] == ["I read it.", ""]


def strip(message: dict[str, Any]) -> dict[str, Any]:
    """The message without marks of the cache, which are no part of what is cached."""
    blocks = [{name: value for name, value in block.items() if name != "cache_control"} for block in message["content"]]
    return {**message, "content": blocks}


def test_each_message_of_a_long_conversation_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[NeutralMessage] = []

    def count(message: NeutralMessage) -> bytes:
        encoded.append(message)
        return encode_message(message)

    monkeypatch.setattr(anthropic_wire, "encode_message", count)
    talk: list[NeutralMessage] = [{"role": role, "content": "x"} for _ in range(5000) for role in ("user", "assistant")]
    body = MessageBody(ProviderConfig(), has_tools=True)
    cache: dict[str, list[bytes | None]] = {}
    for _ in range(5):
        now = History(talk, tail=[{"role": "user", "content": "now"}], cache=cache)
        body.encode(ProviderRequest(now), Shape())
        talk.append({"role": "user", "content": "more"})
    assert len(encoded) == 10_000 + 5 + 4
