"""What the openai adapter sends to chat completions, where it sends it, and the errors it gives."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
import trio

from aar.errors import (
    BadProviderReply,
    InvalidSetting,
    MissingPackage,
    ProviderError,
    ProviderUnauthorized,
)
from aar.messages.provider import History, ModelInfo, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers import open_provider
from aar.providers.openai import OpenAIProvider

HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
TOOLS = (ToolSchema("b", "B.", {"type": "object"}), ToolSchema("a", "A.", {"type": "object"}))
ANSWER = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}
PIECES = ({"choices": [{"delta": {"content": "hello"}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]})
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


def asking(*, system: str = "", tools: tuple[ToolSchema, ...] | None = None, **more: Any) -> ProviderRequest:
    return ProviderRequest(History(list(HI)), system=system, tools=tools, **more)


def provider_at(url: str, environ: dict[str, str] | None = None, **config: Any) -> OpenAIProvider:
    config = {"name": "openai", "model": "m", "base_url": url, "api_key": "sk-test-key", **config}
    return OpenAIProvider(ProviderConfig(**config), environ=environ or {})


async def completed(provider: OpenAIProvider, request: ProviderRequest | None = None) -> Any:
    try:
        return await provider.complete(request or asking())
    finally:
        await provider.aclose()


async def streamed(provider: OpenAIProvider, request: ProviderRequest | None = None) -> list[Any]:
    try:
        async with aclosing(provider.stream(request or asking())) as deltas:
            return [delta async for delta in deltas]
    finally:
        await provider.aclose()


def body_for(request: ProviderRequest, *, streaming: bool = False, **config: Any) -> Any:
    provider = provider_at("", **config)
    return json.loads(provider._api.body(request, provider._fields, streaming=streaming))


# --- what is sent -----------------------------------------------------------------------------


@pytest.mark.covers("OAI-01")
async def test_a_request_says_what_is_set_and_nothing_else(server: Any) -> None:
    server.sends_json(ANSWER)
    provider = provider_at(server.url + "/v1", model="gpt-4o", temperature=0.5, max_tokens=7)
    await completed(provider, asking(system="be brief", tools=TOOLS))
    [sent] = server.requests
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.body == (
        b'{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"model":"gpt-4o",'
        b'"max_tokens":7,"temperature":0.5,"tools":['
        b'{"type":"function","function":{"name":"a","description":"A.","parameters":{"type":"object"}}},'
        b'{"type":"function","function":{"name":"b","description":"B.","parameters":{"type":"object"}}}]}'
    )


@pytest.mark.covers("OAI-01", "OAI-04")
async def test_a_streamed_request_asks_for_usage(server: Any) -> None:
    server.sends_chunks(*PIECES)
    await streamed(provider_at(server.url, max_tokens=0))
    assert server.requests[0].json == {
        "messages": HI,
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("model", "extra", "limit"),
    [
        ("gpt-4o", {}, {"max_tokens": 9}),
        ("deepseek-chat", {}, {"max_tokens": 9}),
        ("gpt-5", {}, {"max_completion_tokens": 9}),
        ("o3-mini", {}, {"max_completion_tokens": 9}),
        ("openai/gpt-5.4-mini", {}, {"max_completion_tokens": 9}),
        ("my-deployment", {"supports_reasoning": True}, {"max_completion_tokens": 9}),
        ("gpt-5", {"max_tokens_field": "max_tokens"}, {"max_tokens": 9}),
        ("gpt-5", {"max_completion_tokens": 3}, {"max_completion_tokens": 3}),
    ],
)
def test_models_that_reason_get_the_new_name_of_the_limit(model: str, extra: Any, limit: Any) -> None:
    body = body_for(asking(max_tokens=9), model=model, extra=extra)
    assert {name: value for name, value in body.items() if "max" in name} == limit


@pytest.mark.covers("OAI-02")
@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, None),
        ({"response_format": "text"}, None),
        ({"response_format": "json"}, {"type": "json_object"}),
        ({"response_format": "json_schema"}, None),
        (
            {"response_format": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        ),
        (
            {"response_format": "json_schema", "json_schema": {"type": "object"}},
            {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
        ),
        ({"extra": {"response_format": "json"}}, {"type": "json_object"}),
        ({"response_format": "json", "extra": {"response_format": {"type": "text"}}}, {"type": "text"}),
    ],
)
def test_the_format_of_the_answer_is_asked_for(config: dict[str, Any], field: Any) -> None:
    assert body_for(asking(), **config).get("response_format") == field


@pytest.mark.covers("PRV-10")
def test_keys_that_are_for_aar_or_another_provider_are_never_sent_and_all_others_are() -> None:
    ours = dict.fromkeys(("supports_tools", "supports_reasoning", "supports_vision", "use_environment"), True)
    ours |= dict.fromkeys(("timeout", "read_timeout", "first_byte_timeout", "idle_timeout", "num_ctx"), 5)
    ours |= {"api": "chat", "auth_header": "x-key", "extra_headers": {"x-a": "1"}, "endpoint": "https://h"}
    ours |= {"organization": "o", "project": "p", "keep_alive": "5m", "thinking_budget": 1, "cache": False}
    ours |= {"messages": [], "model": "other", "stream": True, "tools": []}
    theirs = {"reasoning_effort": "low", "seed": 1, "top_p": 0.5, "service_tier": "flex", "stop": None}
    body = body_for(asking(), max_tokens=0, extra=ours | theirs)
    assert body == {"messages": HI, "model": "m", "reasoning_effort": "low", "seed": 1, "top_p": 0.5} | {
        "service_tier": "flex"
    }


def test_openai_itself_is_told_the_session_for_its_cache_and_nothing_it_does_not_know() -> None:
    extra = {"thinking": {"type": "enabled"}, "top_k": 3, "seed": 1}
    names = {
        url: set(body_for(asking(session_id="s1"), base_url=url, max_tokens=0, extra=extra)) - {"messages", "model"}
        for url in ("https://api.openai.com/v1", "https://elsewhere/v1")
    }
    assert names == {
        "https://api.openai.com/v1": {"prompt_cache_key", "seed"},
        "https://elsewhere/v1": {"thinking", "top_k", "seed"},
    }


def test_a_model_without_tools_is_not_told_of_any() -> None:
    assert "tools" not in body_for(asking(tools=TOOLS), extra={"supports_tools": False})


def test_images_go_out_as_they_are_and_lost_sound_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "look"}, IMAGE, {"type": "audio", "audio": {"url": "x"}}]
    history = History([{"role": "user", "content": blocks}])
    provider = provider_at("")
    for _ in range(3):
        body = provider._api.body(ProviderRequest(history), provider._fields, streaming=False)
    assert json.loads(body)["messages"] == [{"role": "user", "content": blocks[:2]}]
    assert caplog.messages == ["Left out audio, which this kind of API does not take"]


def test_the_next_request_begins_with_the_bytes_of_the_one_before() -> None:
    talk: list[NeutralMessage] = [*HI, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "more"}]
    provider = provider_at("")
    bodies = [
        provider._api.body(ProviderRequest(History(talk[:size]), "s", TOOLS), provider._fields, streaming=True)
        for size in (1, 3)
    ]
    start = bodies[0].index(b'],"model"')
    assert bodies[1].startswith(bodies[0][:start])
    again = provider._api.body(ProviderRequest(History(talk), "s", TOOLS[::-1]), provider._fields, streaming=True)
    assert again == bodies[1]


# --- where it goes ----------------------------------------------------------------------------


@pytest.mark.covers("OAI-03")
@pytest.mark.parametrize("path", ["", "/v1", "/v1/", "/api/v3", "/v1/chat/completions"])
async def test_a_compatible_host_is_asked_at_its_base_url(path: str, server: Any) -> None:
    server.sends_json(ANSWER)
    answer = await completed(provider_at(server.url + path))
    assert answer.content == "hello"
    root = path.rstrip("/").removesuffix("/chat/completions")
    assert server.requests[0].path == f"{root}/chat/completions"


@pytest.mark.parametrize(
    ("config", "environ", "url"),
    [
        ({}, {}, "https://api.openai.com/v1"),
        ({}, {"OPENAI_BASE_URL": "https://env/v1"}, "https://env/v1"),
        ({"base_url": "https://base/v1"}, {"OPENAI_BASE_URL": "https://env/v1"}, "https://base/v1"),
        ({"extra": {"endpoint": "https://extra/v1"}}, {}, "https://extra/v1"),
        ({"extra": {"use_environment": False}}, {"OPENAI_BASE_URL": "https://env/v1"}, "https://api.openai.com/v1"),
        ({"base_url": "host/v1"}, {}, "https://host/v1"),
        ({"base_url": "localhost:1/v1"}, {}, "http://localhost:1/v1"),
    ],
)
def test_the_address_comes_from_the_settings_then_the_environment(config: Any, environ: Any, url: str) -> None:
    assert provider_at(**{"url": "", "environ": environ, **config_of(config)}).endpoint == url


def config_of(config: dict[str, Any]) -> dict[str, Any]:
    """`base_url` is called `url` here."""
    return {("url" if name == "base_url" else name): value for name, value in config.items()}


def own_headers(server: Any) -> dict[str, str]:
    vendor = ("x-stainless-", "host", "content-length", "connection", "user-agent", "accept")
    return {name: value for name, value in server.requests[0].headers.items() if not name.startswith(vendor)}


@pytest.mark.parametrize(
    ("config", "environ", "headers"),
    [
        ({}, {}, {"authorization": "Bearer sk-test-key"}),
        ({"api_key": ""}, {"OPENAI_API_KEY": " sk-env "}, {"authorization": "Bearer sk-env"}),
        ({"api_key": "", "extra": {"use_environment": False}}, {"OPENAI_API_KEY": "sk-env"}, {}),
        ({"api_key": ""}, {}, {}),
        ({"extra": {"auth_header": "Api-Key"}}, {}, {"api-key": "sk-test-key"}),
        (
            {"extra": {"organization": "org-1", "project": "proj-1"}},
            {"OPENAI_ORG_ID": "org-2"},
            {
                "authorization": "Bearer sk-test-key",
                "openai-organization": "org-1",
                "openai-project": "proj-1",
            },
        ),
        (
            {"extra": {"extra_headers": {"Authorization": "Basic x", "X-A": "1"}}},
            {"OPENAI_PROJECT_ID": "proj-2", "OPENAI_CUSTOM_HEADERS": "X-B: 2\nX-A: 9"},
            {"authorization": "Basic x", "x-a": "1", "x-b": "2", "openai-project": "proj-2"},
        ),
    ],
)
async def test_the_key_and_what_the_settings_add_travel_in_headers(
    config: dict[str, Any], environ: dict[str, str], headers: dict[str, str], server: Any
) -> None:
    server.sends_json(ANSWER)
    await completed(provider_at(server.url, environ, **config))
    assert own_headers(server) == {"content-type": "application/json", **headers}


async def test_the_real_environment_is_only_looked_at_where_it_may_be(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "https://nowhere.invalid")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: 1\nAuthorization: Bearer other")
    server.sends_json(ANSWER)
    config = ProviderConfig(name="openai", model="m", base_url=server.url, extra={"use_environment": False})
    await completed(OpenAIProvider(config))
    assert own_headers(server) == {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("extra", "path"),
    [
        ({}, "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"),
        ({"azure_deployment": "mine"}, "/openai/deployments/mine/chat/completions?api-version=2024-10-21"),
        ({"api_version": "2025-01-01"}, "/openai/deployments/gpt-4o/chat/completions?api-version=2025-01-01"),
        ({"api": "responses"}, "/openai/responses?api-version=2025-04-01-preview"),
    ],
)
async def test_azure_has_an_address_per_deployment_and_its_own_header(
    extra: dict[str, Any], path: str, server: Any
) -> None:
    server.sends_json(ANSWER | {"output": [], "status": "completed"})
    extra = {"azure_endpoint": server.url, **extra}
    environ = {"AZURE_OPENAI_API_KEY": "azure-key", "OPENAI_API_KEY": "other"}
    await completed(provider_at("", environ, model="gpt-4o", api_key="", extra=extra))
    assert server.requests[0].path == path
    assert own_headers(server) == {"content-type": "application/json", "api-key": "azure-key"}


async def test_azure_takes_a_token_in_place_of_a_key(server: Any) -> None:
    server.sends_json(ANSWER)
    extra = {"azure_endpoint": server.url, "extra_headers": {"Authorization": "Bearer token-of-entra"}}
    await completed(provider_at("", api_key="", extra=extra))
    assert own_headers(server) == {"content-type": "application/json", "authorization": "Bearer token-of-entra"}


async def test_openai_itself_is_not_asked_without_a_key() -> None:
    with pytest.raises(ProviderUnauthorized, match=r"set OPENAI_API_KEY in the environment"):
        await completed(provider_at("", api_key=""))


async def test_a_key_that_travels_unencrypted_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    provider = provider_at("http://host.invalid:1/v1")
    for _ in range(2):
        with pytest.raises(ProviderError):
            await provider.complete(asking())
    await provider.aclose()
    assert caplog.messages == ["The key goes to http://host.invalid:1/v1 unencrypted: use https://"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"extra": {"api": "completions"}}, "provider.extra.api is 'completions': use one of chat, responses"),
        ({"base_url": "ftp://host"}, "provider.base_url is no URL of a server"),
        ({"base_url": "https://h/v1 x"}, "provider.base_url is no URL of a server"),
        ({"extra": {"azure_endpoint": "://"}}, "provider.base_url is no URL of a server"),
        ({"api_key": "sk-\nsecret"}, "provider.api_key"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSetting, match=text) as caught:
        provider_at(**{"url": "", **config_of(settings)})
    assert "secret" not in str(caught.value)


# --- what it is able to do --------------------------------------------------------------------


@pytest.mark.covers("OAI-09")
@pytest.mark.parametrize(
    ("model", "extra", "sees"),
    [
        ("gpt-4", {}, True),
        ("gpt-4.1-mini", {}, True),
        ("gpt-5", {}, True),
        ("o1", {}, True),
        ("o3-pro", {}, True),
        ("chatgpt-4o-latest", {}, True),
        ("llama-vision", {}, True),
        ("gpt-3.5-turbo", {}, False),
        ("deepseek-chat", {}, False),
        ("my-o1", {}, False),
        ("gpt-4", {"supports_vision": False}, False),
        ("deepseek-chat", {"supports_vision": True}, True),
    ],
)
def test_a_model_that_sees_is_known_by_its_name_unless_the_settings_say(model: str, extra: Any, sees: bool) -> None:
    assert provider_at("", model=model, extra=extra).capabilities()["vision"] is sees


@pytest.mark.parametrize(
    ("model", "extra", "reasons"),
    [
        ("gpt-5", {}, False),
        ("gpt-5", {"supports_reasoning": True}, True),
        ("gpt-5", {"api": "responses"}, True),
        ("gpt-4o", {"api": "responses"}, False),
        ("gpt-5-chat-latest", {"api": "responses"}, False),
        ("gpt-5", {"api": "responses", "supports_reasoning": False}, False),
    ],
)
def test_capabilities_follow_the_api_and_the_settings(model: str, extra: dict[str, Any], reasons: bool) -> None:
    assert provider_at("", model=model, extra={"supports_vision": False, **extra}).capabilities() == {
        "name": "openai",
        "tools": True,
        "reasoning": reasons,
        "streaming": True,
        "structured_output": True,
        "vision": False,
    }


def test_models_that_think_in_silence_are_waited_for() -> None:
    usual, own = provider_at(""), provider_at("", extra={"idle_timeout": 5, "first_byte_timeout": None})
    assert (usual.first_byte_timeout, usual.idle_timeout) == (600.0, 300.0)
    assert (own.first_byte_timeout, own.idle_timeout) == (None, 5.0)


async def test_the_models_of_a_server_are_listed_by_name(server: Any) -> None:
    server.sends_json(
        {"object": "list", "data": [{"id": "b", "created": 1}, {"id": "a", "max_model_len": 4096}, {"id": 3}]}
    )
    server.sends_json({"detail": "no list here"})
    server.sends_json({"error": {"message": "Not found"}}, 404)
    provider = provider_at(server.url + "/v1")
    assert await provider.models() == (ModelInfo("3"), ModelInfo("a", context_window=4096), ModelInfo("b"))
    with pytest.raises(BadProviderReply, match="lists no models"):
        await provider.models()
    with pytest.raises(ProviderError, match=r"HTTP 404"):
        await provider.models()
    await provider.aclose()
    assert [(request.method, request.path) for request in server.requests] == [("GET", "/v1/models")] * 3


# --- learning ---------------------------------------------------------------------------------


def refusal(text: str) -> dict[str, Any]:
    return {"error": {"message": text, "type": "invalid_request_error"}}


OLD_LIMIT = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."


async def test_what_a_model_refuses_is_renamed_or_left_out_from_then_on(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.sends_json(refusal(OLD_LIMIT), 400)
    server.sends_json(refusal("Unsupported value: 'temperature' does not support 0.2 with this model."), 400)
    server.sends_json(refusal("Unrecognized request argument supplied: stream_options"), 400)
    server.sends_chunks(*PIECES)
    provider = provider_at(server.url, model="my-deployment", temperature=0.2)
    await streamed(provider)
    await streamed(provider)
    assert [sorted(set(request.json) - {"messages", "model", "stream"}) for request in server.requests] == [
        ["max_tokens", "stream_options", "temperature"],
        ["max_completion_tokens", "stream_options", "temperature"],
        ["max_completion_tokens", "stream_options"],
        ["max_completion_tokens"],
        ["max_completion_tokens"],
    ]
    assert caplog.messages == [
        f"The server does not take '{name}': trying without it"
        for name in ("max_tokens", "temperature", "stream_options")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens is too large: 99999. This model supports at most 16384 completion tokens.",
        "Invalid value for 'max_completion_tokens': too large. Allowed: at most 100000.",
        "Invalid schema for function 'a'",
    ],
)
async def test_a_refusal_that_another_request_would_meet_as_well_is_raised(text: str, server: Any) -> None:
    server.sends_json(refusal(text), 400)
    with pytest.raises(ProviderError, match=text[:20]):
        await completed(provider_at(server.url, model="gpt-5"))
    assert len(server.requests) == 1


async def test_a_limit_refused_under_both_names_is_not_tried_for_ever(server: Any) -> None:
    server.sends_json(refusal(OLD_LIMIT), 400)
    server.sends_json(refusal("Unknown parameter: 'max_completion_tokens'."), 400)
    with pytest.raises(ProviderError, match="Unknown parameter"):
        await completed(provider_at(server.url))
    assert len(server.requests) == 2


# --- the package ------------------------------------------------------------------------------


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "openai")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    with pytest.raises(MissingPackage, match=r"pip install 'aar-agent\[openai\]'"):
        open_provider(ProviderConfig(name="openai"))


def test_the_package_is_loaded_with_the_first_request_and_gives_no_warning() -> None:
    program = (
        "import sys, trio\n"
        "from aar.messages.provider import History, ProviderRequest\n"
        "from aar.messages.settings import ProviderConfig\n"
        "from aar.providers import open_provider\n"
        "provider = open_provider(ProviderConfig(name='openai', base_url='http://127.0.0.1:9/v1', api_key='k'))\n"
        "before = {'httpx2', 'openai'} & set(sys.modules)\n"
        "async def main():\n"
        "    try:\n"
        "        await provider.complete(ProviderRequest(History([{'role': 'user', 'content': 'hi'}])))\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
        "    await provider.aclose()\n"
        "trio.run(main)\n"
        "print(sorted(before), sorted({'httpx2', 'openai'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ProviderUnavailable\n[] ['httpx2', 'openai']\n", "")


# --- connections ------------------------------------------------------------------------------


@pytest.fixture
async def provider(server: Any) -> AsyncIterator[OpenAIProvider]:
    found = provider_at(server.url)
    yield found
    await found.aclose()


async def test_a_kept_connection_that_the_server_closed_costs_nothing_but_a_new_one(
    server: Any, provider: OpenAIProvider
) -> None:
    async def play(connection: Any) -> None:
        data = json.dumps(ANSWER).encode()
        await connection.begin(200, "application/json")
        await connection.send(data)
        await connection.end()
        await connection.close()

    server.plays(play)
    for _ in range(3):
        assert (await provider.complete(asking())).content == "hello"
    assert server.connections == 3


async def test_sessions_share_a_provider_and_each_gets_its_own_answer(server: Any, provider: OpenAIProvider) -> None:
    both = trio.Event()

    async def play(connection: Any) -> None:
        if len(server.requests) == 2:
            both.set()
        said = server.requests[-1].json["messages"][0]["content"]
        await both.wait()
        await connection.begin()
        for piece in (said, "!"):
            await connection.send(b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % piece.encode())
        await connection.send(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
        await connection.end()

    server.plays(play)
    answers: dict[str, str] = {}

    async def ask(text: str) -> None:
        async with aclosing(provider.stream(ProviderRequest(History([{"role": "user", "content": text}])))) as deltas:
            answers[text] = "".join([delta.text async for delta in deltas])

    with trio.fail_after(10):
        async with trio.open_nursery() as sessions:
            for text in ("one", "two"):
                sessions.start_soon(ask, text)
    assert answers == {"one": "one!", "two": "two!"}


@pytest.mark.parametrize("begins", [True, False])
async def test_cancelling_a_silent_stream_closes_its_connection_at_once(
    begins: bool, server: Any, provider: OpenAIProvider, nursery: trio.Nursery
) -> None:
    waiting, left, scope = trio.Event(), trio.Event(), trio.CancelScope()

    async def play(connection: Any) -> None:
        if begins:
            await connection.begin()
            await connection.send(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        waiting.set()
        await connection.client_leaves()
        left.set()

    async def ask() -> None:
        with scope:
            async with aclosing(provider.stream(asking())) as deltas:
                async for _ in deltas:
                    pass

    server.plays(play)
    nursery.start_soon(ask)
    with trio.fail_after(10):
        await waiting.wait()
        scope.cancel()
        await left.wait()
