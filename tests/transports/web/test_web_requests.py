"""What is wrong with a request is said in its answer, with what to do about it."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from aar.messages.settings import AgentConfig, ProviderConfig, SafetyConfig
from aar.testing import ScriptedProvider
from aar.transports.http import bodies
from aar.transports.runs import runs
from aar.transports.web.requests import parse_request
from tests.transports.web.conftest import Web

PROFILES = AgentConfig(providers={"other": ProviderConfig(name="generic", model="m")})

IMAGE = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}


@pytest.mark.covers("WEB-14")
@pytest.mark.parametrize("path", ["/chat", "/chat/stream"])
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        ('{"prompt": "\u0122"}'.encode("utf-16-le"), "no JSON"),  # half of this letter looks like a quote
        (b"[" * 5000, "no JSON"),
        ([], "must be a JSON object"),
        ({}, "A prompt is needed"),
        ({"prompt": ""}, "A prompt is needed"),
        ({"prompt": " \n"}, "A prompt is needed"),
        ({"prompt": 3}, "A prompt is needed"),
        ({"prompt": []}, "A prompt is needed"),
        ({"prompt": "\ud800"}, "surrogate"),
        ({"prompt": [{"type": "text"}]}, "prompt.0.text.text"),
        ({"prompt": [{"type": "smell"}]}, "prompt.0"),
        ({"prompt": ["hi"]}, "prompt.0"),
        ({"prompt": [{"type": "text", "text": " "}]}, "empty"),
        ({"prompt": [IMAGE]}, "http:, https: or data:"),
        ({"prompt": "go", "session_id": "../x"}, "Invalid session_id '../x'"),
        ({"prompt": "go", "session_id": 3}, "Invalid session_id"),
        ({"prompt": "go", "provider": "nobody"}, "Available: other"),
        ({"prompt": "go", "provider": {}}, "Invalid provider"),
        ({"prompt": "go", "safety": []}, "Invalid safety"),
        ({"prompt": "go", "saftey": {"read_only": True}}, "Did you mean 'safety'?"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(web: Any, path: str, body: Any, says: str) -> None:
    async with web(config=PROFILES) as client:
        status, answer = await client.ask("POST", path, body)
        assert (status, list(answer), says in answer["error"]) == (400, ["error"], True), answer
        assert await client.store.ids() == []


async def test_a_body_that_is_too_large_is_refused(web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MOST_BODY", 1000)
    async with web() as client:
        status, answer = await client.ask("POST", "/chat", {"prompt": "x" * 1001})
        assert (status, list(answer)) == (413, ["error"])


async def test_a_body_of_too_many_values_is_refused(web: Any) -> None:
    async with web() as client:
        status, answer = await client.ask("POST", "/chat", {"prompt": [1] * 60_000})
        assert (status, answer) == (413, {"error": "A request may have 50,000 values at most"})


async def test_more_than_so_many_at_once_are_refused(web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_LIVE", 1)
    provider = ScriptedProvider().hang()
    async with web(provider) as client:
        exchange = await client.streaming("go")
        status, answer = await client.ask("POST", "/chat", {"prompt": "go"})
        assert (status, "try again later" in answer["error"]) == (429, True)
        await exchange.leave()


# --- who may ask ------------------------------------------------------------------------------


async def test_everything_but_health_needs_the_token(web: Any) -> None:
    async with web(ScriptedProvider().text("x"), token="sesame") as client:
        assert await client.get("/health") == (200, {"status": "ok"})
        for method, path in (("GET", "/sessions"), ("POST", "/chat"), ("GET", "/nothing")):
            status, answer = await client.ask(method, path, {"prompt": "go"})
            assert (status, answer) == (401, {"error": "A valid bearer token is needed"})
        headers = {"authorization": "Bearer sesame"}
        assert (await client.ask("POST", "/chat", {"prompt": "go"}, headers=headers))[0] == 200


@pytest.mark.covers("WEB-17")
async def test_pages_are_let_in_only_when_their_origin_was_named(web: Any) -> None:
    page, other = {"origin": "https://app.example.org"}, {"origin": "https://evil.example"}
    async with web() as client:
        status, answer = await client.get("/sessions", headers=page)
        assert (status, list(answer)) == (403, ["error"])
        asked = await client.begin("OPTIONS", "/chat", headers=page)
        assert (asked.status, "access-control-allow-origin" in asked.headers) == (204, False)
    async with web(allow_origins=["https://app.example.org"]) as client:
        allowed = await client.begin("GET", "/sessions", headers=page)
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, page["origin"])
        assert allowed.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
        assert (await client.get("/sessions", headers=other))[0] == 403


async def test_a_name_that_was_pointed_at_this_machine_is_refused(web: Any) -> None:
    async with web() as client:
        status, answer = await client.get("/sessions", headers={"host": "evil.example"})
        assert (status, list(answer)) == (421, ["error"])


# --- beside that ------------------------------------------------------------------------------


async def test_before_its_server_has_begun_it_is_not_ready(web: Any) -> None:
    async with web() as client:
        app = client.app
    async with trio.open_nursery() as nursery:
        answer = await Web(app, nursery, client.store).ask("POST", "/chat", {"prompt": "go"})
        assert answer == (503, {"error": "The server is not ready"})


async def test_what_the_request_wants_asked_is_not_answered_beforehand(web: Any) -> None:
    config = AgentConfig(safety=SafetyConfig(require_approval_for_writes=False, require_approval_for_execute=False))
    strict = {"prompt": "go", "safety": {"require_approval_for_writes": True}}
    for body, says_yes, may_be_approved in (
        ({"prompt": "go"}, True, True),
        (strict, True, False),
        (strict, False, True),  # somebody is there to answer, or nobody
    ):
        for settings in (config, AgentConfig()):  # also where the settings have everything asked anyhow
            found = parse_request(body, settings, may_loosen=False, says_yes=says_yes)
            assert found.may_be_approved == may_be_approved
