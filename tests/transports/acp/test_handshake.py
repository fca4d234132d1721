"""The first words, and whatever else comes down a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import trio

from aar import __version__


@pytest.mark.covers("ACP-01", "ACP-02")
async def test_initialize_says_exactly_what_aar_can_do(editor):
    async with editor(greet=False, cold=True) as client:
        assert await client.ask("initialize", protocolVersion=99, clientCapabilities={}) == {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "mcpCapabilities": {"http": True, "sse": False},
                "promptCapabilities": {"embeddedContext": True, "image": False, "audio": False},
                "sessionCapabilities": {"list": {}, "close": {}, "fork": {}, "resume": {}, "delete": {}},
            },
            "agentInfo": {"name": "aar", "title": "Aar Agent", "version": __version__},
            "authMethods": [],
        }
        assert await client.ask("authenticate", methodId="whatever") == {}
        assert await client.ask("logout") == {}
        assert (await client.refusal("initialize")).code == -32602
        assert (await client.refusal("initialize", protocolVersion="1")).code == -32602


@pytest.mark.covers("ACP-49", "ACP-50")
async def test_what_makes_no_sense_is_answered_with_an_error_and_reading_goes_on(editor):
    lines = [
        (b"{oops\n", None, -32700),
        (b"\xff\xfe\n", None, -32700),
        (b"[" * 100_000 + b"\n", None, -32700),
        (b"42\n", None, -32600),
        (b'"x"\n', None, -32600),
        (b"[]\n", None, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]\n', None, -32600),
        (b"{}\n", None, -32600),
        (b'{"id":"a","method":"initialize"}\n', "a", -32600),
        (b'{"jsonrpc":"2.0","id":"b","method":7}\n', "b", -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"initialize"}\n', None, -32600),
        (b'{"jsonrpc":"2.0","id":"c","method":"session/list","params":[1]}\n', "c", -32602),
        (b'{"jsonrpc":"2.0","id":"d","method":"session/set_model","params":{}}\n', "d", -32601),
        (b'{"jsonrpc":"2.0","id":null,"method":"_vendor/thing"}\n', None, -32601),
        (b'{"jsonrpc":"2.0","id":9007199254740993,"method":"nonsense"}\n', 9007199254740993, -32601),
    ]
    ignored = [
        b"\r\n\n",
        b'{"jsonrpc":"2.0","method":"_vendor/news"}\n',
        b'{"jsonrpc":"2.0","method":"$/progress","params":{}}\n',
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":12}}\n',
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"../x"}}\n',
        b'{"jsonrpc":"2.0","id":77,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":true,"error":{}}\n',
    ]
    async with editor() as client:
        for line, request_id, code in lines:
            at = len(client.frames)
            await client.write(line)
            frame = await client.until(lambda _: True, after=at)
            assert (frame["id"], frame["error"]["code"]) == (request_id, code), line
        for line in ignored:
            await client.write(line)
        at = len(client.frames)
        assert await client.ask("authenticate") == {}
        assert len(client.frames) == at + 1


async def test_a_first_line_without_end_is_not_kept(editor):
    async with editor(greet=False) as client:
        for _ in range(130):
            await client.write(b"x" * 1024 * 1024)
        await client.write(b"\n")
        frame = await client.until(lambda _: True)
        assert frame["error"] == {"code": -32700, "message": "This line is too long."}
        await client.ask("initialize", protocolVersion=1)


@pytest.mark.parametrize(
    ("request_id", "is_one"), [("x", True), (-1.5, True), (None, True), (2**70, True), (True, False), ([1], False)]
)
async def test_the_first_request_may_have_any_id_that_a_request_may_have(editor, request_id, is_one):
    async with editor(greet=False) as client:
        await client.send({"id": request_id, "method": "initialize", "params": {"protocolVersion": 1}})
        frame = await client.until(lambda _: True)
        assert frame["id"] == (request_id if is_one else None)
        assert ("result" in frame) is is_one


async def test_nobody_there_to_read_the_first_answer_is_an_end_without_a_word(place, flags):
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = await trio.run_process(
            [sys.executable, "-m", "aar", "acp", *flags],
            stdin=line.encode() + b"\n",
            stdout=full,
            capture_stderr=True,
            env=place.environment,
            cwd=place.project,
            check=False,
        )
    finally:
        os.close(full)
    assert (done.returncode, done.stderr) == (0, b"")


async def test_a_request_may_come_in_pieces_and_many_in_one(editor):
    async with editor(greet=False) as client:
        line = json.dumps({"jsonrpc": "2.0", "id": "x", "method": "initialize", "params": {"protocolVersion": 1}})
        for letter in line[:20]:
            await client.write(letter.encode())
        await client.write(line[20:].encode() + b'\r\n{"jsonrpc":"2.0","id":"y","method":"authenticate"}\n')
        await client.until(lambda frame: frame["id"] == "y")
        assert [frame["id"] for frame in client.frames] == ["x", "y"]


async def test_lines_of_many_megabytes_are_read(editor, place, model):
    model.says("I have read it.")
    async with editor() as client:
        session = await client.new(place.project)
        assert await client.prompt(session, "x" * 12_000_000) == "end_turn"
        assert len(model.requests[0]["messages"][-1]["content"]) == 12_000_000


@pytest.mark.covers("ACP-51")
@pytest.mark.parametrize("said", [b"", b"\n", b"{oops", b'{"jsonrpc":"2.0","id":1,"method":"session/list"}\n'])
async def test_the_end_of_the_input_is_the_end(editor, said):
    async with editor(greet=False) as client:
        await client.write(said)
        started = trio.current_time()
        await client.close_input()
        assert await client.end() == 0
        assert trio.current_time() - started < 10


async def test_settings_that_make_no_sense_are_told_to_whoever_wants_a_session(editor, place):
    place.configure(max_steps=-1)
    async with editor(model_flags=False) as client:
        refused = await client.refusal("session/new", cwd=str(place.project), mcpServers=[])
        assert refused.code == -32603
        assert "max_steps" in refused.message
        assert str(place.home / "config.json") in refused.message


def test_the_first_answer_waits_for_nothing_heavy(place):
    """Editors show nothing before it: not even the event loop is loaded by then."""
    code = (
        "import sys; from aar.transports.cli.app import build_app; build_app().parse_args(['acp'])\n"
        "from aar.transports.acp.serve import _greet; _greet(); print(*sys.modules, file=sys.stderr)"
    )
    said = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
    done = subprocess.run(
        [sys.executable, "-c", code], input=said, capture_output=True, env=place.environment, check=True
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == 1
    heavy = {"trio", "pydantic", "httpx2", "rich", "asyncio", "acp", "logging", "aar.config", "aar.runtime"}
    assert heavy & set(done.stderr.decode().split()) == set()


async def test_a_notification_opens_nothing_and_runs_nothing(editor, place):
    async with editor() as client:
        await client.notify("session/new", cwd=str(place.project), mcpServers=[])
        assert await client.ask("session/list") == {"sessions": []}
