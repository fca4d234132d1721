"""What the Ollama adapter sends, what it leaves out when it is refused, and the connections it keeps."""

from __future__ import annotations

import json
import logging
from contextlib import aclosing
from typing import Any

import pytest
import trio

from aar._version import __version__
from aar.errors import (
    InvalidSetting,
    ProviderError,
)
from aar.messages.provider import History, NeutralMessage, ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers import open_provider
from aar.providers.ollama import OllamaProvider

HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}
LOOK: list[NeutralMessage] = [{"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]}]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolSchema("write_file", "Write.", SCHEMA), ToolSchema("list", "List.", {}))
ANSWER = {"model": "qwen3", "message": {"role": "assistant", "content": "hello"}, "done": True, "done_reason": "stop"}
FIXED = {"num_ctx": None}  # the server's own window: nothing is asked before the request itself


def asking(
    messages: list[NeutralMessage] = HI, *, tools: tuple[ToolSchema, ...] | None = None, **more: Any
) -> ProviderRequest:
    return ProviderRequest(History(list(messages)), tools=tools, **more)


def provider_at(
    url: str, environ: dict[str, str] | None = None, extra: dict[str, Any] = FIXED, **config: Any
) -> OllamaProvider:
    settings = {"name": "ollama", "model": "qwen3", "base_url": url, "extra": extra, **config}
    return OllamaProvider(ProviderConfig(**settings), environ=environ or {})


async def completed(provider: OllamaProvider, request: ProviderRequest | None = None) -> ProviderResponse:
    try:
        return await provider.complete(request or asking())
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


# --- where and as whom ------------------------------------------------------------------------


@pytest.mark.covers("OLL-01")
@pytest.mark.parametrize(
    ("base_url", "environ", "url"),
    [
        ("", {}, "http://localhost:11434"),
        ("", {"OLLAMA_HOST": ""}, "http://localhost:11434"),
        ("", {"OLLAMA_HOST": "gpu-box"}, "http://gpu-box:11434"),
        ("", {"OLLAMA_HOST": "gpu-box:8000"}, "http://gpu-box:8000"),
        ("", {"OLLAMA_HOST": ":8000"}, "http://localhost:8000"),
        ("", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434"),
        ("", {"OLLAMA_HOST": "http://0.0.0.0:8000/"}, "http://127.0.0.1:8000"),
        ("", {"OLLAMA_HOST": "[::]:8000"}, "http://[::1]:8000"),
        ("", {"OLLAMA_HOST": '"https://models.example"'}, "https://models.example"),
        ("http://h:1", {"OLLAMA_HOST": "gpu-box"}, "http://h:1"),
        ("http://h:1/", {}, "http://h:1"),
        ("http://h:1/v1", {}, "http://h:1"),
        ("http://h:1/v1/chat/completions", {}, "http://h:1"),
        ("http://h:1/api/", {}, "http://h:1"),
        ("http://h:1/api/chat", {}, "http://h:1"),
        ("https://me:word@h/ollama/api", {}, "https://me:word@h/ollama"),
        (" h ", {}, "http://h:11434"),
    ],
)
def test_the_server_is_that_of_the_settings_or_the_environment_or_this_machine(
    base_url: str, environ: dict[str, str], url: str
) -> None:
    assert provider_at(base_url, environ).endpoint == url


def test_without_the_environment_only_the_settings_count() -> None:
    extra = {"use_environment": False}
    assert provider_at("", {"OLLAMA_HOST": "gpu-box"}, extra).endpoint == "http://localhost:11434"


@pytest.mark.parametrize("address", ["http://exa mple", "http://[::1", "ftp://host", "https://", "h:port"])
def test_an_address_that_is_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^provider\.base_url is no URL"):
        provider_at(address)


def test_its_name_opens_it_without_any_package_of_a_vendor() -> None:
    assert isinstance(open_provider(ProviderConfig(name="ollama", model="m")), OllamaProvider)


async def test_requests_have_no_key_unless_one_is_set(server: Any) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, {"OLLAMA_API_KEY": "of-the-cloud"}))
    await completed(provider_at(server.url, api_key=" mine ", extra={**FIXED, "extra_headers": {"X-A": "1"}}))
    usual = {
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "content-type": "application/json",
        "user-agent": f"aar/{__version__}",
    }
    headers = [
        {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        for request in server.requests
    ]
    assert headers == [usual, usual | {"authorization": "Bearer mine", "x-a": "1"}]


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://ollama.com", "k"),
        ("https://eu.ollama.com/", "k"),
        ("http://ollama.com", ""),
        ("https://notollama.com", ""),
        ("", ""),
    ],
)
def test_the_key_in_the_environment_is_for_the_makers_own_service_alone(url: str, key: str) -> None:
    assert provider_at(url, {"OLLAMA_API_KEY": "k"}).api_key == key


async def test_a_key_that_travels_unencrypted_is_warned_of_once(
    server: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, api_key="k"))
    provider = provider_at("http://models.example", api_key="k")
    for _ in range(2):
        await completed(provider)
    assert caplog.messages == ["The key goes to http://models.example unencrypted: use https://"]


# --- the body ---------------------------------------------------------------------------------


@pytest.mark.covers("OLL-02")
async def test_the_body_has_the_limit_among_the_options_and_keeps_the_model_five_minutes(server: Any) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, temperature=0.5), asking(system="be brief", tools=TOOLS))
    [request] = server.requests
    assert (request.method, request.path) == ("POST", "/api/chat")
    assert request.json == {
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "model": "qwen3",
        "stream": False,
        "options": {"temperature": 0.5, "num_predict": 4096},
        "keep_alive": "5m",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "list",
                    "description": "List.",
                    "parameters": {"type": "object", "properties": {}},
                },
            },
            {"type": "function", "function": {"name": "write_file", "description": "Write.", "parameters": SCHEMA}},
        ],
    }


@pytest.mark.parametrize(
    ("config", "request_limit", "options"),
    [
        ({"max_tokens": 7}, None, {"num_predict": 7}),
        ({"max_tokens": 7}, 3, {"num_predict": 3}),
        ({"max_tokens": 0}, None, {}),
        ({"max_tokens": 7, "temperature": 0.0}, None, {"num_predict": 7}),
        ({"max_tokens": 7, "extra": {**FIXED, "num_predict": -1}}, None, {"num_predict": -1}),
    ],
)
async def test_limits_and_temperatures_that_say_nothing_are_not_sent(
    config: dict[str, Any], request_limit: int | None, options: dict[str, Any], server: Any
) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, **config), asking(max_tokens=request_limit))
    assert server.requests[0].json["options"] == options


@pytest.mark.covers("OLL-03", "PRV-10")
async def test_extra_keys_are_options_of_the_model_but_for_those_of_aar(server: Any) -> None:
    server.sends_json(ANSWER)
    extra = {
        "num_ctx": 8192,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": None,
        "keep_alive": "10m",
        "read_timeout": 5,
        "timeout": 5,
        "first_byte_timeout": 5,
        "idle_timeout": 5,
        "supports_reasoning": False,
        "supports_tools": True,
        "supports_vision": True,
        "supports_audio": True,
        "use_environment": True,
        "extra_headers": {},
        "auth_header": "x-key",
        "response_format": "text",
    }
    await completed(provider_at(server.url, extra=extra, max_tokens=1))
    assert server.requests[0].json == {
        "messages": HI,
        "model": "qwen3",
        "stream": False,
        "options": {"num_predict": 1, "top_p": 0.9, "stop": ["END"], "num_ctx": 8192},
        "keep_alive": "10m",
    }


async def test_how_long_a_model_is_kept_and_cutting_can_be_left_to_the_server_or_not(server: Any) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, extra={**FIXED, "keep_alive": None, "truncate": False}))
    body = server.requests[0].json
    assert ("keep_alive" in body, body["truncate"], body["options"]) == (False, False, {"num_predict": 4096})


@pytest.mark.covers("OLL-04")
@pytest.mark.parametrize(
    ("extra", "sent"),
    [
        ({}, {}),
        ({"supports_reasoning": False}, {}),
        ({"supports_reasoning": True}, {"think": True}),
        ({"supports_reasoning": True, "think": "high"}, {"think": "high"}),
        ({"think": False}, {"think": False}),
        ({"supports_reasoning": True, "think": None}, {}),
        ({"think": ""}, {}),
    ],
)
async def test_a_thinking_model_is_told_to_think(extra: dict[str, Any], sent: dict[str, Any], server: Any) -> None:
    server.sends_json(ANSWER | {"message": {"role": "assistant", "content": "42", "thinking": " six by seven "}})
    answer = await completed(provider_at(server.url, extra=FIXED | extra))
    body = server.requests[0].json
    assert {name: value for name, value in body.items() if name == "think"} == sent
    assert [(block.content, block.data) for block in answer.reasoning] == [
        ("six by seven", {"provider": "ollama", "replay": True})
    ]
    assert answer.content == "42"


@pytest.mark.parametrize("extra", [{"think": 3}, {"num_ctx": "8k"}, {"num_ctx": 0}, {"num_ctx": True}])
def test_a_setting_that_cannot_be_meant_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match=rf"^provider\.extra\.{next(iter(extra))} must be"):
        provider_at("", extra=extra)


@pytest.mark.covers("OLL-08")
async def test_a_model_without_tools_is_not_told_of_any(server: Any) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, extra={**FIXED, "supports_tools": False}), asking(tools=TOOLS))
    assert "tools" not in server.requests[0].json


async def test_answers_in_json_are_asked_for_in_the_words_of_ollama(server: Any) -> None:
    server.sends_json(ANSWER)
    wrapped = {"name": "n", "schema": SCHEMA}
    configs: list[dict[str, Any]] = [
        {"response_format": "text"},
        {"response_format": "json"},
        {"extra": {**FIXED, "response_format": "json_object"}},
        {"response_format": "json_schema", "json_schema": SCHEMA},
        {"response_format": "json_schema", "json_schema": wrapped},
        {"response_format": "json_schema", "extra": {**FIXED, "json_schema_def": SCHEMA}},
    ]
    for config in configs:
        await completed(provider_at(server.url, **config))
    formats = [request.json.get("format") for request in server.requests]
    assert formats == [None, "json", "json", SCHEMA, SCHEMA, SCHEMA]


async def test_a_missing_schema_is_warned_of_and_text_is_asked_for(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, response_format="json_schema"))
    assert "format" not in server.requests[0].json
    assert caplog.messages == ["response_format is json_schema and there is no provider.json_schema: asking for text"]


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


@pytest.mark.parametrize(
    ("extra", "flags"),
    [
        ({}, (True, False, True, True, True)),
        ({"supports_vision": False, "supports_reasoning": True}, (True, True, True, True, False)),
        ({"supports_tools": False, "think": "low"}, (False, True, True, True, True)),
        ({"think": False}, (True, False, True, True, True)),
    ],
)
def test_capabilities_follow_the_settings(extra: dict[str, Any], flags: tuple[bool, ...]) -> None:
    names = ("tools", "reasoning", "streaming", "structured_output", "vision")
    assert provider_at("", extra=extra).capabilities() == {"name": "ollama", **dict(zip(names, flags, strict=True))}


@pytest.mark.covers("OLL-12")
def test_reading_has_no_limit_when_the_settings_say_so() -> None:
    limits = [
        (found.first_byte_timeout, found.idle_timeout, found.answer_timeout)
        for found in (provider_at("", extra=extra) for extra in ({"read_timeout": None}, {"read_timeout": 9}, {}))
    ]
    assert limits == [(None, None, None), (9.0, 9.0, 9.0), (600.0, 600.0, 600.0)]


# --- what a model refuses ---------------------------------------------------------------------


async def test_a_model_that_knows_no_tools_is_asked_again_without_them(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    refuses(server, "registry.ollama.ai/library/gemma3:4b does not support tools")
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    assert provider.supports_tools
    answers = [(await provider.complete(asking(tools=TOOLS))).content for _ in range(2)]
    await provider.aclose()
    assert answers == ["hello", "hello"]
    assert ["tools" in request.json for request in server.requests] == [True, False, False]
    assert caplog.messages == ["ollama/qwen3: it cannot call tools, so it can talk and not act"]
    assert not provider.supports_tools


@pytest.mark.parametrize(
    ("think", "texts", "sent"),
    [
        (True, ['"qwen3" does not support thinking'], [True, None, None]),
        ("high", ['think value "high" is not supported for this model'], ["high", True, True]),
        (
            "max",
            [
                'invalid think value: "max" (must be "high", "medium", "low", true, or false)',
                "does not support thinking",
            ],
            ["max", True, None, None],
        ),
    ],
)
async def test_a_model_that_does_not_think_that_way_is_asked_again(
    think: Any, texts: list[str], sent: list[Any], server: Any
) -> None:
    for text in texts:
        refuses(server, text)
    server.sends_json(ANSWER)
    provider = provider_at(server.url, extra={**FIXED, "think": think})
    for _ in range(2):
        assert (await provider.complete(asking())).content == "hello"
    await provider.aclose()
    assert [request.json.get("think") for request in server.requests] == sent
    assert provider.supports_reasoning is bool(sent[-1])


async def test_a_model_that_sees_nothing_is_sent_the_words_alone(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    refuses(server, "this model is missing data required for image input", 500)
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    assert (await completed(provider, asking(LOOK))).content == "hello"
    assert [request.json["messages"] for request in server.requests] == [
        [{"role": "user", "content": "look", "images": ["iVBORw0="]}],
        [{"role": "user", "content": "look"}],
    ]
    assert caplog.messages == [
        "ollama/qwen3: it sees no images: they are left out",
        "Not sent to Ollama: an image, which the model cannot see",
    ]
    assert not provider.supports_vision


async def test_two_sessions_that_are_refused_at_the_same_time_both_get_their_answer(server: Any) -> None:
    both_asked = trio.Event()

    async def play(connection: Any) -> None:
        if len(server.requests) == 2:
            both_asked.set()
        await both_asked.wait()
        await connection.begin(400, "application/json")
        await connection.send(b'{"error":"it does not support tools"}')
        await connection.end()

    server.plays(play)
    server.plays(play)
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    answers: list[str] = []

    async def ask() -> None:
        answers.append((await provider.complete(asking(tools=TOOLS))).content)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
    await provider.aclose()
    assert (answers, len(server.requests)) == (["hello", "hello"], 4)


async def test_a_refusal_that_nothing_helps_against_is_raised_once(server: Any) -> None:
    refuses(server, "invalid model name")
    with pytest.raises(ProviderError, match="invalid model name"):
        await completed(provider_at(server.url))
    assert len(server.requests) == 1


# --- connections ------------------------------------------------------------------------------


async def test_sessions_that_share_a_provider_get_each_their_own_answer(server: Any) -> None:
    async def echo(connection: Any) -> None:
        text = server.requests[-1].json["messages"][-1]["content"]
        await connection.begin(200, "application/json")
        await connection.send(json.dumps(ANSWER | {"message": {"role": "assistant", "content": text}}).encode())
        await connection.end()

    server.plays(echo)
    provider = provider_at(server.url)
    answers: dict[str, str] = {}

    async def ask(text: str) -> None:
        answers[text] = (await provider.complete(asking([{"role": "user", "content": text}]))).content

    async with trio.open_nursery() as nursery:
        for index in range(20):
            nursery.start_soon(ask, f"prompt {index}")
    await provider.aclose()
    assert answers == {f"prompt {index}": f"prompt {index}" for index in range(20)}


async def test_a_borrowed_pool_stays_open(server: Any) -> None:
    from aar.providers.http import HttpPool

    server.sends_json(ANSWER)
    pool = HttpPool()
    config = ProviderConfig(name="ollama", model="qwen3", base_url=server.url, extra=FIXED)
    for _ in range(2):
        await completed(OllamaProvider(config, pool=pool, environ={}))
    await pool.aclose()
    assert server.connections == 1


def test_settings_are_looked_at_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        provider_at("http://far.example", api_key="k", response_format="json_schema")
    assert caplog.messages == []
