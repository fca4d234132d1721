"""Bodies of errors that do not end, or that tell what nobody should read: the same for all adapters."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import trio

import aar.providers.bodies
import aar.providers.error_bodies
from aar.errors import ProviderError, ProviderUnauthorized, ProviderUnavailable
from aar.messages.provider import History, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.providers import open_provider
from aar.providers.failures import describe_body

KEY = "my-own-key-0123456789"
ADAPTERS = ["anthropic", "gemini", "generic", "ollama", "openai"]


async def failure_of(name: str, url: str) -> ProviderError:
    """What an adapter says that asks this server, through its vendor's package where there is one."""
    extra: dict[str, Any] = {"num_ctx": 4096} if name == "ollama" else {}
    if name == "gemini":
        url, extra = "", {"sdk_base_url": url}
    provider = open_provider(ProviderConfig(name=name, model="m", api_key=KEY, base_url=url, extra=extra))
    try:
        with pytest.raises(ProviderError) as caught:
            await provider.complete(ProviderRequest(History([{"role": "user", "content": "hi"}])))
    finally:
        await provider.aclose()
    return caught.value


@pytest.mark.parametrize("name", ADAPTERS)
async def test_an_error_whose_body_does_not_end_is_told_with_what_came(
    name: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (aar.providers.bodies, aar.providers.error_bodies):
        monkeypatch.setattr(module, "ERROR_TIMEOUT", 0.1)
    has_left = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin(401, "application/json")
        await connection.send(b'{"error":{"message":"wrong key"}}')
        await connection.client_leaves()
        has_left.set()

    server.plays(play)
    with trio.fail_after(30):  # the first use of a vendor's package takes a while
        error = await failure_of(name, server.url)
        await has_left.wait()
    assert isinstance(error, ProviderUnauthorized)
    assert "wrong key" in str(error)


@pytest.mark.parametrize("name", ADAPTERS)
async def test_of_an_error_with_a_body_without_end_only_the_start_is_read(name: str, server: Any) -> None:
    sent = 0

    async def play(connection: Any) -> None:
        nonlocal sent
        await connection.begin(500, "text/plain")
        while True:
            await connection.send(b"x" * 65_536)
            sent += 1

    server.plays(play)
    with trio.fail_after(30):
        error = await failure_of(name, server.url)
    assert isinstance(error, ProviderUnavailable)
    assert len(str(error)) < 600
    assert sent < 400  # what the sockets hold


@pytest.mark.parametrize("name", ADAPTERS)
async def test_a_key_that_a_server_repeats_is_in_none_of_the_errors_that_a_log_may_tell(name: str, server: Any) -> None:
    server.sends_json({"error": {"message": f"unknown key {KEY}"}}, status=401)
    error = await failure_of(name, server.url)
    assert "[redacted]" in str(error)
    assert KEY not in "".join(traceback.format_exception(error))


def test_a_page_of_titles_without_ends_is_looked_at_no_longer_than_any_other() -> None:
    assert describe_body("<title> " * 500_000) == "a web page instead of an answer"


async def test_a_long_word_in_an_error_of_openai_holds_nobody_up(server: Any) -> None:
    server.sends_json({"error": {"message": "x" * 60_000 + " sk-ab***-yz"}}, status=500)
    with trio.fail_after(20):
        error = await failure_of("openai", server.url)
        await trio.lowlevel.checkpoint()
    assert "***" not in str(error)
