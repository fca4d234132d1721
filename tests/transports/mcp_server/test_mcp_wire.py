"""`aar mcp` and what clients send: nonsense, too much at once, half a message, and nothing any more."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from aar.transports.mcp_server import wires
from tests.transports.cli.conftest import Model, flags, model, place, started
from tests.transports.test_server_signals import told

__all__ = ["flags", "model", "place", "started"]

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}


def request(number: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    return request(number, "tools/call", name=tool, arguments=arguments)


class Wire:
    """Lines to the program and back."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.frames: list[dict[str, Any]] = []
        self._data = b""

    async def say(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            await self.process.stdin.send_all(data + b"\n")  # type: ignore[union-attr]

    async def answer(self, number: Any) -> dict[str, Any]:
        """The answer to the request of this id; what came before it is in `frames`."""
        while True:
            while b"\n" not in self._data:
                piece = await self.process.stdout.receive_some()  # type: ignore[union-attr]
                assert piece, self.frames
                self._data += piece
            line, _, self._data = self._data.partition(b"\n")
            self.frames.append(json.loads(line))
            if self.frames[-1].get("id") == number:
                return self.frames[-1]

    async def told(self, number: Any, tool: str, **arguments: Any) -> dict[str, Any]:
        await self.say(call(number, tool, **arguments))
        return dict((await self.answer(number))["result"]["structuredContent"])


@pytest.fixture
def wire(started: Any, flags: list[str]) -> Callable[..., Any]:
    """`async with wire("--yes") as client`: the program after the handshake."""

    @asynccontextmanager
    async def start(*arguments: str) -> AsyncIterator[Wire]:
        async with started("mcp", *flags, *arguments, stdin=subprocess.PIPE) as process:
            client = Wire(process)
            await client.say(
                request(0, "initialize", **HELLO), {"jsonrpc": "2.0", "method": "notifications/initialized"}
            )
            await client.answer(0)
            client.frames.clear()
            yield client
            if process.returncode is None:
                await process.stdin.aclose()

    return start


# --- nonsense ---------------------------------------------------------------------------------

SILENT = [b"no json", b"\xff\xfe{}", b"", b"{}", b"[]", b"7", b"\0", b"[" * 100_000, b"9" * 5000]
SILENT += [json.dumps([request(7, "ping")]).encode()]
SILENT += [json.dumps(request(number, "ping")).encode() for number in (None, {}, 1.5, True)]
SILENT += [b'{"jsonrpc":"2.0","id":99,"result":{}}', b'{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}']
SILENT += [b'{"jsonrpc":"2.0","method":"no/such"}', b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}']
SILENT += [b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}']


async def test_lines_that_are_no_requests_are_passed_over(wire: Any) -> None:
    async with wire() as client:
        await client.say(*SILENT, request("last", "ping"))
        await client.answer("last")
        assert client.frames == [{"jsonrpc": "2.0", "id": "last", "result": {}}]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[' + b"{}," * 60_000 + b"{}]}}", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"prompt","arguments":[]}}', -32602),
    ],
)
async def test_requests_that_make_no_sense_are_told_so(wire: Any, line: bytes, code: int) -> None:
    async with wire() as client:
        await client.say(line)
        assert (await client.answer(1))["error"]["code"] == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "text: Field required"),
        ({"text": 7}, "text: Input should be a valid string"),
        ({"text": "go", "wait": []}, "wait: Input should be a valid boolean"),
        ({"text": "go", "session_id": None}, "session_id: Input should be a valid string"),
    ],
)
async def test_wrong_arguments_are_told_with_their_names(wire: Any, arguments: dict[str, Any], said: str) -> None:
    async with wire() as client:
        await client.say(call(1, "prompt", **arguments))
        answer = (await client.answer(1))["result"]
        assert (answer["isError"], answer["content"][0]["text"].startswith(said)) == (True, True)


async def test_a_tool_that_there_is_not_is_told(wire: Any) -> None:
    async with wire() as client:
        await client.say(call(1, "rm"))
        answer = (await client.answer(1))["result"]
        assert answer["content"][0]["text"] == "There is no tool 'rm': there are prompt, status, cancel."


async def test_halves_of_surrogate_pairs_do_no_harm_in_either_direction(wire: Any, model: Model) -> None:
    model.says("half \ud83d of it")
    async with wire() as client:
        await client.say(json.dumps(call(1, "prompt", text="a\ud800b")).encode())
        assert (await client.answer(1))["result"]["structuredContent"]["answer"] == "half \ufffd of it"
    assert model.requests[0]["messages"][-1]["content"] == "a\ufffdb"


async def test_a_line_without_end_is_dropped_and_the_next_one_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [b"x" * 50, b"x" * 100, b'x\n{"jsonrpc":"2.0","method":"m"}\n', b""]
    monkeypatch.setattr("aar.transports.stdio.lines.LONGEST_LINE", 100)

    async def read_more() -> bytes:
        return pieces.pop(0)

    class Nowhere:
        async def write(self, _: bytes) -> None:
            """Nothing is written."""

        def close(self) -> None:
            """Nothing is open."""

    async with wires._streams(read_more, Nowhere()) as (read, _):  # type: ignore[arg-type]
        assert [one.message.method async for one in read] == ["m"]


# --- tasks beside one another -----------------------------------------------------------------


async def test_tasks_run_side_by_side_and_each_can_be_cancelled_in_every_state(wire: Any, model: Model) -> None:
    model.says("so far", wait=trio.Event()).says("At once.").says("so far", wait=trio.Event())
    async with wire() as client:
        await client.say(call("waited for", "prompt", text="go"))
        await model.asked.wait()
        beside = await client.told(1, "prompt", text="go")
        assert beside["answer"] == "At once."
        session = beside["session_id"]
        running = (await client.told(2, "prompt", text="go", session_id=session, wait=False))["run_id"]
        queued = (await client.told(3, "prompt", text="go", session_id=session, wait=False))["run_id"]
        assert (await client.told(4, "status", run_id=queued))["status"] == "created"
        await client.say(request(None, "notifications/cancelled") | {"params": {"requestId": "waited for"}})
        for number, run in ((5, queued), (6, running), (7, running), (8, queued)):
            assert (await client.told(number, "cancel", run_id=run))["status"] == "cancelled"
        assert (await client.told(9, "cancel", run_id=beside["run_id"]))["status"] == "completed"
    assert "waited for" not in [frame.get("id") for frame in client.frames]


async def test_a_client_that_reads_nothing_more_ends_it(wire: Any, model: Model) -> None:
    model.says("so far", wait=trio.Event())
    async with wire() as client:
        await client.say(call(1, "prompt", text="go"))
        await model.asked.wait()
        await client.process.stdout.aclose()
        await client.say(request(2, "ping"))
        assert await client.process.wait() == 0


class Slow:
    """A client that takes some time to read what it is told, or for ever."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.heard = b""

    async def write(self, data: bytes) -> None:
        await trio.sleep(self.seconds)
        self.heard += data

    def close(self) -> None:
        """Nothing is open."""


async def test_a_client_that_asks_and_never_reads_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aar.transports.stdio.outbox.MOST", 100_000)
    server: Any = Server("aar")
    asked = 0

    async def read_more() -> bytes:
        nonlocal asked
        asked += 1
        await trio.lowlevel.checkpoint()
        return json.dumps(request(asked, "ping")).encode() + b"\n"

    with trio.fail_after(20):
        async with wires._streams(read_more, Slow(1e9)) as (read, write):  # type: ignore[arg-type]
            await server.run(read, write, server.create_initialization_options())
    assert asked > 1000


async def test_what_was_said_last_is_written_also_when_the_client_has_closed_its_input(autojump_clock: Any) -> None:
    client, said = Slow(0.3), [JSONRPCResponse(jsonrpc="2.0", id=number, result={}) for number in range(3)]

    async def read_more() -> bytes:
        return b""

    async with wires._streams(read_more, client) as (read, write):  # type: ignore[arg-type]
        assert [one async for one in read] == []
        for answer in said:
            await write.send(SessionMessage(answer))
    assert [json.loads(line)["id"] for line in client.heard.splitlines()] == [0, 1, 2]


# --- over HTTP --------------------------------------------------------------------------------


async def test_pages_that_were_let_in_can_use_it_over_http(started: Any, flags: list[str]) -> None:
    page = "https://app.example.org"
    arguments = ["--http", "--port", "0", "--token", "sesame", "--allow-origin", page]
    async with started("mcp", *flags, *arguments) as process:
        url = await told(process.stderr, r"http://\S+/mcp")
        async with httpx2.AsyncClient(headers={"Origin": page}) as http:
            asked = await http.options(url, headers={"Access-Control-Request-Method": "POST"})
            assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, page)
            assert "mcp-session-id" in asked.headers["access-control-allow-headers"]
            assert (await http.post(url, json={})).status_code == 401
            kinds = {"Accept": "application/json, text/event-stream", "Authorization": "Bearer sesame"}
            begun = await http.post(url, json=request(1, "initialize", **HELLO), headers=kinds)
            assert (begun.status_code, begun.headers["access-control-allow-origin"]) == (200, page)
            assert "mcp-session-id" in begun.headers["access-control-expose-headers"]
            other = await http.options(url, headers={"Origin": "https://evil.example"})
            assert (other.status_code, "access-control-allow-origin" in other.headers) == (204, False)
        process.terminate()


async def test_whoever_is_refused_over_http_is_told_so_also_while_still_sending(started: Any, flags: list[str]) -> None:
    async with started("mcp", *flags, "--http", "--port", "0", "--token", "sesame") as process:
        url = await told(process.stderr, r"http://\S+/mcp")
        async with httpx2.AsyncClient() as http:
            refused = await http.post(url, content=b"x" * 3_000_000)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            wrong = await http.get(url, headers={"Connection": "upgrade", "Upgrade": "websocket"})
            assert wrong.status_code in range(400, 500)
        process.terminate()
