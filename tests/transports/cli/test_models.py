"""`aar models`: what is configured, and what each provider offers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trio


class Lists:
    """A server that answers each path with one document; a path that it does not know with 404."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.documents: dict[str, Any] = {}
        self.asked: list[str] = []

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                more = await stream.receive_some()
                if not more:
                    return
                data += more
            path = data.split(b" ")[1].decode().split("?")[0]
            self.asked.append(path)
            found = self.documents.get(path)
            status = b"404 Not Found" if found is None else b"200 OK"
            body = json.dumps(found if found is not None else {"error": {"message": "no such path"}}).encode()
            head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            try:
                await stream.send_all(head % (status, len(body)) + body)
            except trio.BrokenResourceError:
                return


@pytest.fixture
async def lists(nursery: trio.Nursery) -> AsyncIterator[Lists]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found = Lists(listener.socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, found.serve, [listener])
    yield found
    nursery.cancel_scope.cancel()


class Pages:
    """A server that answers everything with a web page."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.status = 200

    async def serve(self, stream: trio.SocketStream) -> None:
        body = b"<html><title>Log in</title></html>"
        head = f"HTTP/1.1 {self.status} So\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n\r\n"
        async with stream:
            await stream.receive_some()
            await stream.send_all(head.encode() + body)


@pytest.fixture
async def server_of_pages(nursery: trio.Nursery) -> AsyncIterator[Pages]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found = Pages(listener.socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, found.serve, [listener])
    yield found
    nursery.cancel_scope.cancel()


def profiles(url: str) -> Mapping[str, Any]:
    return {
        "fast": {"name": "generic", "model": "small", "base_url": f"{url}/v1", "api_key": "sk-secret-of-mine"},
        "slow": {"name": "generic", "model": "big", "base_url": f"{url}/v1", "api_key": "sk-secret-of-mine"},
        "gone": {"name": "generic", "model": "x", "base_url": "http://127.0.0.1:9/v1"},
    }


async def test_the_profiles_are_listed_and_what_their_providers_offer_asked_once_for_each(aar, place, lists):
    lists.documents["/v1/models"] = {"data": [{"id": "small", "max_model_len": 8192}, {"id": "big"}]}
    place.configure(provider="fast", providers=profiles(lists.url), fallback_providers=["slow"])
    (place.home / "pricing.json").write_text('{"big": {"input_per_million": 2, "output_per_million": 8}}')
    done = await aar("models")
    assert done.code == 0
    assert lists.asked == ["/v1/models"]
    assert done.out == (
        "Configured:\n"
        "  * fast  generic/small  8k context\n"
        "    slow  generic/big  $2 in / $8 out per million tokens\n"
        "    gone  generic/x\n"
        "  When one cannot be reached: slow\n"
        "\n"
        f"generic at {lists.url}/v1 offers:\n"
        "    big  $2 in / $8 out per million tokens\n"
        "    small  8k context\n"
        "\n"
        "generic at http://127.0.0.1:9/v1: Could not connect to the provider — check that the server URL is correct "
        "and the service is running.\n"
    )
    assert "sk-secret-of-mine" not in done.out + done.err


async def test_programs_get_the_same_as_json(aar, place, lists):
    lists.documents["/v1/models"] = {"data": [{"id": "small", "meta": {"n_ctx_train": 4096}}]}
    place.configure(provider=profiles(lists.url)["fast"])
    done = await aar("models", "--output", "json")
    row = {"model": "small", "context_window": 4096, "max_output": None, "abilities": [], "price": None}
    assert json.loads(done.out) == {
        "configured": [{"profile": None, "provider": "generic", "active": True, **row}],
        "offered": [{"provider": "generic", "base_url": f"{lists.url}/v1", "problem": None, "models": [row]}],
    }


async def test_ollama_tells_what_its_models_can_do(aar, place, lists):
    lists.documents["/api/tags"] = {"models": [{"name": "qwen3:4b", "model": "qwen3:4b"}]}
    place.configure(provider={"name": "ollama", "model": "qwen3:4b", "base_url": lists.url})
    done = await aar("models")
    assert done.code == 0
    assert "  * ollama/qwen3:4b" in done.out
    assert f"ollama at {lists.url} offers:\n    qwen3:4b" in done.out


@pytest.mark.parametrize("body", [{"data": None}, [], {"data": [1]}, {"data": [{}]}, "text"])
async def test_a_list_that_is_none_is_said_to_be_none(aar, place, lists, body):
    lists.documents["/v1/models"] = body
    place.configure(provider=profiles(lists.url)["fast"])
    done = await aar("models")
    assert done.code == 1
    assert "lists no models" in done.out
    assert "Traceback" not in done.out + done.err


async def test_when_nobody_answers_the_exit_code_says_so(aar, place):
    place.configure(provider={"name": "generic", "model": "m", "base_url": "http://127.0.0.1:9/v1"})
    done = await aar("models")
    assert done.code == 1
    assert "Could not connect to the provider" in done.out


async def test_a_password_in_an_address_is_not_shown(aar, place):
    place.configure(provider={"name": "generic", "model": "m", "base_url": "http://me:pass-word@127.0.0.1:9/v1?k=key5"})
    done = await aar("models")
    assert "generic at http://127.0.0.1:9/v1" in done.out
    assert "pass-word" not in done.out + done.err
    assert "key5" not in done.out + done.err


async def test_prices_of_the_settings_models_need_no_server(aar, place):
    place.configure(provider={"name": "generic", "model": "big", "base_url": "http://127.0.0.1:9/v1"})
    (place.home / "pricing.json").write_text('{"big": {"input_per_million": 2, "output_per_million": 8}}')
    done = await aar("models")
    assert "  * generic/big  $2 in / $8 out per million tokens\n" in done.out


@pytest.mark.parametrize(
    ("prices", "told"),
    [
        ("{bad", "pricing.json is passed over: Expecting property name"),
        ("[]", "pricing.json is passed over: it must hold a JSON object {...}"),
        ('{"_note": 1, "big": {"input": 3}}', "pricing.json: no price in big. A price has input_per_million, "),
        ('{"big": {"input_per_million": "2"}}', "pricing.json: no price in big. A price has input_per_million, "),
    ],
)
async def test_a_mistake_in_the_prices_is_told_once(aar, place, prices, told):
    place.configure(provider={"name": "generic", "model": "big", "base_url": "http://127.0.0.1:9/v1"})
    (place.home / "pricing.json").write_text(prices)
    done = await aar("models")
    assert done.err.count(told) == 1


async def test_a_wrong_provider_or_address_is_told_in_words_of_people(aar, place):
    place.configure(provider={"name": "nonsense"})
    assert "\nnonsense: Unknown provider: 'nonsense'. Available: " in (await aar("models")).out
    place.configure(provider={"name": "generic"})
    done = await aar("models")
    assert done.code == 1
    assert "  * generic\n\ngeneric: No server to ask: set provider.base_url or GENERIC_ENDPOINT" in done.out


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "Authentication failed — check your API key. Generic provider refused the key (HTTP 401): a web page "),
        (404, "Provider returned an error: Generic provider returned HTTP 404: a web page "),
        (200, "{url}/chat/completions answered with something that is no JSON: a web page "),
    ],
)
async def test_a_web_page_instead_of_a_list_is_told_with_the_setting_to_check(
    aar, place, server_of_pages, status, told
):
    server_of_pages.status = status
    place.configure(provider={"name": "generic", "model": "m", "base_url": server_of_pages.url, "api_key": "sk-9"})
    done = await aar("models")
    assert done.code == 1
    line = done.out.splitlines()[-1]
    assert line.startswith(f"generic at {server_of_pages.url}: {told.format(url=server_of_pages.url)}")
    assert (
        "(check GENERIC_API_KEY or provider.api_key)" in line if status == 401 else "(check provider.base_url" in line
    )
