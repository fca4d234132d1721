"""Requests that are wrong in every way: each is told so, and none hurts the server."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider
from aar.transports.acp_http import app, finishing
from aar.transports.acp_http.requests import parse_request
from aar.transports.http.bodies import MOST_BODY
from aar.transports.http.refused import Refused
from aar.transports.runs.request import RunRequest
from tests.transports.acp_http.conftest import Api, asked, post

parse = partial(parse_request, agent_name="aar", profiles=["small"])


def refusal(body: Any) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        parse(body if isinstance(body, bytes) else json.dumps(body).encode())
    return refused.value.status, str(refused.value)


# --- what is asked for ------------------------------------------------------------------------


def test_what_is_left_out_has_a_default() -> None:
    assert parse(json.dumps(asked("hi")).encode()) == RunRequest("hi", "sync", None, None)
    more = {"mode": "stream", "session_id": "s1", "provider": "small", "agent_name": "aar"}
    assert parse(json.dumps(asked("hi", **more)).encode()) == RunRequest("hi", "stream", "s1", "small")
    nulls = dict.fromkeys(("mode", "session_id", "provider", "agent_name"))
    assert parse(json.dumps(asked("hi", **nulls)).encode()) == RunRequest("hi", "sync", None, None)


@pytest.mark.covers("ACPH-10")
@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"hi", b"[" * 200_000, b"9" * 5000, b'{"input": ]', "[]".encode("utf-16-le")]
)
def test_what_is_no_json_is_told_so(body: bytes) -> None:
    assert refusal(body) == (400, "Invalid JSON")


@pytest.mark.covers("ACPH-10")
@pytest.mark.parametrize("body", [[], "x", 1, None, True, [asked("hi")]])
def test_json_that_is_no_object_is_told_so(body: Any) -> None:
    assert refusal(body) == (400, "Invalid JSON: an object is needed")


@pytest.mark.covers("ACPH-10")
def test_another_mode_or_agent_is_told_so() -> None:
    assert refusal(asked("hi", mode="later")) == (400, "Invalid mode: 'later'")
    assert refusal(asked("hi", mode=["sync"])) == (400, "Invalid mode: '[\"sync\"]'")
    assert refusal(asked("hi", mode="x" * 200)) == (400, f"Invalid mode: '{'x' * 100}…'")
    assert refusal(asked("hi", agent_name="other")) == (404, "Unknown agent: 'other'")
    assert refusal(asked("hi", agent_name=7)) == (404, "Unknown agent: '7'")


@pytest.mark.covers("ACPH-10")
@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (None, "a list of messages is needed"),
        ("hi", "a list of messages is needed"),
        ([], "no message of the role 'user' has a text"),
        ([{"role": "user", "parts": [{"content": " \n"}]}], "no message of the role 'user' has a text"),
        ([{"role": "agent", "parts": [{"content": "hi"}]}], "no message of the role 'user' has a text"),
        ([{"parts": [{"content_type": "image/png", "content": "hi"}]}], "no message of the role 'user' has a text"),
        (["hi"], "message 0 is no object"),
        ([{"role": 1, "parts": []}], "message 0: the role must be a text"),
        ([{"role": "user", "parts": "hi"}], "message 0: the parts must be a list"),
        ([{"role": "user", "parts": ["hi"]}], "message 0, part 0 is no object"),
        ([{"parts": [{"content": "a"}, {"content": None}]}], "message 0, part 1: the content must be a text"),
        ([{"parts": [{"content": "a", "content_type": 1}]}], "message 0, part 0: the content_type must be a text"),
    ],
)
def test_wrong_input_is_told_with_its_place(messages: Any, problem: str) -> None:
    assert refusal({"input": messages}) == (400, f"Invalid input: {problem}")


def test_fields_of_another_kind_are_told() -> None:
    assert refusal(asked("hi", session_id=7)) == (400, "Invalid session_id: it must be a text")
    assert refusal(asked("hi", provider={})) == (400, "Invalid provider: it must be a text")
    assert refusal(asked("hi", provider="huge")) == (400, "Unknown provider: 'huge'. Available: small")


# --- over the wire ----------------------------------------------------------------------------


@pytest.mark.covers("ACPH-10")
async def test_what_is_wrong_is_answered_with_a_detail(api) -> None:
    async with api() as client:
        for data, status, detail in (
            (b"{", 400, "Invalid JSON"),
            (asked("hi", mode="later"), 400, "Invalid mode: 'later'"),
            ({"input": 1}, 400, "Invalid input: a list of messages is needed"),
            (asked("hi", agent_name="other"), 404, "Unknown agent: 'other'"),
        ):
            content = data if isinstance(data, bytes) else json.dumps(data).encode()
            answer = await client.http.post("/runs", content=content)
            assert (answer.status_code, answer.json()) == (status, {"detail": detail})
            assert answer.headers["content-type"] == "application/json"


@pytest.mark.covers("ACPH-11")
async def test_no_run_can_be_resumed(api) -> None:
    async with api(ScriptedProvider().text("Done.")) as client:
        run = await client.run("go")
        for data in ({}, asked("more")):
            answer = await client.post(f"/runs/{run['run_id']}", data)
            detail = "Resume not supported; run is not awaiting"
            assert (answer.status_code, answer.json()) == (422, {"detail": detail})


async def test_the_content_type_of_a_request_does_not_matter(api) -> None:
    async with api(ScriptedProvider().text("Done.").forever()) as client:
        for kind in ("application/x-www-form-urlencoded", "text/plain; charset=klingon", "multipart/form-data", "\\"):
            content = json.dumps(asked("go")).encode()
            answer = await client.http.post("/runs", content=content, headers={"content-type": kind})
            assert (answer.status_code, answer.json()["status"]) == (200, "completed")


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_request_that_is_too_large_is_refused(api, is_told: bool) -> None:
    async def pieces():
        for _ in range(MOST_BODY // 2**20 + 1):
            yield b" " * 2**20

    async with api() as client:
        content = b" " * (MOST_BODY + 1) if is_told else pieces()
        answer = await client.http.post("/runs", content=content)
        assert (answer.status_code, answer.json()) == (413, {"detail": "A request may have 16 MiB at most"})
        assert (await client.get("/ping")).status_code == 200


async def test_a_request_that_does_not_come_in_time_is_told_so(api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SENDING", 0.1)
    monkeypatch.setattr(finishing, "REST_OF_A_REQUEST", 0.1)
    async with api() as client:
        answer = await client.sent(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(body) == {"detail": "The request did not come in time"}
        assert (await client.get("/ping")).status_code == 200


async def test_a_request_of_millions_of_values_is_refused_before_it_is_read(api) -> None:
    async with api() as client:
        answer = await client.http.post("/runs", content=b'{"input":[' + b"{}," * (MOST_BODY // 3 - 10) + b"{}]}")
        assert (answer.status_code, answer.json()) == (413, {"detail": "A request may have 50,000 values at most"})


async def test_a_large_prompt_is_taken_whole(api) -> None:
    provider = ScriptedProvider().text("Much.")
    async with api(provider) as client:
        assert (await client.run("x" * 3_000_000))["status"] == "completed"
    assert len(provider.requests[0].messages[-1]["content"]) == 3_000_000


async def test_texts_that_are_no_unicode_do_no_harm(api) -> None:
    async with api(ScriptedProvider().text("a\ud800b\0\u2028")) as client:
        content = json.dumps(asked("half \ud83d of a pair, and \0")).encode()
        answer = await client.http.post("/runs", content=content)
        assert answer.status_code == 200
        assert answer.json()["status"] == "completed"
        events = await client.get(f"/runs/{answer.json()['run_id']}/events")
        assert events.status_code == 200


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET /ping HTTP/1.1\r\n\r\n",  # without a host
        b"GET ping/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /runs/\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /runs/%ff%00%2f HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n",
        b"GET /agents HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n0\r\n\r\n",
        b"POST /runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        post("/runs", b"", "Content-Type: multipart/form-data"),
    ],
)
async def test_what_is_hardly_http_is_a_mistake_of_the_client(api, data: bytes) -> None:
    async with api() as client:
        answer = await client.sent(data)
        assert answer == b"" or int(answer[9:12]) in range(400, 500), answer
        assert b"Traceback" not in answer
        assert (await client.get("/ping")).status_code == 200


async def test_a_client_that_stops_in_the_middle_of_a_request_does_no_harm(api) -> None:
    async with api() as client:
        for data in (b"POST /ru", post("/runs", asked("go"))[:-5], post("/runs", b"")[:-2]):
            async with client.connected(data):
                await trio.testing.wait_all_tasks_blocked()
        assert (await client.get("/ping")).status_code == 200


# --- any request ------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
parts = st.fixed_dictionaries(
    {}, optional={"content_type": st.just("text/plain") | json_values, "content": json_values}
)
messages = st.fixed_dictionaries(
    {}, optional={"role": st.just("user") | json_values, "parts": st.lists(parts | json_values)}
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "agent_name": st.just("aar") | json_values,
        "mode": st.sampled_from(["sync", "async", "stream"]) | json_values,
        "session_id": json_values,
        "provider": json_values,
        "input": st.lists(messages | json_values, max_size=3) | json_values,
    },
)


async def _send(api: Any, contents: list[bytes]) -> None:
    async with api(ScriptedProvider().text("ok").forever(), AgentConfig()) as client:
        for content in contents:
            await _check_one(client, content)


async def _check_one(client: Api, content: bytes) -> None:
    answer = await client.http.post("/runs", content=content)
    if answer.status_code >= 300:
        assert 400 <= answer.status_code < 500
        assert set(answer.json()) == {"detail"}
    elif answer.headers["content-type"] == "application/json":
        assert answer.json()["status"] != "failed"
    else:
        assert b"run_completed" in answer.content


@given(st.lists(bodies.map(json.dumps).map(str.encode) | st.binary(max_size=50), min_size=1, max_size=20))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_body_is_a_run_or_a_mistake_of_the_client(api, contents: list[bytes]) -> None:
    trio.run(_send, api, contents)


paths = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"), max_size=30)
places = st.sampled_from(["/", "/runs/", "/sessions/", "/agents/", "/ping", "/runs/x/", ""])


async def _ask(api: Any, targets: list[tuple[str, str]]) -> None:
    async with api() as client:
        for method, target in targets:
            data = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            answer = await client.sent(data)
            assert answer == b"" or int(answer[9:12]) < 500, (data, answer)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["GET", "POST", "OPTIONS", "HEAD", "DELETE", "X"]),
            st.tuples(places, paths).map("".join).filter(bool),
        ),
        min_size=1,
        max_size=20,
    )
)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_path_is_answered(api, targets: list[tuple[str, str]]) -> None:
    trio.run(_ask, api, targets)
