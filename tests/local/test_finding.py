"""Nobody named a model: what is found, and what is said about it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from aar.local import Found, find_model
from aar.messages.settings import ProviderConfig
from aar.providers import PROVIDERS


def answer(body: bytes, status: int = 200) -> bytes:
    head = f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def list_of(*names: str) -> bytes:
    return answer(json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in names]}).encode())


@asynccontextmanager
async def model_server(
    reply: bytes | None, on_request: Callable[[bytes], None] = lambda _: None
) -> AsyncGenerator[str]:
    """The base URL of a server that sends `reply` to everybody, or nothing at all."""

    async def serve(stream: trio.SocketStream) -> None:
        on_request(await stream.receive_some())
        if reply is None:
            await trio.sleep_forever()
        await stream.send_all(reply or b"")
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        port = listeners[0].socket.getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"
        nursery.cancel_scope.cancel()


async def unused_address() -> str:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    return f"http://127.0.0.1:{port}/v1"


def found_server(address: str, model: str) -> ProviderConfig:
    """As it is chosen: whoever listens there gets no key from the environment."""
    return ProviderConfig(name="generic", model=model, base_url=address, extra={"use_environment": False})


async def test_a_running_server_is_used_and_named() -> None:
    requests: list[bytes] = []
    async with model_server(list_of("qwen3:8b", "llama3"), requests.append) as address:
        found = await find_model({}, servers={"LM Studio": await unused_address(), "Ollama": address})
    assert found == Found(
        found_server(address, model="qwen3:8b"),
        (f"Using qwen3:8b of Ollama at {address}, found running on this machine. It has 1 more: choose with --model.",),
    )
    assert [request.split(b"\r\n")[0] for request in requests] == [b"GET /v1/models HTTP/1.1"]


async def test_of_several_servers_the_preferred_one_is_used_and_the_others_are_mentioned() -> None:
    async with model_server(list_of("one")) as first, model_server(list_of("two")) as second:
        found = await find_model({}, servers={"Ollama": first, "vLLM": second})
    assert found.provider == found_server(first, model="one")
    assert found.remarks == (f"Using one of Ollama at {first}, found running on this machine. Also running: vLLM.",)


async def test_a_model_that_was_named_is_used_where_it_is_and_told_of() -> None:
    async with model_server(list_of("one")) as first, model_server(list_of("two", "three")) as second:
        servers = {"Ollama": first, "vLLM": second}
        found = await find_model({}, servers=servers, model="three")
        elsewhere = await find_model({}, servers=servers, model="new")
    assert found == Found(
        found_server(second, model="three"),
        (f"Using three of vLLM at {second}, found running on this machine. Also running: Ollama.",),
    )
    assert elsewhere.provider == found_server(first, model="new")


async def test_a_model_that_was_named_is_used_at_a_configured_endpoint() -> None:
    found = await find_model({"GENERIC_ENDPOINT": "https://models.example/v1"}, servers={}, model="mine")
    assert found == Found(
        ProviderConfig(name="generic", model="mine", base_url="https://models.example/v1"),
        ("Using mine of the server at https://models.example/v1, because GENERIC_ENDPOINT is set.",),
    )


async def test_models_that_cannot_chat_are_not_chosen() -> None:
    async with model_server(list_of("text-embedding-nomic-v1.5", "gemma3")) as address:
        found = await find_model({}, servers={"LM Studio": address})
    assert found.provider is not None
    assert found.provider.model == "gemma3"


@pytest.mark.parametrize(
    "reply",
    [
        answer(b'{"error": "key needed"}', 401),
        answer(b"<html>", 200),
        answer(b"[1, 2]"),
        answer(b'{"data": [1, {"id": 7}, {}]}'),
        answer(b'{"data": []}'),
        answer(b"\xff\xfe"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ],
    ids=["wants-a-key", "html", "a-list", "no-names", "no-models", "no-text", "not-http", "closes"],
)
async def test_something_else_on_a_port_is_no_model_server(reply: bytes) -> None:
    async with model_server(reply) as address:
        assert await find_model({}, servers={"llama.cpp": address}) == Found(None)


async def test_silent_servers_cost_a_third_of_a_second_altogether(autojump_clock: trio.testing.MockClock) -> None:
    async with model_server(None) as first, model_server(None) as second:
        began = trio.current_time()
        found = await find_model({}, servers={"Ollama": first, "vLLM": second})
        seconds = trio.current_time() - began
    assert found == Found(None)
    assert seconds == pytest.approx(0.3, abs=0.01)


async def test_a_fast_server_is_found_beside_a_silent_one() -> None:
    async with model_server(None) as silent, model_server(list_of("mistral")) as fast:
        found = await find_model({}, servers={"Ollama": silent, "llama.cpp": fast})
    assert found.provider == found_server(fast, model="mistral")


async def test_a_configured_endpoint_comes_before_what_runs_by_chance() -> None:
    async with model_server(list_of("other")) as address:
        found = await find_model(
            {"GENERIC_ENDPOINT": "https://user:secret@models.example/v1?key=secret"}, servers={"Ollama": address}
        )
    assert found.provider == ProviderConfig(
        name="generic", model="", base_url="https://user:secret@models.example/v1?key=secret"
    )
    assert found.remarks == (
        "Using the server at models.example/v1, because GENERIC_ENDPOINT is set; name one of its models with --model.",
    )


async def test_a_key_whose_package_is_missing_is_mentioned_with_its_name_and_the_search_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROVIDERS, "gemini", "package_of_google:Provider")
    async with model_server(list_of("phi4")) as address:
        found = await find_model({"GEMINI_API_KEY": "k", "OPENAI_API_KEY": "  "}, servers={"Ollama": address})
    assert found.provider == found_server(address, model="phi4")
    assert found.remarks == (
        "GEMINI_API_KEY is set, but: The provider 'gemini' needs the package 'package_of_google': "
        "pip install 'aar-agent[gemini]'",
        f"Using phi4 of Ollama at {address}, found running on this machine.",
    )


async def test_a_key_whose_package_is_there_is_used_without_asking_any_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "anthropic", "aar.providers.generic:GenericProvider")
    requests: list[bytes] = []
    async with model_server(list_of("phi4"), requests.append) as address:
        found = await find_model({"ANTHROPIC_API_KEY": "k"}, servers={"Ollama": address})
    assert found == Found(
        ProviderConfig(name="anthropic", model="claude-sonnet-4-6"),
        ("Using anthropic/claude-sonnet-4-6, because ANTHROPIC_API_KEY is set.",),
    )
    assert requests == []


async def test_a_model_that_was_named_is_used_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "openai", "aar.providers.generic:GenericProvider")
    found = await find_model({"OPENAI_API_KEY": "k"}, servers={}, model="gpt-5")
    assert found == Found(
        ProviderConfig(name="openai", model="gpt-5"), ("Using openai/gpt-5, because OPENAI_API_KEY is set.",)
    )
