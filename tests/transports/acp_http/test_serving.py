"""`aar acp --http`: the real program, from its first line to its last."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import trio

from aar.journal.jsonl import JsonlStore
from tests.transports.acp_http.conftest import Api, asked, text_of
from tests.transports.cli.conftest import Model, Place, aar, flags, model, place, started

__all__ = ["aar", "flags", "model", "place", "started"]


@dataclass
class Server:
    process: trio.Process
    client: Api
    told: list[str]

    async def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.process.wait()


@pytest.fixture
def server(started: Callable[..., Any], flags: list[str]) -> Callable[..., Any]:
    """`async with server("--yes") as running`: the program when it listens, with a client."""

    @asynccontextmanager
    async def start(*arguments: str) -> AsyncIterator[Server]:
        async with started("acp", "--http", "--port", "0", *flags, *arguments) as process:
            told = [await _line(process.stderr)]
            url = re.search(r"http://\S+:\d+", told[0])
            assert url, told[0]
            async with httpx2.AsyncClient(base_url=url.group(), timeout=None) as http:
                yield Server(process, Api(http, url.group(), None), told)  # type: ignore[arg-type]
                if process.returncode is None:
                    process.terminate()
                told.append((await _rest(process.stderr)).decode())

    return start


async def _line(stream: Any) -> str:
    data = b""
    while not data.endswith(b"\n"):
        piece = await stream.receive_some(1)
        assert piece, data
        data += piece
    return data.decode()


async def _rest(stream: Any) -> bytes:
    return b"".join([piece async for piece in stream])


# --- serving ----------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-20", "ACPH-01", "ACPH-02", "ACPH-03")
async def test_the_program_serves_runs_until_it_is_told_to_end(server, model: Model, place: Place) -> None:
    model.says("Hello ", "there.")
    async with server("--name", "worker", "-d", "Works.") as running:
        assert "agent 'worker', model generic/tiny" in running.told[0]
        assert (await running.client.get("/ping")).json() == {"status": "ok"}
        [agent] = (await running.client.get("/agents")).json()["agents"]
        assert (agent["name"], agent["description"]) == ("worker", "Works.")
        run = await running.client.run("hi")
        assert text_of(*run["output"]) == "Hello there."
        assert await running.end() == 0
    stored = await JsonlStore(place.home / "sessions").load(run["session_id"])
    assert (stored.header.state, stored.header.metadata["cwd"]) == ("completed", str(place.project))


@pytest.mark.covers("ACPH-20", "ACPH-05")
async def test_the_program_streams_what_the_model_says_as_it_comes(server, model: Model) -> None:
    hold = trio.Event()
    model.says("Let ", "me see.", wait=hold)
    async with server() as running, running.client.streaming("hi") as events:
        seen = [await anext(events) for _ in range(3)]
        assert text_of(seen[2]["message"]) == "Let "
        hold.set()
        rest = [event async for event in events]
        assert text_of(*(event["message"] for event in rest[:-1])) == "me see."
        assert rest[-1]["type"] == "run_completed"


@pytest.mark.covers("ACPH-20")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_runs_and_tells_their_clients_before_the_program_ends(
    server, model: Model, place: Place, number: int
) -> None:
    model.says("Let ", "me see.", wait=trio.Event())
    runs: list[dict[str, Any]] = []
    async with server() as running, trio.open_nursery() as nursery:

        async def wait() -> None:
            runs.append(await running.client.run("hi"))

        nursery.start_soon(wait)
        async with running.client.streaming("hi") as events:
            seen = [await anext(events) for _ in range(3)]
            assert text_of(seen[2]["message"]) == "Let "
            while len(model.requests) < 2:
                await trio.testing.wait_all_tasks_blocked(0.01)
            running.process.send_signal(number)
            last = [event async for event in events][-1]
        assert await running.process.wait() == 0
    assert [last["type"], last["run"]["status"], text_of(*last["run"]["output"])] == [
        "run_cancelled",
        "cancelled",
        "Let ",
    ]
    assert runs[0]["status"] == "cancelled"
    for run in (last["run"], runs[0]):
        assert (await JsonlStore(place.home / "sessions").load(run["session_id"])).header.state == "cancelled"
    assert "Traceback" not in running.told[-1]


async def test_a_client_that_reads_nothing_does_not_keep_the_program(server, model: Model) -> None:
    model.says(*["x" * 65_536] * 150).says("Hello.")
    async with server() as running:
        host, port = running.client.url.removeprefix("http://").split(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            body = json.dumps(asked("hi", mode="stream")).encode()
            head = f"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            await model.asked.wait()
            assert text_of(*(await running.client.run("hi"))["output"]) == "Hello."
            assert await running.end() == 0


async def test_yes_answers_every_question(server, model: Model, place: Place) -> None:
    model.calls("write_file", path="x.txt", content="x").says("Written.")
    async with server("--yes") as running:
        assert "answered with yes" in await _line(running.process.stderr)
        assert text_of(*(await running.client.run("go"))["output"]) == "Written."
    assert (place.project / "x.txt").read_text() == "x"


async def test_without_yes_the_answer_is_no(server, model: Model, place: Place) -> None:
    model.calls("write_file", path="x.txt", content="x").says("Then not.")
    async with server() as running:
        assert text_of(*(await running.client.run("go"))["output"]) == "Then not."
    assert not (place.project / "x.txt").exists()


# --- tokens -----------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-21")
@pytest.mark.parametrize("way", ["flag", "variable", "named"])
async def test_a_token_is_asked_of_everybody(server, model: Model, place: Place, way: str) -> None:
    if way != "flag":
        place.variables["MY_WORD" if way == "named" else "AAR_HTTP_TOKEN"] = "s3cret-w0rd"
    more = {"flag": ["--token", "s3cret-w0rd"], "variable": [], "named": ["--token-env", "MY_WORD"]}[way]
    model.calls("bash", command="env").says("Done.")
    async with server("--yes", "--log-level", "debug", *more) as running:
        assert (await running.client.get("/agents")).status_code == 401
        assert (await running.client.get("/ping")).status_code == 200
        running.client.http.headers["Authorization"] = "Bearer s3cret-w0rd"
        run = await running.client.run("go")
        assert run["status"] == "completed"
    assert "s3cret-w0rd" not in running.told[-1]
    [file] = (place.home / "sessions").glob(f"{run['session_id']}*.jsonl")
    assert "PATH=" in file.read_text()
    assert "s3cret-w0rd" not in file.read_text()


@pytest.mark.covers("ACPH-21")
async def test_other_machines_get_in_with_a_token_or_when_that_is_said(aar, server, model: Model, flags) -> None:
    model.says("Hello.")
    refused = await aar("acp", "--http", "--host", "0.0.0.0", *flags)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "aar: --host 0.0.0.0 lets other machines in: set a token (AAR_HTTP_TOKEN, or --token-env NAME), "
        "or say --without-token.\n"
    )
    for more in (["--token", "x"], ["--without-token"]):
        async with server("--host", "0.0.0.0", *more) as running:
            assert (await running.client.get("/ping")).status_code == 200


# --- what cannot be ---------------------------------------------------------------------------


async def test_a_port_in_use_is_told_in_one_sentence(aar, flags: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused = await aar("acp", "--http", "--port", port, *flags)
    said = f"aar: Port {port} of 127.0.0.1 is in use already: name another one with --port.\n"
    assert (refused.code, refused.out, refused.err) == (1, "", said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "no.such.host.invalid", "--token", "x"], "--host no.such.host.invalid: there is no host"),
        (["--host", "192.0.2.1", "--token", "x"], "--host 192.0.2.1: that is no address of this machine."),
        (["--port", "70000"], "--port 70000: ports go from 1 to 65535, and 0 stands for any that is free."),
        (["--port", "web"], "it needs a whole number, and 'web' is none."),
        (["--name", "a/b"], "--name a/b: a name has at least one character, and no slash."),
        (["--token", ""], "The token must be one word of ASCII characters"),
        (["--token", "two words"], "The token must be one word of ASCII characters"),
        (["--token-env", "NOT_SET"], "--token-env NOT_SET: there is nothing in this variable."),
        (["--token", "x", "--token-env", "Y"], "--token and --token-env name two tokens: give one of them."),
        (["--mcp", "none.json"], "none.json"),
    ],
)
async def test_what_cannot_be_is_told_in_one_sentence(aar, flags, arguments: list[str], said: str) -> None:
    refused = await aar("acp", "--http", *flags, *arguments)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert said in refused.err


async def test_flags_of_http_without_it_are_a_mistake(aar) -> None:
    refused = await aar("acp", "--port", "8000")
    assert (refused.code, refused.err) == (2, "aar: --port is for serving over HTTP: add --http.\n")


async def test_localhost_is_served_on_all_its_addresses(server, model: Model) -> None:
    model.says("Hello.")
    async with server("-h", "localhost") as running:
        for url in re.findall(r"http://\S+:\d+", running.told[0]):
            async with httpx2.AsyncClient() as http:
                assert (await http.get(f"{url}/ping")).status_code == 200
