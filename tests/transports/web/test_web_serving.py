"""`aar serve`: the real program on a real port, from its first line to its last."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio

from aar.journal.jsonl import JsonlStore
from aar.transports.acp_http import serve as acp_serve
from aar.transports.cli.write_help import help_texts
from aar.transports.web import serve
from tests.transports.cli.conftest import Model, Place, aar, flags, model, place, started
from tests.transports.web.conftest import event_of

__all__ = ["aar", "flags", "model", "place", "started"]

AT_ONCE = 0.5  # seconds


@pytest.fixture
def server(started: Callable[..., Any], flags: list[str]) -> Callable[..., Any]:
    """`async with server("--yes") as (process, http, banner)`: the program when it listens, with a client."""

    @asynccontextmanager
    async def start(*arguments: str) -> AsyncIterator[tuple[Any, httpx2.AsyncClient, str]]:
        async with started("serve", "--port", "0", *flags, *arguments) as process:
            banner = b""
            while banner.count(b"\n") < 3:
                piece = await process.stderr.receive_some()
                assert piece, banner
                banner += piece
            url = re.search(r"http://\S+:\d+", banner.decode())
            assert url, banner
            async with httpx2.AsyncClient(base_url=url.group(), timeout=None) as http:
                yield process, http, banner.decode()
            if process.returncode is None:
                process.terminate()

    return start


@pytest.mark.covers("WEB-01", "WEB-03", "WEB-11", "CLI-19")
async def test_the_program_answers_until_a_signal_ends_it_at_once(server: Any, model: Model, place: Place) -> None:
    model.calls("bash", command="echo hello").says("Not allowed.").says("Let ", "me see.", wait=trio.Event())
    async with server() as (process, http, banner):
        assert re.match(r"Starting web server on 127\.0\.0\.1:\d+, model generic/tiny\.\nEndpoints at http://", banner)
        assert "GET /health, GET /sessions, GET /sessions/ID, POST /chat, POST /chat/stream" in banner
        assert (await http.get("/health")).json() == {"status": "ok"}
        answer = (await http.post("/chat", json={"prompt": "hi"})).json()
        assert (answer["response"], answer["tool_results"][0]["is_error"]) == ("Not allowed.", True)
        asked = {"prompt": "again", "session_id": answer["session_id"]}
        async with http.stream("POST", "/chat/stream", json=asked) as stream:
            told, begun = b"", 0.0
            async for piece in stream.aiter_raw():
                told += piece
                if not begun and b"Let " in told:
                    begun = trio.current_time()
                    process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert trio.current_time() - begun < AT_ONCE
    last = event_of(told.split(b"\n\n")[-2])
    assert last is not None
    assert (last["action"], last["data"]["state"]) == ("ended", "cancelled")
    stored = await JsonlStore(place.home / "sessions").load(answer["session_id"])
    assert (stored.header.state, stored.header.metadata["cwd"]) == ("cancelled", str(place.project))


@pytest.mark.covers("WEB-11", "WEB-16")
async def test_yes_lets_commands_run_and_whoever_leaves_takes_the_turn_along(
    server: Any, model: Model, place: Place
) -> None:
    model.calls("bash", command="echo hello").says("Done.").says("Let ", "me see.", wait=trio.Event())
    model.calls("bash", command="echo hello").says("Not allowed.")
    async with server("--yes") as (_, http, banner):
        assert "answered with yes" in banner
        answer = (await http.post("/chat", json={"prompt": "hi"})).json()
        [result] = answer["tool_results"]
        assert (result["is_error"], "hello" in result["output"]) == (False, True)
        again = {"prompt": "hi", "session_id": answer["session_id"]}
        body = json.dumps(again).encode()
        head = f"POST /chat/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        async with await trio.open_tcp_stream("127.0.0.1", http.base_url.port) as stream:
            await stream.send_all(head.encode() + body)
            while len(model.requests) < 3:
                assert await stream.receive_some()
        strict = {**again, "safety": {"require_approval_for_execute": True}}
        [result] = (await http.post("/chat", json=strict)).json()["tool_results"]
        assert (result["is_error"], "nobody is there" in result["output"]) == (True, True)


@pytest.mark.covers("CLI-19")
def test_each_server_has_a_port_of_its_own_and_says_so() -> None:
    texts = help_texts()
    for command, port in (("serve", serve.PORT), ("acp", acp_serve.PORT)):
        assert f"Port to listen on: {port} unless given." in texts[command]
    assert (serve.PORT, acp_serve.PORT) == (8080, 8000)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--host", "0.0.0.0"], 2, "--host 0.0.0.0 lets other machines in: set a token"),
        (["--port", "70000"], 2, "--port 70000: ports go from 1 to 65535"),
        (["--name", "x"], 2, "--name"),
    ],
)
async def test_what_cannot_be_is_told_in_one_sentence(
    aar: Any, flags: list[str], arguments: list[str], code: int, said: str
) -> None:
    refused = await aar("serve", *flags, *arguments)
    assert (refused.code, refused.out, refused.err.count("\n"), said in refused.err) == (code, "", 1, True), refused.err


@pytest.mark.covers("AURA-32")
async def test_the_page_has_a_key_of_its_own_and_two_browsers_share_a_session(server: Any, model: Model) -> None:
    model.calls("bash", command="echo hello").says("Done.")
    async with server() as (process, http, banner):
        rest = banner
        while "In a browser: " not in rest or not rest.endswith("ends it.\n"):
            rest += (await process.stderr.receive_some()).decode()
        url, _, key = re.search(r"In a browser: (\S+)", rest)[1].partition("#")  # type: ignore[index]
        assert (url, len(key)) == (f"{http.base_url}/", 32)
        assert "<title>Aar</title>" in (await http.get("/")).text
        assert (await http.post("/sessions", json={})).status_code == 401
        sent = {"Authorization": f"Bearer {key}", "Origin": str(http.base_url)}
        session_id = (await http.post("/sessions", json={}, headers=sent)).json()["session_id"]
        ids: list[list[str]] = [[], []]

        async def read(number: int) -> None:
            path, rest = f"/sessions/{session_id}/events?answers=1", b""
            async with http.stream("GET", path, headers=sent) as stream, aclosing(stream.aiter_raw()) as pieces:
                async for piece in pieces:
                    *frames, rest = (rest + piece).split(b"\n\n")
                    for frame in frames:
                        fields = dict(line.split(": ", 1) for line in frame.decode().split("\n"))
                        ids[number] += [fields["id"]] if "id" in fields else []
                        if fields["event"] == "status":
                            there[number].set()
                        elif fields["event"] == "approval_requested":
                            body = {"tool_call_id": json.loads(fields["data"])["tool_call_id"], "decision": "allow"}
                            answers.append(await http.post(f"/sessions/{session_id}/decide", json=body, headers=sent))
                        elif fields["event"] == "turn_ended":
                            over[number].set()

        answers: list[Any] = []
        there, over = [trio.Event(), trio.Event()], [trio.Event(), trio.Event()]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, 0)
            nursery.start_soon(read, 1)
            for one in there:
                await one.wait()
            await http.post(f"/sessions/{session_id}/prompt", json={"prompt": "go"}, headers=sent)
            for one in over:
                await one.wait()
            process.terminate()  # which ends the streams
        assert sorted(answer.json()["accepted"] for answer in answers) == [False, True]
        assert ids[0] == ids[1] != []


@pytest.mark.covers("AURA-32")
async def test_where_there_is_a_token_the_page_wants_that(server: Any, model: Model, place: Place) -> None:
    model.says("Hello.")
    place.variables["AAR_HTTP_TOKEN"] = "sesame"
    async with server() as (process, http, banner):
        rest = banner
        while not rest.endswith("ends it.\n"):
            rest += (await process.stderr.receive_some()).decode()
        assert f"In a browser: {http.base_url}/\n" in rest
        assert (await http.post("/sessions", json={})).status_code == 401
        assert (await http.post("/sessions", json={}, headers={"Authorization": "Bearer sesame"})).status_code == 200
