"""What the generic adapter sends, and the errors it gives."""

from __future__ import annotations

import logging
import socket
from contextlib import aclosing
from typing import Any

import pytest
import trio

from aar._version import __version__
from aar.errors import (
    BadProviderReply,
    ContextTooLong,
    InvalidSetting,
    ProviderError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.provider import History, ImageLimits, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers.generic import GenericProvider, chat_endpoint

HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
TOOLS = (ToolSchema("b", "B.", {"type": "object"}), ToolSchema("a", "A.", {"type": "object"}))
ANSWER = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}


def asking(*, system: str = "", tools: tuple[ToolSchema, ...] | None = None, **more: Any) -> ProviderRequest:
    return ProviderRequest(History(list(HI)), system=system, tools=tools, **more)


def provider_at(url: str, environ: dict[str, str] | None = None, **config: Any) -> GenericProvider:
    config = {"name": "generic", "model": "m", "base_url": url, **config}
    return GenericProvider(ProviderConfig(**config), environ=environ or {})


async def completed(provider: GenericProvider, request: ProviderRequest | None = None) -> Any:
    try:
        return await provider.complete(request or asking())
    finally:
        await provider.aclose()


async def asked(provider: GenericProvider, *, streaming: bool) -> Any:
    """The answer, or the deltas of it."""
    if not streaming:
        return await provider.complete(asking())
    async with aclosing(provider.stream(asking())) as deltas:
        return [delta async for delta in deltas]


@pytest.mark.covers("GEN-01")
@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://h:8080", "http://h:8080/v1/chat/completions"),
        ("http://h:8080/", "http://h:8080/v1/chat/completions"),
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("https://h/api/v3?x=1", "https://h/api/v3/chat/completions?x=1"),
        ("https://h/openai/deployments/d/chat/completions?v=2", "https://h/openai/deployments/d/chat/completions?v=2"),
        ("https://h/other/", "https://h/other/"),
        (" localhost:8080 ", "http://localhost:8080/v1/chat/completions"),
        ("[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
        ("models.example/v1", "https://models.example/v1/chat/completions"),
        ("", ""),
    ],
)
def test_a_server_or_its_v1_root_is_completed_and_any_other_url_is_kept(address: str, url: str) -> None:
    assert chat_endpoint(address) == url


async def test_the_full_url_is_posted_to_as_it_is(server: Any) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url + "/a/b?c=d"))
    assert [(request.method, request.path) for request in server.requests] == [("POST", "/a/b?c=d")]


@pytest.mark.covers("GEN-02")
def test_the_endpoint_comes_from_base_url_then_extra_then_the_environment() -> None:
    environ = {"GENERIC_ENDPOINT": "http://env/v1"}
    extra = {"endpoint": "http://extra/v1"}
    assert [
        provider_at("http://base/v1", environ, extra=extra).endpoint,
        provider_at("", environ, extra=extra).endpoint,
        provider_at("", environ).endpoint,
        provider_at("").endpoint,
    ] == [
        "http://base/v1/chat/completions",
        "http://extra/v1/chat/completions",
        "http://env/v1/chat/completions",
        "",
    ]


async def test_without_a_server_the_error_says_what_to_set() -> None:
    with pytest.raises(ProviderError, match=r"No server to ask: set provider\.base_url or GENERIC_ENDPOINT"):
        await completed(provider_at(""))


def headers_of(server: Any) -> dict[str, str]:
    return {name: value for name, value in server.requests[0].headers.items() if name not in ("host", "content-length")}


USUAL = {
    "accept": "*/*",
    "accept-encoding": "identity",
    "connection": "keep-alive",
    "content-type": "application/json",
    "user-agent": f"aar/{__version__}",
}


@pytest.mark.covers("GEN-03")
@pytest.mark.parametrize(
    ("config", "environ", "headers"),
    [
        ({}, {}, {}),
        ({"api_key": "k"}, {"GENERIC_API_KEY": "e"}, {"authorization": "Bearer k"}),
        ({}, {"GENERIC_API_KEY": " e\n"}, {"authorization": "Bearer e"}),
        ({"api_key": "k", "extra": {"auth_header": "Api-Key"}}, {}, {"api-key": "k"}),
        (
            {"api_key": "k", "extra": {"extra_headers": {"X-A": "1", "Authorization": "Basic x"}}},
            {},
            {"x-a": "1", "authorization": "Basic x"},
        ),
    ],
)
async def test_the_key_travels_in_one_header_and_extra_headers_override(
    config: dict[str, Any], environ: dict[str, str], headers: dict[str, str], server: Any
) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, environ, **config))
    assert headers_of(server) == USUAL | headers


@pytest.mark.covers("GEN-04")
async def test_the_body_has_the_limit_and_always_a_temperature(server: Any) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url), asking(system="be brief", tools=TOOLS))
    assert server.requests[0].json == {
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "model": "m",
        "max_completion_tokens": 4096,
        "temperature": 0.0,
        "stream": False,
        "tools": [
            {"type": "function", "function": {"name": "a", "description": "A.", "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "b", "description": "B.", "parameters": {"type": "object"}}},
        ],
    }


@pytest.mark.parametrize(
    ("config", "request_limit", "limit"),
    [
        ({"max_tokens": 7}, None, {"max_completion_tokens": 7}),
        ({"max_tokens": 7}, 3, {"max_completion_tokens": 3}),
        ({"max_tokens": 0}, None, {}),
        ({"max_tokens": 7, "extra": {"max_tokens_field": "n_predict"}}, None, {"n_predict": 7}),
    ],
)
async def test_the_limit_has_a_field_that_can_be_named(
    config: dict[str, Any], request_limit: int | None, limit: dict[str, int], server: Any
) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, model="", **config), asking(max_tokens=request_limit))
    assert server.requests[0].json == {"messages": HI, "temperature": 0.0, "stream": False, **limit}


async def test_equal_conversations_are_equal_bytes_and_a_longer_one_starts_the_same(server: Any) -> None:
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    settled = list(HI)
    cache: dict[str, list[bytes | None]] = {}
    await provider.complete(ProviderRequest(History(settled, cache=cache), tools=TOOLS))
    await provider.complete(ProviderRequest(History(settled, cache=cache), tools=TOOLS[::-1]))
    settled.append({"role": "assistant", "content": "hello"})
    await completed(provider, ProviderRequest(History(settled, cache=cache), tools=TOOLS))
    first, second, third = (request.body for request in server.requests)
    assert first == second
    assert third.startswith(first[: first.index(b"]")])


@pytest.mark.covers("PRV-10")
async def test_keys_that_are_for_aar_alone_are_never_sent(server: Any) -> None:
    server.sends_json(ANSWER)
    extra = {
        "supports_tools": True,
        "supports_reasoning": True,
        "supports_vision": True,
        "timeout": 60,
        "read_timeout": 60,
        "first_byte_timeout": 60,
        "idle_timeout": 60,
        "auth_header": "x-key",
        "top_p": 1,
    }
    await completed(provider_at(server.url, extra=extra))
    assert sorted(server.requests[0].json) == ["max_completion_tokens", "messages", "model", "stream", "temperature"]


async def test_a_server_without_tools_is_not_sent_any(server: Any) -> None:
    server.sends_json(ANSWER)
    provider = provider_at(server.url, extra={"supports_tools": False})
    await completed(provider, asking(tools=TOOLS))
    assert "tools" not in server.requests[0].json


@pytest.mark.parametrize(
    ("model", "extra", "flags"),
    [
        ("m", {}, (True, False, True, True, False)),
        ("gpt-4o-mini", {}, (True, False, True, True, True)),
        ("x-vision", {"supports_vision": False}, (True, False, True, True, False)),
        ("m", {"supports_tools": False, "supports_reasoning": True}, (False, True, True, True, False)),
    ],
)
def test_capabilities_follow_the_settings_and_the_name_of_the_model(
    model: str, extra: dict[str, Any], flags: tuple[bool, ...]
) -> None:
    found = provider_at("http://h", model=model, extra=extra).capabilities()
    names = ("tools", "reasoning", "streaming", "structured_output", "vision")
    assert found == {"name": "generic", **dict(zip(names, flags, strict=True))}


@pytest.mark.covers("GEN-05")
async def test_the_response_format_of_the_config_beats_extra(server: Any) -> None:
    server.sends_json(ANSWER)
    schema = {"name": "n", "schema": {"type": "object"}}
    other = {"name": "o", "schema": {}}
    configs: list[dict[str, Any]] = [
        {"extra": {"response_format": "text"}},
        {"extra": {"response_format": "json"}},
        {"response_format": "json_object", "extra": {"response_format": "json_schema"}},
        {"response_format": "json_schema", "extra": {"json_schema_def": schema}},
        {"response_format": "json_schema", "json_schema": schema, "extra": {"json_schema_def": other}},
    ]
    for config in configs:
        await completed(provider_at(server.url, **config))
    assert [request.json.get("response_format") for request in server.requests] == [
        None,
        {"type": "json_object"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": schema},
        {"type": "json_schema", "json_schema": schema},
    ]


@pytest.mark.covers("GEN-05")
async def test_a_missing_schema_is_warned_of_and_text_is_asked_for(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.sends_json(ANSWER)
    with caplog.at_level(logging.WARNING):
        await completed(provider_at(server.url, response_format="json_schema"))
    assert "response_format" not in server.requests[0].json
    assert caplog.messages == ["response_format is json_schema and there is no provider.json_schema: asking for text"]


def refusal(text: str) -> dict[str, Any]:
    return {"error": {"message": text, "type": "invalid_request_error"}}


async def test_a_server_that_does_not_know_the_new_limit_gets_the_old_one_from_then_on(server: Any) -> None:
    server.sends_json(refusal("unsupported parameter: max_completion_tokens"), 400)
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    await provider.complete(asking())
    await completed(provider)
    fields = [{name for name in request.json if "max" in name} for request in server.requests]
    assert fields == [{"max_completion_tokens"}, {"max_tokens"}, {"max_tokens"}]


async def test_a_limit_that_was_named_by_hand_is_not_renamed(server: Any) -> None:
    server.sends_json(refusal("max_completion_tokens is too large"), 400)
    with pytest.raises(ProviderError, match="too large"):
        await completed(provider_at(server.url, extra={"max_tokens_field": "max_completion_tokens"}))
    assert len(server.requests) == 1


async def test_optional_fields_that_a_server_refuses_are_left_out_one_after_the_other(server: Any) -> None:
    server.sends_json(refusal("Extra inputs are not permitted: stream_options"), 422)
    server.sends_json(refusal("Unsupported value: 'temperature' does not support 0.0"), 400)
    server.sends_json(ANSWER)
    provider = provider_at(server.url, max_tokens=0)
    async with aclosing(provider.stream(asking())) as deltas:
        assert [delta.text for delta in [delta async for delta in deltas]] == ["hello", ""]
    await provider.aclose()
    assert [sorted(set(request.json) - {"messages", "model", "stream"}) for request in server.requests] == [
        ["stream_options", "temperature"],
        ["temperature"],
        [],
    ]


async def test_a_refusal_that_goes_on_is_raised_and_nothing_is_remembered(server: Any) -> None:
    server.sends_json(refusal("max_completion_tokens must be less than 10"), 400)
    server.sends_json(refusal("max_tokens must be less than 10"), 400)
    provider = provider_at(server.url)
    with pytest.raises(ProviderError, match="max_tokens must be less"):
        await provider.complete(asking())
    with pytest.raises(ProviderError):
        await completed(provider)
    fields = [{name for name in request.json if "max" in name} for request in server.requests]
    assert fields == [{"max_completion_tokens"}, {"max_tokens"}, {"max_completion_tokens"}]


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.covers("GEN-09")
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (
            401,
            ProviderUnauthorized,
            "refused the key (HTTP 401): it says so (check GENERIC_API_KEY or provider.api_key)",
        ),
        (429, ProviderRateLimited, "rate limit exceeded (HTTP 429): it says so"),
        (400, ProviderError, "returned HTTP 400: it says so"),
        (500, ProviderUnavailable, "returned HTTP 500: it says so"),
    ],
)
async def test_a_status_becomes_a_typed_error_with_its_text(
    status: int, kind: type[ProviderError], text: str, streaming: bool, server: Any
) -> None:
    server.sends_json({"error": {"message": "it says so"}}, status, retry_after="7")
    provider = provider_at(server.url)
    with pytest.raises(kind) as caught:
        await asked(provider, streaming=streaming)
    await provider.aclose()
    error = caught.value
    assert (type(error), str(error), error.status) == (kind, f"Generic provider {text}", status)
    assert error.retry_after == (7.0 if error.retryable else None)
    assert isinstance(error, PermissionError) is (status == 401)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "status", "kind", "retryable"),
    [
        ("error-503-loading.json", 503, ProviderUnavailable, True),
        ("error-context-overflow-stream.json", 400, ContextTooLong, False),
        ("error-history-bad-arguments.json", 500, ProviderUnavailable, False),
        ("error-history-empty-arguments.json", 500, ProviderUnavailable, False),
    ],
)
async def test_recorded_errors_reach_the_caller_as_what_they_are(
    name: str, status: int, kind: type[ProviderError], retryable: bool, server: Any
) -> None:
    server.sends_recorded(name, status)
    with pytest.raises(kind) as caught:
        await completed(provider_at(server.url))
    assert caught.value.retryable is retryable


async def test_a_redirect_is_not_followed_and_says_where_it_goes(server: Any) -> None:
    server.sends(b"", 307, "text/plain", location="https://elsewhere/v1")
    with pytest.raises(ProviderError) as caught:
        await completed(provider_at(server.url, api_key="secret"))
    assert str(caught.value) == (
        "Generic provider returned HTTP 307: redirected to https://elsewhere/v1: use that URL as base_url"
    )


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_web_page_is_no_answer(streaming: bool, server: Any) -> None:
    server.sends(b"<!doctype html><title>Log in</title>", 200, "text/html; charset=utf-8")
    provider = provider_at(server.url + "/page?token=t")
    with pytest.raises(BadProviderReply) as caught:
        await asked(provider, streaming=streaming)
    await provider.aclose()
    assert str(caught.value) == (
        f"{server.url}/page answered with something that is no JSON: a web page instead of an answer (Log in) "
        "(check provider.base_url)"
    )


async def test_an_error_in_a_whole_answer_is_raised(server: Any) -> None:
    server.sends_json({"error": {"message": "busy", "code": 503}})
    with pytest.raises(ProviderUnavailable, match=r"^Generic provider reported an error: busy$"):
        await completed(provider_at(server.url))


async def test_nobody_listening_is_a_network_error_with_the_address() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(ProviderUnavailable, match=r"^Generic provider network error: ") as caught:
            await completed(provider_at(url))
    assert str(caught.value).endswith(f"({url}/v1/chat/completions)")
    assert caught.value.retryable


@pytest.mark.covers("GEN-09")
async def test_connecting_gives_up_after_ten_seconds(autojump_clock: trio.testing.MockClock) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.socket() as waiting:
            waiting.connect(full.getsockname())  # the queue is full now: further connections get no answer
            url = f"http://127.0.0.1:{full.getsockname()[1]}"
            with pytest.raises(ProviderTimeout) as caught:
                await completed(provider_at(url))
    assert str(caught.value) == (
        f"Generic provider request timed out after 10s: no connection to {url}/v1/chat/completions"
    )
    assert trio.current_time() >= 10


async def test_one_connection_serves_one_answer_after_the_other(server: Any) -> None:
    server.sends_json(ANSWER)
    server.sends_recorded("chat-usage.sse")
    provider = provider_at(server.url)
    await provider.complete(asking())
    for _ in range(2):
        async with aclosing(provider.stream(asking())) as deltas:
            assert [delta.done async for delta in deltas][-1]
    await provider.aclose()
    assert (len(server.requests), server.connections) == (3, 1)


async def test_recorded_whole_answers_are_read(server: Any, plain: Any) -> None:
    server.sends_recorded("chat-plain-nostream.json")
    server.sends_recorded("chat-tool-call-nostream.json")
    provider = provider_at(server.url)
    answers = [await provider.complete(asking()), await completed(provider)]
    assert plain(answers) == [
        (
            "The capital of France is Paris.",
            [],
            "end_turn",
            [],
            (
                "generic",
                "smollm2-135m",
                "chatcmpl-Eu5uiyYwLRtKZ6y11dQQn9kMMvuRAPDN",
                {"input_tokens": 16, "output_tokens": 8, "total_tokens": 24, "cache_read_tokens": 15},
            ),
        ),
        (
            "",
            [("sBpjKtIKhu9VSh8X1UVfos11SdNfjt1y", "read_file", {"path": "notes.txt"})],
            "tool_use",
            [],
            (
                "generic",
                "smollm2-135m",
                "chatcmpl-qaT9xalCl58rcyjQNCYse3x0RrnD0LxN",
                {"input_tokens": 937, "output_tokens": 33, "total_tokens": 970, "cache_read_tokens": 936},
            ),
        ),
    ]


@pytest.mark.covers("GEN-06")
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_content_filter_ends_as_an_error_with_a_warning(
    streaming: bool, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if streaming:
        server.sends_chunks({"choices": [{"delta": {"content": "I"}, "finish_reason": "content_filter"}]})
    else:
        server.sends_json({"choices": [{"message": {"content": "I"}, "finish_reason": "content_filter"}]})
    provider = provider_at(server.url)
    with caplog.at_level(logging.WARNING):
        answer = await asked(provider, streaming=streaming)
    await provider.aclose()
    stop = answer[-1].stop_reason if streaming else answer.stop_reason
    assert (stop, caplog.messages) == ("error", ["The server's content filter ended the answer"])


async def test_a_server_that_streams_although_it_was_not_asked_to_is_understood(server: Any) -> None:
    server.sends_recorded("chat-plain.sse")
    assert (await completed(provider_at(server.url))).content == "The capital of France is Paris."


@pytest.mark.parametrize("address", ["http://exa mple/v1", "http://[::1", "ftp://host/v1", "https://", "h:port"])
def test_an_address_that_is_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^provider\.base_url is no URL"):
        provider_at(address)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"api_key": "secret\nkey"}, r"provider\.api_key"),
        ({"extra": {"extra_headers": "x"}}, r"provider\.extra\.extra_headers"),
        ({"extra": {"extra_headers": {"X-A": "secret\r\nX-B: 1"}}}, r"provider\.extra\.extra_headers"),
        ({"extra": {"extra_headers": {"X A": "1"}}}, r"provider\.extra\.extra_headers"),
        ({"extra": {"timeout": "x"}}, r"provider\.extra\.timeout"),
    ],
)
def test_what_no_header_or_limit_can_be_is_refused_without_the_secret(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSetting, match=field) as caught:
        provider_at("http://localhost", **settings)
    assert "secret" not in str(caught.value)


async def test_a_server_that_was_only_found_gets_no_key(server: Any) -> None:
    server.sends_json(ANSWER)
    extra = {"use_environment": False}
    await completed(provider_at(server.url, {"GENERIC_API_KEY": "cloud-key"}, extra=extra))
    assert headers_of(server) == USUAL


@pytest.mark.parametrize("kind", ["status", "answer", "text"])
async def test_no_error_repeats_the_key_or_a_header(kind: str, server: Any) -> None:
    said = "you sent Bearer my-own-key and header-value"
    if kind == "text":
        server.sends_json(said.encode())
    else:
        server.sends_json({"error": {"message": said}}, status=401 if kind == "status" else 200)
    provider = provider_at(
        server.url, api_key="my-own-key", extra={"auth_header": "x-key", "extra_headers": {"X-A": "header-value"}}
    )
    with pytest.raises(ProviderError, match="you sent Bearer") as caught:
        await completed(provider)
    assert "my-own-key" not in str(caught.value)
    assert "header-value" not in str(caught.value)


async def test_a_key_that_travels_unencrypted_is_warned_of_once(
    server: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, api_key="k"))
    await completed(provider_at("http://models.example"))
    assert caplog.messages == []
    provider = provider_at("http://models.example", api_key="k")
    for _ in range(2):
        await completed(provider)
    assert caplog.messages == ["The key goes to http://models.example/v1/chat/completions unencrypted: use https://"]


async def test_a_key_with_letters_that_headers_cannot_carry_is_an_error_without_the_key(server: Any) -> None:
    server.sends_json(ANSWER)
    with pytest.raises(ProviderError) as caught:
        await completed(provider_at(server.url, api_key="sécret…"))
    assert "cret" not in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (400, "At most 0 image(s) may be provided in one request."),
        (400, "Invalid content type. image_url is only supported by certain models."),
        (404, "No endpoints found that support image input: this model does not support images"),
    ],
)
async def test_a_model_that_takes_no_images_is_asked_without_them_from_then_on(
    server: Any, status: int, said: str
) -> None:
    server.sends_json(refusal(said), status)
    server.sends_json({"choices": [{"message": {"content": "I see nothing"}, "finish_reason": "stop"}]})
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    history = History([{"role": "user", "content": [image, {"type": "text", "text": "what is it?"}]}])
    provider = provider_at(server.url)
    for _ in range(2):
        assert (await provider.complete(ProviderRequest(messages=history))).content == "I see nothing"
    await provider.aclose()
    sent = [request.json["messages"][0]["content"] for request in server.requests]
    assert sent[0] == [image, {"type": "text", "text": "what is it?"}]
    assert (
        sent[1]
        == sent[2]
        == [
            {"type": "text", "text": "[image left out: the model takes no images]"},
            {"type": "text", "text": "what is it?"},
        ]
    )


def test_a_model_that_is_said_to_see_nothing_has_no_room_for_images() -> None:
    config = ProviderConfig(name="generic", model="m", extra={"supports_vision": False})
    assert GenericProvider(config).image_limits == ImageLimits(at_most=0)
