"""How large a window the Ollama adapter asks for, when it warns of one that is too small, and what models there are."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
import trio

from aar.errors import BadProviderReply, ProviderUnavailable
from aar.messages.provider import History, ModelInfo, NeutralMessage, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.providers.ollama import OllamaProvider
from aar.providers.ollama_models import ModelCard, model_names, read_card

HI: list[NeutralMessage] = [{"role": "user", "content": "hi"}]
ANSWER = {"model": "m", "message": {"role": "assistant", "content": "hello"}, "done": True, "done_reason": "stop"}


def provider_at(url: str, extra: dict[str, Any] | None = None, **config: Any) -> OllamaProvider:
    settings = {"name": "ollama", "model": "m", "base_url": url, "extra": extra or {}, **config}
    return OllamaProvider(ProviderConfig(**settings), environ={})


def asking(text: str = "hi") -> ProviderRequest:
    return ProviderRequest(History([{"role": "user", "content": text}]))


def card(limit: int, arch: str = "qwen3", **more: Any) -> dict[str, Any]:
    return {"model_info": {"general.architecture": arch, f"{arch}.context_length": limit}, **more}


def sent(server: Any) -> list[Any]:
    """Each request: the path of one that only asks, the window of one for an answer."""
    return [
        request.json["options"].get("num_ctx") if request.path == "/api/chat" else request.path
        for request in server.requests
    ]


# --- how large --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "window"),
    [
        (card(40_960), 32_768),
        (card(8192), 8192),
        (card(131_072, parameters="stop  <|im_end|>\nnum_ctx                        65536\ntop_p 1"), 65_536),
        (card(262_144, remote_host="https://ollama.com:443"), 262_144),
        ({}, None),
    ],
)
async def test_the_window_is_that_of_the_model_up_to_what_most_machines_can_hold(
    facts: dict[str, Any], window: int | None, server: Any
) -> None:
    server.sends_json(facts)
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    for _ in range(2):
        await provider.complete(asking())
    await provider.aclose()
    assert sent(server) == ["/api/show", window, window]
    assert server.requests[0].json == {"model": "m"}


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"context_window": 65_536}, 65_536),
        ({"extra": {"num_ctx": 9000}}, 9000),
        ({"extra": {"num_ctx": 9000}, "context_window": 65_536}, 9000),
        ({"extra": {"num_ctx": None}, "context_window": 65_536}, None),
    ],
)
async def test_a_window_that_was_chosen_is_taken_and_nothing_is_asked(
    config: dict[str, Any], window: int | None, server: Any
) -> None:
    server.sends_json(ANSWER)
    provider = provider_at(server.url, **config)
    await provider.complete(asking())
    await provider.aclose()
    assert sent(server) == [window]


@pytest.mark.parametrize(
    ("status", "body", "asked_again"),
    [
        (404, b'{"error":"model \'m\' not found"}', True),
        (503, b'{"error":"server busy"}', True),
        (404, b"404 page not found", False),
        (200, b"<html>", False),
        (200, b"[]", False),
        (200, b'{"model_info":{"general.architecture":3,"x.context_length":"long"},"parameters":7}', False),
    ],
)
async def test_a_server_that_does_not_describe_its_models_answers_all_the_same(
    status: int, body: bytes, asked_again: bool, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.sends_json(body, status)
    server.sends_json(ANSWER)
    if asked_again:
        server.sends_json(card(8192))
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    for _ in range(2):
        assert (await provider.complete(asking())).content == "hello"
    await provider.aclose()
    assert sent(server) == ["/api/show", None, *(["/api/show", 8192] if asked_again else [None])]
    assert caplog.messages == []


async def test_a_server_that_is_silent_about_its_models_is_waited_for_five_seconds(
    server: Any, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.02

    async def silent(connection: Any) -> None:
        await connection.client_leaves()
        await connection.close()

    server.plays(silent)
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    began = trio.current_time()
    assert (await provider.complete(asking())).content == "hello"
    assert 5 <= trio.current_time() - began < 6
    await provider.aclose()


@pytest.mark.parametrize("is_known", [True, False])
async def test_sessions_that_start_together_ask_once(is_known: bool, server: Any) -> None:
    async def play(connection: Any) -> None:
        is_card = server.requests[-1].path == "/api/show"
        body = (card(8192) if is_known else {"error": "busy"}) if is_card else ANSWER
        await connection.begin(503 if is_card and not is_known else 200, "application/json")
        await connection.send(json.dumps(body).encode())
        await connection.end()

    server.plays(play)
    provider = provider_at(server.url)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(provider.complete, asking())
    await provider.aclose()
    assert sent(server) == ["/api/show", *[8192 if is_known else None] * 3]


async def test_a_window_that_the_machine_cannot_hold_is_halved_until_it_fits(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    no_memory = {"error": "model requires more system memory (12.1 GiB) than is available (7.6 GiB)"}
    server.sends_json(card(131_072))
    server.sends_json(no_memory, 500)
    server.sends_json(no_memory, 500)
    server.sends_json(ANSWER)
    provider = provider_at(server.url)
    for _ in range(2):
        await provider.complete(asking())
    await provider.aclose()
    assert sent(server) == ["/api/show", 32_768, 16_384, 8192, 8192]
    assert caplog.messages == [
        "ollama/m: too little memory for 32,768 tokens: trying 16,384",
        "ollama/m: too little memory for 16,384 tokens: trying 8,192",
    ]


async def test_a_window_that_was_chosen_is_never_made_smaller(server: Any) -> None:
    server.sends_json({"error": "model requires more system memory than is available"}, 500)
    provider = provider_at(server.url, context_window=65_536)
    with pytest.raises(ProviderUnavailable):
        await provider.complete(asking())
    await provider.aclose()
    assert sent(server) == [65_536]


# --- when it is too small ---------------------------------------------------------------------


async def test_a_prompt_beyond_the_window_is_warned_of_until_one_fits_again(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.sends_json(ANSWER)
    provider = provider_at(server.url, context_window=1000)
    for size in (3000, 8000, 9000, 3000, 8000):
        await provider.complete(asking("x" * size))
    await provider.aclose()
    text = (
        "The prompt has about {} tokens, and the window of ollama/m takes 1,000: Ollama drops the oldest messages. Set "
        "provider.context_window: Ollama then makes the window as large, and Aar sends no more than that."
    )
    assert caplog.messages == [text.format("2,033"), text.format("2,033")]


async def test_images_do_not_count_as_text(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    server.sends_json(ANSWER)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "AAAA" * 5000}}
    messages: list[NeutralMessage] = [{"role": "user", "content": [{"type": "text", "text": "look"}, picture]}]
    provider = provider_at(server.url, context_window=1000)
    await provider.complete(ProviderRequest(History(messages)))
    await provider.aclose()
    assert caplog.messages == []


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_window_that_turns_out_to_be_full_is_warned_of_once(
    streaming: bool, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    full = ANSWER | {"prompt_eval_count": 990, "eval_count": 10}
    if streaming:
        server.sends(json.dumps(full).encode() + b"\n", kind="application/x-ndjson")
    else:
        server.sends_json(full)
    provider = provider_at(server.url, context_window=1000)
    for _ in range(2):
        await provider.complete(asking())
    await provider.aclose()
    assert caplog.messages == [
        "The window of ollama/m is full (1,000 tokens): Ollama cut the prompt or the answer. "
        "Set a larger provider.context_window."
    ]


async def test_nothing_is_said_of_a_window_that_nobody_knows(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    server.sends_json(ANSWER | {"prompt_eval_count": 10**6})
    provider = provider_at(server.url, {"num_ctx": None})
    await provider.complete(asking("x" * 100_000))
    await provider.aclose()
    assert caplog.messages == []


# --- which models -----------------------------------------------------------------------------


async def test_the_models_are_listed_with_what_they_can_do(server: Any) -> None:
    cards = {
        "qwen3:8b": card(40_960, capabilities=["completion", "tools", "thinking"]),
        "llava": card(4096, "llama", capabilities=["completion", "vision"]),
        "nomic-embed-text": card(2048, "bert", capabilities=["embedding"]),
        "old": {"model_info": {"llama.context_length": 2048}},
    }

    async def play(connection: Any) -> None:
        request = server.requests[-1]
        if request.path == "/api/tags":
            status, body = 200, {"models": [{"name": name, "size": 1} for name in [*cards, "gone"]]}
        else:
            name = request.json["model"]
            status, body = (200, cards[name]) if name in cards else (404, {"error": f"model '{name}' not found"})
        await connection.begin(status, "application/json")
        await connection.send(json.dumps(body).encode())
        await connection.end()

    server.plays(play)
    provider = provider_at(server.url)
    assert await provider.models() == (
        ModelInfo("qwen3:8b", 40_960, None, ("tools", "thinking")),
        ModelInfo("llava", 4096, None, ("vision",)),
        ModelInfo("old", 2048, None, ()),
        ModelInfo("gone"),
    )
    await provider.aclose()
    assert [(request.method, request.path) for request in server.requests[:2]] == [
        ("GET", "/api/tags"),
        ("POST", "/api/show"),
    ]


async def test_without_a_server_there_is_no_list_of_models(server: Any) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(ProviderUnavailable, match=r"^Ollama is not running at "):
            await provider_at(f"http://127.0.0.1:{held.getsockname()[1]}").models()
    server.sends(b"<html>", 200, "text/html")
    provider = provider_at(server.url)
    with pytest.raises(BadProviderReply, match="something that is no JSON"):
        await provider.models()
    await provider.aclose()


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"models": [{"name": "a"}, {"model": "b"}, {"name": 3}, "c", {}]}, ["a", "b"]),
        ({"models": None}, []),
        ({}, []),
        ([], []),
    ],
)
def test_a_list_of_models_is_read_with_patience(answer: Any, names: list[str]) -> None:
    assert model_names(answer) == names


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (card(8192, capabilities=["completion", 3]), ModelCard(8192, None, ("completion",))),
        ({"model_info": {"a.context_length": 10, "b.context_length": 20}}, ModelCard(20)),
        (card(8192, parameters="num_ctx 0"), ModelCard(8192)),
        (card(-1), ModelCard()),
        ({"model_info": [], "capabilities": "all"}, ModelCard()),
    ],
)
def test_the_description_of_a_model_is_read_with_patience(answer: Any, found: ModelCard) -> None:
    assert read_card(answer) == found
