"""Servers at an address that misbehave: what they send is bounded while it is read, what we send stays with them."""

from __future__ import annotations

import gc
import gzip
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio

from aar.errors import McpError
from aar.mcp.bounds import Oversize, excess
from aar.mcp.connection import Connection
from aar.mcp.wire import proxy_for
from aar.messages.events import ToolResult
from aar.messages.mcp import McpServer
from aar.testing import ScriptedProvider, facts_of

# The package leaves generators of httpx2 to Trio when a request is cancelled; Trio closes them, and says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <async_generator object:pytest.PytestUnraisableExceptionWarning"
)

LIMIT = 1_000_000
JSON, EVENTS = "application/json", "text/event-stream"


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What is left behind is found here, and not in some other test."""
    yield
    gc.collect()


class Reply:
    """How an application answers one request."""

    def __init__(self, send: Callable[[Any], Awaitable[None]], message: dict) -> None:
        self._send = send
        self.message = message

    async def begin(self, status: int = 200, kind: str = JSON, **headers: str) -> None:
        named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        headers_sent = [(b"content-type", kind.encode()), *named]
        await self._send({"type": "http.response.start", "status": status, "headers": headers_sent})

    async def more(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def all(self, data: bytes = b"", status: int = 200, kind: str = JSON, **headers: str) -> None:
        await self.begin(status, kind, **headers)
        await self._send({"type": "http.response.body", "body": data})

    def result(self, **result: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()

    def text(self, said: str) -> bytes:
        return self.result(content=[{"type": "text", "text": said}])


class Application:
    """A small server over HTTP. `calls` answers the calls of tools, one after the other; the last one stays."""

    def __init__(self, *calls: Callable[[Reply], Awaitable[None]], **headers: str) -> None:
        self.calls = list(calls)
        self.headers = headers
        self.seen: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
            return
        body = b""
        while (part := await receive())["type"] == "http.request":
            body += part["body"]
            if not part["more_body"]:
                break
        message = json.loads(body) if body else {"method": scope["method"]}
        self.seen.append((message["method"], {name.decode(): value.decode() for name, value in scope["headers"]}))
        await self.answer(Reply(send, message))

    async def answer(self, reply: Reply) -> None:
        match reply.message["method"]:
            case "initialize":
                version = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
                await reply.all(reply.result(**version, serverInfo={"name": "it", "version": "1"}), **self.headers)
            case "tools/list":
                await reply.all(reply.result(tools=[{"name": "go", "inputSchema": {"type": "object"}}]))
            case "tools/call":
                call = self.calls.pop(0) if len(self.calls) > 1 else self.calls[0]
                await call(reply)
            case "GET" | "DELETE":
                await reply.all(status=405)
            case method if "id" in reply.message:
                error = {"code": -32601, "message": f"no {method}"}
                await reply.all(json.dumps({"jsonrpc": "2.0", "id": reply.message["id"], "error": error}).encode())
            case _:
                await reply.all(status=202)


async def fine(reply: Reply) -> None:
    await reply.all(reply.text("fine"))


def at(address: str, **more: Any) -> McpServer:
    return McpServer(name="it", transport="http", url=f"{address}/mcp", **more)


# --- answers that are too large ---------------------------------------------------------------


async def long_json(reply: Reply) -> None:
    await reply.begin()
    while True:
        await reply.more(b" " * 100_000)


async def long_event(reply: Reply) -> None:
    await reply.begin(kind=EVENTS)
    await reply.more(b"data: ")
    while True:
        await reply.more(b"x" * 100_000)


async def packed_json(reply: Reply) -> None:
    packed = gzip.compress(reply.text("x" * 100 * LIMIT), compresslevel=1)
    await reply.all(packed, content_encoding="gzip")


async def packed_event(reply: Reply) -> None:
    packed = gzip.compress(b"data: " + reply.text("x" * 100 * LIMIT) + b"\n\n", compresslevel=1)
    await reply.all(packed, kind=EVENTS, content_encoding="gzip")


@pytest.mark.parametrize("call", [long_json, long_event, packed_json, packed_event])
async def test_an_answer_that_is_too_long_is_read_no_further_and_fails_only_its_call(serving, call) -> None:
    async with serving(Application(call, fine)) as address:
        connection = Connection(at(address), cwd="/", env={}, message_limit=LIMIT)
        async with connection.open():
            with pytest.raises(McpError, match=r"^MCP server 'it': .*(of more than|exceeded the) 1,?000,?000 byte"):
                await connection.call("go", {}, limit=100)
            assert (await connection.call("go", {}, limit=100)).text == "fine"


async def many_values(reply: Reply) -> None:
    await reply.all(reply.result(content=[], structuredContent={"a": [0] * 200_000}))


async def many_values_in_an_event(reply: Reply) -> None:
    answer = reply.result(content=[], structuredContent={"a": [0] * 200_000})
    await reply.all(b"data: " + answer + b"\n\n", kind=EVENTS)


@pytest.mark.parametrize("call", [many_values, many_values_in_an_event])
async def test_an_answer_with_millions_of_values_is_not_read(serving, call) -> None:
    async with serving(Application(call, fine)) as address:
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open():
            with pytest.raises(McpError, match="it sent a message with more than 100,000 values"):
                await connection.call("go", {}, limit=100)
            assert (await connection.call("go", {}, limit=100)).text == "fine"


async def test_large_answers_that_are_allowed_come_as_json_as_event_and_packed(serving) -> None:
    async def as_json(reply: Reply) -> None:
        await reply.all(reply.text("x" * 3_000_000))

    async def as_event(reply: Reply) -> None:
        await reply.begin(kind=EVENTS)
        for piece in (b": a comment\n\ndata: ", reply.text("y" * 3_000_000), b"\n", b"\n"):
            await reply.more(piece)

    async def packed(reply: Reply) -> None:
        await reply.all(gzip.compress(reply.text("z" * 3_000_000)), content_encoding="gzip")

    async with serving(Application(as_json, as_event, packed)) as address:
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open():
            found = [(await connection.call("go", {}, limit=10)).text for _ in range(3)]
    assert found == ["x" * 11, "y" * 11, "z" * 11]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"], ids=["lf", "crlf"])
async def test_half_a_character_costs_no_call_as_json_or_as_event_in_pieces_of_any_size(serving, size, end) -> None:
    async def as_json(reply: Reply) -> None:
        await reply.all(reply.text("a\ud83d\\ud83d"))

    async def as_event(reply: Reply) -> None:
        await reply.begin(kind=EVENTS)
        data = b"id: 1" + end[: len(end) // 2] + b"data: " + reply.text("b\ude00\U0001f600") + end
        for start in range(0, len(data), size):
            await reply.more(data[start : start + size])

    async with serving(Application(as_json, as_event)) as address:
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open():
            assert (await connection.call("go", {}, limit=10)).text == "a\ufffd\\ud83d"
            assert (await connection.call("go", {}, limit=10)).text == "b\ufffd\U0001f600"


async def test_many_small_events_are_not_one_large_one(serving) -> None:
    async def call(reply: Reply) -> None:
        await reply.begin(kind=EVENTS)
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": [0] * 9000}}
        for _ in range(150):
            await reply.more(b"data: " + json.dumps(note).encode() + b"\n")
            await reply.more(b"\n")
        await reply.more(b"data: " + reply.text("done") + b"\n\n")

    async with serving(Application(call)) as address:
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open():
            assert (await connection.call("go", {}, limit=10)).text == "done"


def test_a_message_is_measured_by_bytes_and_by_values() -> None:
    assert excess(b"x" * 100, 99) == "of more than 99 bytes"
    assert excess(b"," * 100_001) == "with more than 100,000 values"
    assert excess(b"," * 100_000) == excess(b"x" * 2_000_000) == ""


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"id":8}}', 7),
        (b'{"id":"abc","jsonrpc":"2.0","result":{}}', "abc"),
        (b'{"result":{"id":8},"jsonrpc":"2.0","id":7}', 7),
        (b'{"result":{"id":8}}', None),
        (b'{"result":[' + b'{"id":8},' * 999 + b'{"id":8}]}', None),
        (b"", None),
    ],
)
def test_the_id_of_a_message_that_is_not_kept_is_found_at_its_ends(message, found) -> None:
    for size in (1, 7, 10_000):
        over = Oversize()
        for start in range(0, len(message), size):
            over.add(message[start : start + size])
        assert (over.id, over.size) == (found, len(message))


# --- answers that do not come -----------------------------------------------------------------


async def silence(reply: Reply) -> None:
    await trio.sleep_forever()


async def drip(reply: Reply) -> None:
    await reply.begin()
    while True:
        await reply.more(b" ")
        await trio.sleep(0.01)


async def pings(reply: Reply) -> None:
    await reply.begin(kind=EVENTS)
    while True:
        await reply.more(b": still there\n\n")
        await trio.sleep(0.01)


@pytest.mark.parametrize("call", [silence, drip, pings])
async def test_whoever_waits_for_an_answer_can_cancel_and_the_next_call_is_answered(serving, using, call) -> None:
    begun = trio.Event()

    async def noted(reply: Reply) -> None:
        begun.set()
        await call(reply)

    provider = ScriptedProvider().call("go").call("go").text("done")
    async with serving(Application(noted, fine)) as address, using(provider, at(address)) as session:
        await session.mcp_servers(wait=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            await begun.wait()
            with trio.fail_after(1):
                await session.cancel()
        with trio.fail_after(5):
            await session.prompt("again")
        assert results_of(session)[1:] == ["fine"]


class Deaf(Application):
    """Takes notifications of cancelled calls, and never says so."""

    async def answer(self, reply: Reply) -> None:
        if reply.message["method"] == "notifications/cancelled":
            await trio.sleep_forever()
        await super().answer(reply)


async def test_a_server_that_never_takes_a_notification_stops_neither_a_cancel_nor_the_next_call(
    serving, using, monkeypatch
) -> None:
    monkeypatch.setattr("aar.mcp.wire.NOTE_TIMEOUT", 0.2)
    begun = trio.Event()

    async def noted(reply: Reply) -> None:
        begun.set()
        await trio.sleep_forever()

    provider = ScriptedProvider().call("go").call("go").text("done")
    with trio.fail_after(10):
        async with serving(Deaf(noted, fine)) as address, using(provider, at(address)) as session:
            await session.mcp_servers(wait=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.prompt, "go")
                await begun.wait()
                with trio.fail_after(1):
                    await session.cancel()
            await session.prompt("again")
            assert results_of(session)[1:] == ["fine"]


def results_of(session) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


class Restless(Application):
    """Ends its stream of messages at once, and wants it opened again without a pause."""

    def __init__(self, *calls: Callable[[Reply], Awaitable[None]], **headers: str) -> None:
        super().__init__(*calls, **headers)
        self.opened = 0
        self.third = trio.Event()

    async def answer(self, reply: Reply) -> None:
        if reply.message["method"] == "GET":
            self.opened += 1
            if self.opened == 3:
                self.third.set()
            await reply.all(b"retry: 0\nid: 1\ndata: \n\n", kind=EVENTS)
        else:
            await super().answer(reply)


async def test_a_stream_that_ends_at_once_is_not_opened_all_the_time(serving) -> None:
    async def third_stream(reply: Reply) -> None:
        await app.third.wait()
        await fine(reply)

    app = Restless(third_stream, mcp_session_id="one")
    async with serving(app) as address:
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open(is_legacy=True):
            began = trio.current_time()
            assert (await connection.call("go", {}, limit=10)).text == "fine"
            assert trio.current_time() - began > 0.5


# --- keys and addresses -----------------------------------------------------------------------


async def test_headers_never_follow_a_server_that_points_elsewhere(serving) -> None:
    other = Application(fine)
    async with serving(other) as elsewhere:

        async def move(reply: Reply) -> None:
            await reply.all(status=307, location=f"{elsewhere}/mcp")

        async with serving(Application(move, fine)) as address:
            connection = Connection(at(address, headers={"X-Key": "canary"}), cwd="/", env={})
            async with connection.open():
                with pytest.raises(McpError, match=f"Redirect to {elsewhere}/mcp not followed"):
                    await connection.call("go", {}, limit=10)
                assert (await connection.call("go", {}, limit=10)).text == "fine"
    assert other.seen == []


async def test_a_key_that_is_refused_later_is_told_with_what_the_server_says(serving) -> None:
    async def refuse(reply: Reply) -> None:
        said = 'Bearer error="invalid_token", error_description="The token expired"'
        await reply.all(b"no", status=401, kind="text/plain", www_authenticate=said)

    async with serving(Application(refuse, fine)) as address:
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open():
            with pytest.raises(McpError) as caught:
                await connection.call("go", {}, limit=10)
            assert str(caught.value) == (
                "MCP server 'it': it answers 401: it wants another key than it gets; give it one in its headers, such"
                ' as {"Authorization": "Bearer ..."}. Signing in (OAuth) is not supported. It says:'
                ' Bearer error="invalid_token", error_description="The token expired"'
            )
            assert (await connection.call("go", {}, limit=10)).text == "fine"


async def test_a_session_that_the_server_has_forgotten_is_begun_again_and_costs_no_call(serving, using) -> None:
    async def forgotten(reply: Reply) -> None:
        await reply.all(status=404)

    provider = ScriptedProvider().call("go").text("done")
    app = Application(forgotten, fine, mcp_session_id="one")
    async with serving(app) as address, using(provider, at(address)) as session:
        await session.mcp_servers(wait=True)
        await session.prompt("go")
        assert results_of(session) == ["fine"]
    assert [method for method, _ in app.seen].count("initialize") == 2


@pytest.mark.parametrize("header", ["canary-123", "Bearer canary-123", "Token canary-123"])
@pytest.mark.parametrize("is_refusal", [True, False])
async def test_a_key_that_a_server_repeats_in_its_error_is_not_told_to_the_model(
    serving, using, header, is_refusal
) -> None:
    async def repeat(reply: Reply) -> None:
        text = "canary-123 is no good, nor is canary-in-the-address"
        error = json.dumps({"jsonrpc": "2.0", "id": reply.message["id"], "error": {"code": 1, "message": text}})
        failed = reply.result(content=[{"type": "text", "text": text}], isError=True)
        await reply.all(error.encode() if is_refusal else failed)

    provider = ScriptedProvider().call("go").text("done")
    async with serving(Application(repeat)) as address:
        server = at(f"{address}?key=canary-in-the-address", headers={"X-Key": header})
        async with using(provider, server) as session:
            await session.mcp_servers(wait=True)
            await session.prompt("go")
            assert " is no good, nor is " in results_of(session)[0]
            assert "canary" not in str(facts_of(session))


async def test_an_error_of_any_length_is_told_in_few_words(serving) -> None:
    async def fail(reply: Reply) -> None:
        error = {"code": 1, "message": "x" * 3_000_000 + "\x1b[31m"}
        await reply.all(json.dumps({"jsonrpc": "2.0", "id": reply.message["id"], "error": error}).encode())

    async with serving(Application(fail)) as address:
        connection = Connection(at(address), cwd="/", env={})
        async with connection.open():
            with pytest.raises(McpError) as caught:
                await connection.call("go", {}, limit=10)
            assert len(str(caught.value)) < 2100


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({}, "http://example.org/mcp", None),
        ({"http_proxy": "http://p:1"}, "http://example.org/mcp", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https://example.org/mcp", None),
        ({"https_proxy": "p:1"}, "https://example.org/mcp", "http://p:1"),
        ({"all_proxy": "http://p:1"}, "https://example.org/mcp", "http://p:1"),
        ({"all_proxy": "http://p:1", "no_proxy": "example.org"}, "https://example.org/mcp", None),
        ({"all_proxy": "http://p:1"}, "http://127.0.0.1:8000/mcp", None),
        ({"all_proxy": "http://p:1"}, "http://localhost:8000/mcp", None),
        ({"all_proxy": "http://p:1"}, "http://[::1]:8000/mcp", None),
    ],
)
def test_the_proxy_of_the_environment_is_used_but_never_to_our_own_machine(monkeypatch, variables, url, proxy) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy
