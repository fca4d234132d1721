"""The gemini adapter, through the vendor's client and by HTTP, against a server that speaks the API."""

from __future__ import annotations

import inspect
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
import trio

from aar.errors import (
    InvalidSetting,
    MissingPackage,
    ProviderError,
)
from aar.messages.provider import History, ModelInfo, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers.gemini import GeminiProvider
from aar.providers.http import HttpPool

KEY = "AIza-secret-key"
MODEL = "gemini-2.5-flash"
HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolSchema("b", "B.", SCHEMA), ToolSchema("a", "A.", {"type": "object"}))
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
Plain = Callable[[Any], Any]


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


def asking(*, system: str = "", tools: tuple[ToolSchema, ...] | None = None, **more: Any) -> ProviderRequest:
    return ProviderRequest(History(list(HI)), system=system, tools=tools, **more)


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


# --- what is sent ---------------------------------------------------------------------------------


@pytest.mark.covers("GEM-01")
async def test_without_an_address_the_vendors_client_speaks_to_the_api(server: Any) -> None:
    server.sends_chunks(*CHUNKS, done=False)
    server.sends_json(WHOLE)
    provider = provider_at(server.url, "sdk")
    await asked(provider, streaming=True)
    await asked(provider, streaming=False)
    await provider.aclose()
    assert [sent.path for sent in server.requests] == [
        f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse",
        f"/v1beta/models/{MODEL}:generateContent",
    ]
    for sent in server.requests:
        assert sent.headers["x-goog-api-key"] == KEY
        assert sent.headers["x-goog-api-client"].startswith("google-genai-sdk/")


@pytest.mark.covers("GEM-01")
def test_without_an_address_the_vendors_package_is_needed_and_with_one_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "google.genai", None)
    with pytest.raises(MissingPackage, match=r"pip install 'aar-agent\[gemini\]'"):
        GeminiProvider(ProviderConfig(name="gemini", model=MODEL, api_key=KEY), environ={})
    provider_at("http://localhost:1")


@pytest.mark.covers("GEM-02", "GEM-04")
async def test_with_an_address_requests_go_there_with_the_key_in_its_header(server: Any) -> None:
    server.sends_chunks(*CHUNKS, done=False)
    server.sends_json(WHOLE)
    provider = provider_at(server.url)
    await asked(provider, streaming=True)
    await asked(provider, streaming=False)
    await provider.aclose()
    assert [(sent.path, sent.headers["api-key"]) for sent in server.requests] == [
        (f"/v1beta/models/{MODEL}:streamGenerateContentSse", KEY),
        (f"/v1beta/models/{MODEL}:generateContent", KEY),
    ]


@pytest.mark.covers("GEM-04")
@pytest.mark.parametrize(
    ("path", "extra", "header"),
    [("/m", {}, "api-key"), ("/m", {"auth_header": "X-Key"}, "x-key"), ("/v1beta", {}, "x-goog-api-key")],
)
async def test_the_header_of_the_key_can_be_named(server: Any, path: str, extra: dict[str, Any], header: str) -> None:
    server.sends_json(WHOLE)
    config = ProviderConfig(name="gemini", model=MODEL, base_url=server.url + path, api_key=KEY, extra=extra)
    provider = GeminiProvider(config)
    await provider.complete(asking())
    await provider.aclose()
    found = {name: value for name, value in server.requests[0].headers.items() if value == KEY}
    assert found == {header: KEY}


@pytest.mark.covers("GEM-03")
async def test_endpoints_are_used_as_they_are(server: Any) -> None:
    server.sends_chunks(*CHUNKS, done=False)
    server.sends_json(WHOLE)
    extra = {"endpoint": f"{server.url}/ask?v=1", "stream_endpoint": f"{server.url}/listen"}
    provider = GeminiProvider(ProviderConfig(name="gemini", model=MODEL, api_key=KEY, extra=extra), environ={})
    await asked(provider, streaming=True)
    await asked(provider, streaming=False)
    await provider.aclose()
    assert [sent.path for sent in server.requests] == ["/listen", "/ask?v=1"]


@pytest.mark.covers("GEM-05")
@pytest.mark.parametrize("base_url", ["", "http://localhost:1/m"])
def test_a_key_is_required_and_may_come_from_the_environment(base_url: str) -> None:
    config = ProviderConfig(name="gemini", model=MODEL, base_url=base_url)
    with pytest.raises(ValueError, match="set GEMINI_API_KEY in the environment, or provider"):
        GeminiProvider(config, environ={})
    GeminiProvider(config, environ={"GEMINI_API_KEY": KEY})
    with pytest.raises(ValueError, match="no key"):
        GeminiProvider(config.model_copy(update={"extra": {"use_environment": False}}), environ={"GEMINI_API_KEY": KEY})


@both_modes
@pytest.mark.covers("GEM-14", "PRV-10")
async def test_the_whole_body_has_only_what_the_api_documents(server: Any, mode: str) -> None:
    server.sends_json(WHOLE)
    extra = {
        "thinking_budget": 256,
        "timeout": 5,
        "read_timeout": 5,
        "first_byte_timeout": 5,
        "idle_timeout": 5,
        "use_environment": True,
        "api": "x",
        "supports_reasoning": True,
        "supports_vision": True,
        "auth_header": "x-goog-api-key",
        "extra_headers": {"x-team": "blue"},
        "generation_config": {"topK": 3},
        "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    }
    settings = {"temperature": 0.5, "max_tokens": 100, "response_format": "json"}
    provider = provider_at(server.url, mode, extra=extra, model="gemini-3-pro", **settings)
    await provider.complete(asking(system="Be brief.", tools=TOOLS))
    await provider.aclose()
    [sent] = server.requests
    assert sent.headers["x-team"] == "blue"
    assert sent.body.startswith(b'{"contents":')
    assert sent.json == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "a", "description": "A."},
                    {"name": "b", "description": "B.", "parameters": SCHEMA},
                ]
            }
        ],
        "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 0.5,
            "thinkingConfig": {"thinkingBudget": 256, "includeThoughts": True},
            "responseMimeType": "application/json",
            "topK": 3,
        },
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    }


@pytest.mark.covers("GEM-14")
async def test_an_older_model_that_has_tools_is_told_of_the_format_in_words(server: Any) -> None:
    server.sends_json(WHOLE)
    provider = provider_at(server.url, response_format="json_schema", json_schema={"type": "boolean"})
    await provider.complete(asking(system="Be brief.", tools=TOOLS))
    await provider.complete(asking())
    await provider.aclose()
    told = 'Your final answer must be one JSON value that fits this schema, and nothing else: {"type": "boolean"}'
    first, second = (sent.json for sent in server.requests)
    assert first["systemInstruction"]["parts"] == [{"text": f"Be brief.\n\n{told}"}]
    assert "responseSchema" not in first["generationConfig"]
    assert second["generationConfig"]["responseSchema"] == {"type": "boolean"}


@pytest.mark.covers("GEM-12")
@both_modes
async def test_images_are_sent(server: Any, mode: str) -> None:
    server.sends_json(WHOLE)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}
    messages: list[NeutralMessage] = [{"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}]
    provider = provider_at(server.url, mode)
    await provider.complete(ProviderRequest(History(messages)))
    await provider.aclose()
    data = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0="}}
    assert server.requests[0].json["contents"] == [{"role": "user", "parts": [data, {"text": "What is it?"}]}]


@both_modes
async def test_a_default_budget_that_the_model_refuses_is_left_out_from_then_on(
    server: Any, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.sends_json(error(400, "Budget 0 is invalid. This model only works in thinking mode."), 400)
    server.sends_json(WHOLE)
    provider = provider_at(server.url, mode)
    with caplog.at_level(logging.WARNING):
        await provider.complete(asking())
        await provider.complete(asking())
    await provider.aclose()
    sent = [request.json["generationConfig"].get("thinkingConfig") for request in server.requests]
    assert sent == [{"thinkingBudget": 0}, None, None]
    assert "refuses the thinking budget" in caplog.text


async def test_a_budget_that_was_asked_for_is_not_left_out(server: Any) -> None:
    server.sends_json(error(400, "The thinking budget (9) is invalid."), 400)
    found = await failed(provider_at(server.url, extra={"thinking_budget": 9}), ProviderError, streaming=False)
    assert str(found) == "Gemini returned HTTP 400: The thinking budget (9) is invalid."
    assert len(server.requests) == 1


# --- what comes back ------------------------------------------------------------------------------


@both_modes
@pytest.mark.parametrize("streaming", [False, True])
async def test_an_answer_comes_whole_or_in_pieces(server: Any, mode: str, streaming: bool, plain: Plain) -> None:
    if streaming:
        server.sends_chunks(*CHUNKS, done=False)
    else:
        server.sends_json(WHOLE)
    provider = provider_at(server.url, mode)
    found = await asked(provider, streaming=streaming)
    await provider.aclose()
    if streaming:
        assert [delta.text for delta in found[:-1] if delta.text] == ["hel", "lo"]
        assert plain(found[-1]) == ("done", "end_turn", [], ("gemini", MODEL, "r1", {}))
    else:
        usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
        assert plain(found) == ("hello", [], "end_turn", [], ("gemini", "gemini-2.5-flash-001", "r1", usage))


@both_modes
async def test_parallel_calls_go_to_and_fro_with_their_signatures(server: Any, mode: str) -> None:
    parts = [
        {"text": "Look", "thought": True},
        {"functionCall": {"name": "a", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "b", "args": {"path": "p"}}},
    ]
    server.sends_chunks({"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}]})
    server.sends_json(WHOLE)
    provider = provider_at(server.url, mode, model="gemini-3-pro-preview")
    deltas = await asked(provider, streaming=True, request=asking(tools=TOOLS))
    calls = [delta.tool_call_delta for delta in deltas if delta.tool_call_delta]
    [block] = deltas[-1].reasoning
    answer = [
        {"type": "reasoning", "text": block.content, "data": block.data},
        *(
            {"type": "tool_use", "id": each.tool_call_id, "name": each.tool_name, "input": each.arguments}
            for each in calls
        ),
    ]
    results = [
        {"type": "tool_result", "tool_use_id": each.tool_call_id, "content": "ok", "is_error": False} for each in calls
    ]
    messages: list[NeutralMessage] = [
        *HI,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": results},
    ]
    await provider.complete(ProviderRequest(History(messages), tools=TOOLS))
    await provider.aclose()
    assert deltas[-1].stop_reason == "tool_use"
    assert server.requests[1].json["contents"][1:] == [
        {"role": "model", "parts": parts[1:]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": name, "response": {"content": "ok"}}} for name in "ab"],
        },
    ]


@both_modes
async def test_a_server_that_streams_an_array_or_answers_whole_is_read_as_well(server: Any, mode: str) -> None:
    server.sends_json(list(CHUNKS))
    server.sends_json(WHOLE)
    server.sends_chunks(*CHUNKS)
    provider = provider_at(server.url, mode)
    texts = ["".join(delta.text for delta in await asked(provider, streaming=True)) for _ in range(2)]
    whole = await asked(provider, streaming=False)
    await provider.aclose()
    assert [*texts, whole.content] == ["hello", "hello", "hello"]


async def test_what_follows_a_finished_answer_is_not_waited_for_long(
    server: Any, mock_clock: trio.testing.MockClock
) -> None:
    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(b"data: " + json.dumps(CHUNKS[1]).encode() + b"\n\n")
        await connection.client_leaves()

    server.plays(play)
    provider = provider_at(server.url)
    async with aclosing(provider.stream(asking())) as deltas:
        assert (await anext(deltas)).text == "lo"
        mock_clock.autojump_threshold = 0.01
        start = trio.current_time()
        assert [delta.stop_reason async for delta in deltas] == ["end_turn"]
        assert 5.0 <= trio.current_time() - start < 5.5
        mock_clock.autojump_threshold = float("inf")
    await provider.aclose()


async def test_a_finish_reason_in_every_chunk_ends_nothing_early(server: Any) -> None:
    server.sends_chunks(CHUNKS[1], CHUNKS[1], CHUNKS[1], done=False)
    provider = provider_at(server.url)
    found = await asked(provider, streaming=True)
    await provider.aclose()
    assert "".join(delta.text for delta in found) == "lololo"


@both_modes
async def test_models_are_listed(server: Any, mode: str) -> None:
    server.sends_json(
        {"models": [{"name": f"models/{MODEL}", "inputTokenLimit": 9, "outputTokenLimit": 3, "thinking": True}]}
    )
    provider = provider_at(server.url, mode)
    assert await provider.models() == (ModelInfo(MODEL, 9, 3, ("thinking",)),)
    await provider.aclose()
    [sent] = server.requests
    assert (sent.method, sent.path) == ("GET", "/v1beta/models?pageSize=1000")


async def test_an_address_without_a_list_of_models_has_none() -> None:
    provider = GeminiProvider(ProviderConfig(name="gemini", model="m", api_key=KEY, base_url="http://localhost:1/ask"))
    assert await provider.models() == ()


@pytest.mark.parametrize(
    ("name", "extra", "reasoning"),
    [("gemini-2.5-flash", {}, False), ("gemini-2.5-pro", {}, True), ("gemini-2.5-flash", {"thinking_budget": 9}, True)],
)
def test_it_says_what_it_can_do(name: str, extra: dict[str, Any], reasoning: bool) -> None:
    assert provider_at("http://localhost:1", model=name, extra=extra).capabilities() == {
        "name": "gemini",
        "tools": True,
        "reasoning": reasoning,
        "streaming": True,
        "structured_output": True,
        "vision": True,
    }


# --- the vendor's client --------------------------------------------------------------------------


async def test_the_level_of_the_vendors_client_that_is_used_is_there(server: Any) -> None:
    """Two private names stand between us and a copy of the whole conversation at every call."""
    from google.genai._api_client import BaseApiClient, HttpRequest, HttpResponse

    built = inspect.signature(BaseApiClient._build_request).parameters
    assert list(built)[:4] == ["self", "http_method", "path", "request_dict"]
    sent = inspect.signature(BaseApiClient._async_request).parameters
    assert {"http_request", "stream"} <= set(sent)
    assert {"data", "timeout", "url", "headers"} <= set(HttpRequest.__dataclass_fields__)
    assert "response_stream" in inspect.signature(HttpResponse.__init__).parameters


async def test_a_version_of_the_vendors_client_without_that_level_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from google.genai._api_client import BaseApiClient

    monkeypatch.delattr(BaseApiClient, "_async_request")
    provider = provider_at("http://localhost:1", "sdk")
    with pytest.raises(MissingPackage, match="This version of google-genai is not known to Aar"):
        await provider.complete(asking())
    await provider.aclose()


async def test_nothing_of_the_environment_gets_into_the_vendors_client(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "another-key")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://localhost:1")
    server.sends_json(WHOLE)
    extra = {"use_environment": False, "sdk_base_url": server.url}
    provider = GeminiProvider(ProviderConfig(name="gemini", model=MODEL, api_key=KEY, extra=extra))
    await provider.complete(asking())
    await provider.aclose()
    [sent] = server.requests
    assert (sent.path, sent.headers["x-goog-api-key"]) == (f"/v1beta/models/{MODEL}:generateContent", KEY)


def test_opening_it_loads_neither_the_vendors_package_nor_the_http_library() -> None:
    program = (
        "import sys\n"
        "from aar.messages.settings import ProviderConfig\n"
        "from aar.providers import open_provider\n"
        "open_provider(ProviderConfig(name='gemini', model='m', api_key='key'))\n"
        "print(sorted({'httpx2', 'google.genai'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base_url": "ftp://host"}, "no URL of a server"),
        ({"base_url": "http://host/m", "api_key": "a\nb"}, "characters that no header can carry"),
        ({"extra": {"thinking_budget": "x"}}, "thinking_budget"),
        ({"extra": {"generation_config": []}}, "generation_config must be an object"),
        ({"extra": {"generation_config": "x"}}, "generation_config must be an object"),
        ({"extra": {"safety_settings": {"a": 1}}}, "safety_settings must be a list"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        GeminiProvider(ProviderConfig(**{"name": "gemini", "model": MODEL, "api_key": KEY, **settings}), environ={})
