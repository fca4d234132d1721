"""What clients do to an owner: it is always their own connection that waits or ends."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import pytest
import trio
import trio.testing

from aar.messages.events import TurnEnded
from aar.sharing import owner
from aar.sharing.frames import frame
from aar.testing import ScriptedProvider


def ask(number: Any, **message: Any) -> bytes:
    return frame("ask", id=number, message=message)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"garbage\n", "frame 2 is not a line of JSON, or nested too deeply"),
        (b"[" * 100_000 + b"\n", "frame 2 has more than 50,000 values"),
        (b"[" * 10_000 + b"\n", "frame 2 is not a line of JSON, or nested too deeply"),
        (b"[1]\n", 'frame 2 is no JSON object with a text "type"'),
        (b'{"type":7}\n', 'frame 2 is no JSON object with a text "type"'),
        (b'{"type":"sing"}\n', 'unknown type "sing": there are "ask" and "leave"'),
        (b'{"type":"ask"}\n', '"ask" needs a whole number as its "id"'),
        (b'{"type":"leave","id":true}\n', '"leave" needs a whole number as its "id"'),
        (b"\xff\xfe\n", "frame 2 is not a line of JSON, or nested too deeply"),
    ],
)
async def test_a_frame_that_is_none_gets_a_clear_error_and_the_next_one_is_read(
    autojump_clock, house, sent, told
) -> None:
    async with house() as here:
        client = here.raw()
        assert (await client.greet()).type == "welcome"
        await client.send(sent)
        assert (await client.read_until("error")).fields["message"] == told
        await client.send(ask(1, type="get_status"))
        answer = await client.read_until("answer")
        assert (answer.fields["id"], answer.fields["value"]["session_id"]) == (1, here.session.session_id)
        await client.stream.aclose()


@pytest.mark.parametrize(
    ("message", "error", "told"),
    [
        (None, "UnknownMessage", "a message is an object with a type"),
        ({}, "UnknownMessage", "a message is an object with a type"),
        ({"type": ["x"]}, "UnknownMessage", "cannot be asked for from another process"),
        ({"type": "adopt", "facts": []}, "UnknownMessage", "'adopt' cannot be asked for from another process"),
        ({"type": "open_session", "cwd": "/"}, "UnknownMessage", "'open_session' cannot be asked for"),
        ({"type": "steer"}, "InvalidMessage", "content: Field required"),
        ({"type": "steer", "content": "x", "more": 1}, "InvalidMessage", "more: Extra inputs are not permitted"),
        ({"type": "prompt", "content": 7}, "InvalidMessage", "content: Input should be a valid string"),
        ({"type": "configure", "patch": {"max_steps": -1}}, "InvalidSetting", "max_steps"),
    ],
)
async def test_a_command_that_cannot_be_obeyed_fails_under_its_id(autojump_clock, house, message, error, told) -> None:
    async with house() as here:
        client = here.raw()
        await client.greet()
        await client.send(frame("ask", id=5, message=message))
        failed = await client.read_until("failed")
        assert (failed.fields["id"], failed.fields["error"]) == (5, error)
        assert told in failed.fields["message"]
        await client.stream.aclose()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"version": 2}, "the owner of this session speaks version 1: attach with the same Aar"),
        ({"session_id": "other"}, "this is session ID"),
        ({"after": -1}, '"after" must be the number of a fact, or 0'),
        ({"after": "x"}, '"after" must be the number of a fact, or 0'),
    ],
)
async def test_a_greeting_that_does_not_fit_is_answered_with_why(autojump_clock, house, changed, told) -> None:
    async with house() as here:
        client = here.raw()
        refused = await client.greet(**changed)
        assert refused.type == "error"
        assert refused.fields["message"] == told.replace("ID", here.session.session_id)
        assert await client.read() is None
        await client.stream.aclose()


async def test_the_first_frame_is_a_greeting_and_comes_soon(autojump_clock, house) -> None:
    async with house() as here:
        hasty, silent = here.raw(), here.raw()
        await hasty.send(ask(1, type="get_status"))
        assert (await hasty.read_until("error")).fields["message"] == 'the first frame must be "hello"'
        begun = trio.current_time()
        assert await silent.read() is None
        assert trio.current_time() - begun <= owner.GREETING + 0.1
        await hasty.stream.aclose()
        await silent.stream.aclose()


async def test_a_client_that_sends_nothing_but_garbage_is_given_up(autojump_clock, house) -> None:
    async with house() as here:
        client = here.raw()
        await client.greet()
        await client.send(b"garbage\n" * owner.MOST_MISTAKES)
        told = []
        while (found := await client.read()) is not None:
            told.append(found.type)
        assert told.count("error") == owner.MOST_MISTAKES
        assert (await here.session.status()).turn_id == ""
        await client.stream.aclose()


async def test_a_frame_without_end_is_given_up(autojump_clock, house, monkeypatch) -> None:
    monkeypatch.setattr(owner, "MOST_FRAME", 100_000)
    async with house() as here:
        client = here.raw()
        await client.greet()
        await client.send(b'{"type":"ask' + b"x" * 200_000)
        assert (await client.read_until("error")).fields["message"] == "a frame may have 100,000 bytes at most"
        assert await client.is_given_up()
        await client.stream.aclose()


async def test_a_client_that_reads_nothing_costs_itself_only(autojump_clock, house, until) -> None:
    """Its connection is given up; the turn, and those who read along, do not wait for it."""
    script = ScriptedProvider().text("x" * 1_000_000).text("y" * 1_000_000)
    async with house(script) as here, here.attached() as other:
        stalled = here.raw()
        stalled.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await stalled.greet()
        begun = trio.current_time()
        await here.session.prompt("one")
        await here.session.prompt("two")
        assert trio.current_time() - begun < 1
        assert len((await until(other.handle, TurnEnded, times=2)).turn_id) == 12
        await trio.sleep(owner.STALLED + 1)
        assert await stalled.is_given_up()
        await stalled.stream.aclose()


async def test_a_flood_waits_in_its_own_socket(autojump_clock, house) -> None:
    async with house() as here:
        client = here.raw()
        await client.greet()
        begun = trio.current_time()
        for number in range(3 * owner.A_SECOND):
            await client.send(ask(number, type="get_status"))
            await client.read_until("answer")
        assert 2 <= trio.current_time() - begun <= 4
        await client.stream.aclose()


async def test_one_client_has_so_many_open_requests(autojump_clock, house) -> None:
    async with house(ScriptedProvider().hang()) as here:
        client = here.raw()
        await client.greet()
        for number in range(owner.MOST_OPEN + 1):
            await client.send(ask(number, type="attend", session_id="whatever"))
        failed = await client.read_until("failed")
        assert (failed.fields["id"], failed.fields["error"]) == (owner.MOST_OPEN, "MailboxFull")
        await client.send(frame("leave", id=0) + ask(99, type="get_status"))
        assert (await client.read_until("answer")).fields["id"] == 99
        await client.send(ask(1, type="get_status"))
        assert (await client.read_until("error")).fields["message"] == "a request with id 1 is still open"
        await client.stream.aclose()


async def test_there_is_room_for_so_many_clients(autojump_clock, house) -> None:
    async with house() as here:
        clients = [here.raw() for _ in range(owner.MOST_CLIENTS)]
        assert [(await client.greet()).type for client in clients] == ["welcome"] * owner.MOST_CLIENTS
        late = here.raw()
        assert (await late.greet()).fields["message"] == "16 clients are attached already"
        await clients.pop().stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        clients.append(here.raw())
        assert (await clients[-1].greet()).type == "welcome"
        for client in [*clients, late]:
            await client.stream.aclose()


async def test_what_a_client_says_arrives_in_order(autojump_clock, house) -> None:
    gate = trio.Event()
    async with house(ScriptedProvider().text("one").after(gate).text("two")) as here:
        client = here.raw()
        await client.greet()
        await client.send(ask(1, type="prompt", content="go"))
        for number in range(2, 12):
            await client.send(ask(number, type="follow_up", content=str(number)))
        while (await client.read_until("answer")).fields["id"] != 11:
            pass
        waiting = (await here.session.queue()).items
        assert [item.content for item in waiting] == [str(number) for number in range(2, 12)]
        await client.stream.aclose()


async def test_commands_that_aar_runs_cannot_attach(autojump_clock, house, monkeypatch) -> None:
    """They would answer their own questions."""
    monkeypatch.setattr(owner, "is_command_of", lambda pid, ours: pid == os.getpid() == ours)
    async with house() as here:
        client = here.raw()
        refused = await client.read()
        assert refused is not None
        assert json.dumps(refused.fields["message"]).startswith('"a command that Aar runs cannot attach')
        await client.stream.aclose()
