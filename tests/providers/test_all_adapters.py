"""What holds for all adapters: how trouble is told, retried and survived, what is never sent, how they are shared."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing

from aar.client import SessionHandle
from aar.messages.events import ErrorEvent, Notice
from aar.messages.provider import History, ProviderRequest
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.providers import open_provider
from aar.providers.base import Assembly, Provider
from aar.runtime import open_runtime
from aar.testing import ScriptedProvider, facts_of
from tests.providers.conftest import Connection
from tests.providers.wire.form import Answer, WireFormat
from tests.providers.wire.servers import NAMES, Play, Vendors, pieces

HELLO = Answer("hm", "Hello there.")
OTHER = {name: "generic" if name == "anthropic" else "anthropic" for name in NAMES}
LABELS = {"responses": "OpenAI", "openai": "OpenAI", "generic": "Generic provider"}


@pytest.fixture
def vendors(server: Any) -> Vendors:
    return Vendors(server)


def settings(vendors: Vendors, first: str, *, streaming: bool = True, retries: int = 1, **changes: Any) -> AgentConfig:
    profiles = {name: vendors.config(name) for name in NAMES}
    profiles[first] = vendors.config(first, **changes)
    return AgentConfig(provider=first, providers=profiles, streaming=streaming, max_retries=retries)


@asynccontextmanager
async def open_session(config: AgentConfig, folder: Path) -> AsyncIterator[SessionHandle]:
    async with open_runtime(config, home=folder) as runtime:
        yield await runtime.sessions.open(str(folder))


# --- trouble ----------------------------------------------------------------------------------


def answer_of(status: int, kind: str, body: bytes, **headers: str) -> Play:
    async def play(connection: Connection, form: WireFormat) -> None:
        await connection.begin(status, kind, **headers)
        await connection.send(body)
        await connection.end()

    return play


def page(status: int) -> Play:
    return answer_of(status, "text/html", b"<html><head><title>Welcome to nginx</title></head></html>")


def refusal(status: int, messages: dict[str, str], **headers: str) -> Play:
    """The vendor's own words for why not."""

    async def play(connection: Connection, form: WireFormat) -> None:
        body = json.dumps(form.error(status, messages[form.name])).encode()
        await answer_of(status, "application/json", body, **headers)(connection, form)

    return play


async def cut(connection: Connection, form: WireFormat) -> None:
    sent = form.streamed(HELLO)
    await pieces(connection, form, sent[: len(sent) // 2])
    await connection.close()


async def damaged(connection: Connection, form: WireFormat) -> None:
    await pieces(connection, form, [b'{"a": \n' if form.kind.endswith("ndjson") else b'data: {"a": \n\n'])
    await connection.end()


async def nothing(connection: Connection, form: WireFormat) -> None:
    await pieces(connection, form, [])
    await connection.end()


async def silence(connection: Connection, form: WireFormat) -> None:
    await pieces(connection, form, form.streamed(HELLO)[:1])
    await connection.client_leaves()
    await connection.close()


TOO_LONG = {
    "anthropic": "prompt is too long: 205000 tokens > 200000 maximum",
    "openai": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
    "responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "ollama": "input length exceeds maximum context length",
    "generic": "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
}
UNKNOWN = {
    "anthropic": "model: anthropic-vision",
    "openai": "The model `gpt-4o` does not exist or you do not have access to it.",
    "responses": "The requested model 'responses-vision' does not exist.",
    "gemini": "models/gemini-3-pro-preview is not found for API version v1beta",
    "ollama": "model 'ollama-vision' not found",
    "generic": "The model `generic-vision` does not exist.",
}
TIMED_OUT = "Request timed out — the provider took too long to respond. You can try again."
UNEXPECTED = r"Provider returned an unexpected response \({}\). You can try again."
WRONG_KEY = r"Authentication failed — check your API key\.|Ollama at .* refused the request: .*set provider.api_key\."

NO_MODEL = r".*(?:provider\.model|ollama list).*"
RETURNED = "Provider returned an error: LABEL returned HTTP {}: .*"


class Trouble(NamedTuple):
    """What a server does, the error that it is, its status, whether it is tried again, and what a person reads."""

    reply: int | Play
    kind: str
    status: int | None
    is_retried: bool
    sentence: str  # a pattern for the whole; LABEL stands for the vendor


TROUBLE = {
    "wrong key": Trouble(401, "ProviderUnauthorized", 401, False, WRONG_KEY),
    "forbidden": Trouble(403, "ProviderUnauthorized", 403, False, WRONG_KEY),
    "unknown model": Trouble(refusal(404, UNKNOWN), "ProviderError", 404, False, NO_MODEL),
    "wrong path": Trouble(page(404), "ProviderError", 404, False, r".*(?:web page|is no).*check.*provider\.base_url.*"),
    "slow": Trouble(408, "ProviderTimeout", 408, True, re.escape(TIMED_OUT)),
    "too many": Trouble(
        429, "ProviderRateLimited", 429, True, r"Rate limit exceeded — wait a moment, then try again\."
    ),
    "broken": Trouble(500, "ProviderUnavailable", 500, True, RETURNED.format(500)),
    "away": Trouble(503, "ProviderUnavailable", 503, True, RETURNED.format(503)),
    "overloaded": Trouble(529, "ProviderUnavailable", 529, True, RETURNED.format(529)),
    "gateway": Trouble(page(502), "ProviderUnavailable", 502, True, r".*HTTP 502: a web page instead of an answer.*"),
    "a page": Trouble(page(200), "BadProviderReply", None, False, r".*a web page instead of an answer \(Welcome to .*"),
    "cut": Trouble(cut, "AnswerCut", None, True, UNEXPECTED.format("RemoteProtocolError")),
    "damaged": Trouble(damaged, "BadProviderReply", None, True, UNEXPECTED.format("JSONDecodeError")),
    "nothing": Trouble(nothing, "AnswerCut", None, True, UNEXPECTED.format("AnswerCut")),
    "too long": Trouble(refusal(400, TOO_LONG), "ContextTooLong", 400, False, r".*LABEL context limit exceeded.*"),
}


@pytest.mark.covers("PRV-09")
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("trouble", TROUBLE.values(), ids=list(TROUBLE))
async def test_trouble_is_one_sentence_and_the_session_goes_on_with_another_model(
    vendors: Vendors, tmp_path: Path, name: str, trouble: Trouble, streaming: bool
) -> None:
    vendors.replies.extend([trouble.reply, HELLO])
    async with open_session(settings(vendors, name, streaming=streaming), tmp_path) as session:
        assert (await session.prompt("hi")).stop == "error"
        await session.configure({"provider": OTHER[name]})
        assert (await session.prompt("and now?")).stop == "end_turn"
        [error] = [fact for fact in facts_of(session) if isinstance(fact, ErrorEvent)]
    assert (error.data["kind"], error.data["status"]) == (trouble.kind, trouble.status)
    assert error.recoverable == trouble.is_retried
    assert re.fullmatch(trouble.sentence.replace("LABEL", LABELS.get(name, name.capitalize())), error.message)
    assert vendors.formats[name].key not in repr(error)
    assert vendors.findings == []
    assert [who for who, _ in vendors.asked] == [name, OTHER[name]]


@pytest.mark.parametrize("name", NAMES)
async def test_nobody_listens_where_the_model_should_be(vendors: Vendors, tmp_path: Path, name: str) -> None:
    with trio.socket.socket() as taken:  # bound and not listening: connections are refused
        await taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        place = {"extra": {"sdk_base_url": address}} if name == "gemini" else {"base_url": address}
        vendors.replies.append(HELLO)
        async with open_session(settings(vendors, name, **place), tmp_path) as session:
            assert (await session.prompt("hi")).stop == "error"
            await session.configure({"provider": OTHER[name]})
            assert (await session.prompt("and now?")).stop == "end_turn"
            [error] = [fact for fact in facts_of(session) if isinstance(fact, ErrorEvent)]
    assert (error.data["kind"], error.data["status"], error.recoverable) == ("ProviderUnavailable", None, True)
    assert re.search("Could not connect to the provider|Ollama is not running|does not answer", error.message)


@pytest.mark.parametrize("name", NAMES)
async def test_a_model_that_falls_silent_is_given_up_and_its_server_sees_the_close(
    vendors: Vendors, tmp_path: Path, name: str
) -> None:
    vendors.replies.extend([silence, HELLO])
    async with open_session(settings(vendors, name, extra={"idle_timeout": 0.1}), tmp_path) as session:
        assert (await session.prompt("hi")).stop == "error"
        assert (await session.prompt("again")).stop == "end_turn"
        [error] = [fact for fact in facts_of(session) if isinstance(fact, ErrorEvent)]
    assert (error.data["kind"], error.message) == ("ProviderTimeout", TIMED_OUT)


@pytest.mark.covers("PRV-09", "PRV-11")
@pytest.mark.parametrize("name", NAMES)
async def test_a_rate_limit_is_waited_out_for_as_long_as_the_server_says(
    vendors: Vendors, tmp_path: Path, name: str, autojump_clock: trio.testing.MockClock
) -> None:
    slow_down = dict.fromkeys(NAMES, "slow down")
    soon, later = refusal(429, slow_down, retry_after_ms="2000"), refusal(429, slow_down, retry_after="4")
    vendors.replies.extend([soon, later, 529, HELLO])
    async with open_session(settings(vendors, name, retries=4), tmp_path) as session:
        begun = trio.current_time()
        assert (await session.prompt("hi")).stop == "end_turn"
        passed = trio.current_time() - begun
        retries = [fact.data for fact in facts_of(session) if isinstance(fact, Notice) and fact.kind == "retry"]
    assert [retry["attempt"] for retry in retries] == [1, 2, 3]
    assert [retry["delay"] for retry in retries[:2]] == [2, 4]
    assert 2 <= retries[2]["delay"] <= 6
    assert passed >= 8
    assert len(vendors.asked) == 4
    assert len({sent.body for _, sent in vendors.asked}) == 1


# --- cancelling and sharing -------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
async def test_a_cancelled_answer_closes_its_connection(vendors: Vendors, tmp_path: Path, name: str) -> None:
    begun, left = trio.Event(), trio.Event()

    async def play(connection: Connection, form: WireFormat) -> None:
        await pieces(connection, form, form.streamed(HELLO)[:1])
        begun.set()
        await connection.client_leaves()
        left.set()
        await connection.close()

    vendors.replies.extend([play, HELLO])
    async with open_session(settings(vendors, name), tmp_path) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "hi")
        await begun.wait()
        with trio.fail_after(2):
            await session.cancel()
            await left.wait()
        assert (await session.prompt("again")).stop == "end_turn"


@pytest.mark.parametrize("name", NAMES)
async def test_sessions_share_one_adapter_that_is_closed_once_and_works_again_after(
    vendors: Vendors, tmp_path: Path, name: str
) -> None:
    built: list[Provider] = []
    closed: list[Provider] = []

    def build(config: ProviderConfig) -> Provider:
        provider = open_provider(config)
        built.append(provider)
        close = provider.aclose

        async def counted() -> None:
            closed.append(provider)
            await close()

        provider.aclose = counted  # type: ignore[method-assign]
        return provider

    both_asked = trio.Event()

    async def wait_for_both() -> None:
        if len(vendors.asked) == 2:
            both_asked.set()
        await both_asked.wait()

    vendors.before_answer = wait_for_both
    vendors.replies.append(HELLO)
    ends: list[str] = []
    async with open_runtime(settings(vendors, name), home=tmp_path, build_provider=build) as runtime:
        sessions = [await runtime.sessions.open(str(tmp_path)) for _ in range(2)]

        async def ask(session: SessionHandle) -> None:
            ends.append((await session.prompt("hi")).stop)

        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(ask, session)
        assert [session.snapshot().last_text() for session in sessions] == ["Hello there."] * 2
    assert (ends, len(built), closed) == (["end_turn"] * 2, 1, built)
    async with open_runtime(settings(vendors, name), home=tmp_path, provider=built[0]) as runtime:
        assert (await (await runtime.sessions.open(str(tmp_path))).prompt("hi")).stop == "end_turn"
    await built[0].aclose()
    await built[0].aclose()


@pytest.mark.covers("AURA-49")
@pytest.mark.parametrize("name", [*NAMES, "scripted"])
async def test_every_provider_says_the_same_in_one_piece_and_in_many_and_can_be_closed_twice(
    vendors: Vendors, name: str
) -> None:
    vendors.replies.append(HELLO)
    scripted = ScriptedProvider().text("Hello there.", chunks=3).forever()
    provider = scripted if name == "scripted" else open_provider(vendors.config(name))
    request = ProviderRequest(History([{"role": "user", "content": "hi"}]))
    whole, assembly = await provider.complete(request), Assembly()
    async with aclosing(provider.stream(request)) as deltas:
        async for delta in deltas:
            assembly.add(delta)
    await provider.aclose()
    await provider.aclose()
    assert (whole.content, whole.stop_reason) == ("Hello there.", "end_turn")
    assert (assembly.response().content, assembly.response().stop_reason) == ("Hello there.", "end_turn")
    assert set(provider.capabilities()) == {"name", "tools", "reasoning", "streaming", "structured_output", "vision"}
    assert vendors.findings == []


# --- what is never sent -----------------------------------------------------------------------

OURS: dict[str, Any] = {
    "supports_tools": True,
    "supports_reasoning": True,
    "supports_vision": True,
    "supports_audio": False,
    "timeout": 30,
    "read_timeout": 30,
    "first_byte_timeout": 30,
    "idle_timeout": 30,
    "use_environment": False,
    "extra_headers": {"X-Team": "aar"},
    "response_format": "text",
}


@pytest.mark.covers("PRV-10")
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", NAMES)
async def test_settings_that_are_for_aar_alone_are_in_no_request(
    vendors: Vendors, tmp_path: Path, name: str, streaming: bool
) -> None:
    vendors.replies.append(HELLO)
    async with open_session(settings(vendors, name, streaming=streaming, extra=OURS), tmp_path) as session:
        assert (await session.prompt("hi")).stop == "end_turn"
    [(_, sent)] = vendors.asked
    assert vendors.findings == []
    body = {key: value for key, value in sent.json.items() if key != "tools"}
    assert keys_of(body) & (OURS.keys() | {"api", "sdk_base_url"}) == set()
    assert sent.headers["x-team"] == "aar"


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()
