"""Bodies are measured before anybody reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from aar.transports.http.bodies import MOST_BODY, MOST_VALUES, Measured, check_values
from aar.transports.http.refused import Refused


async def answer_to(*bodies: bytes, leaves: bool = False) -> tuple[list[Any], list[Any]]:
    """What an application behind all of this gets, and what its client is answered."""
    coming = [{"type": "http.request", "body": body, "more_body": True} for body in bodies]
    coming.append({"type": "http.request", "body": b"", "more_body": False})
    if leaves:
        coming[-1] = {"type": "http.disconnect"}
    got: list[Any] = []
    told: list[Any] = []

    async def receive() -> Any:
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        told.append(message)

    async def inner(_: Any, receive: Any, send: Any) -> None:
        got.append(await receive())
        while got[-1].get("more_body"):
            got.append(await receive())

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    await Measured(inner)(scope, receive, send)
    return got, told


def refusal(told: list[Any]) -> tuple[int, str]:
    return told[0]["status"], json.loads(told[1]["body"])["detail"]


async def test_a_body_in_pieces_comes_as_one() -> None:
    whole = {"type": "http.request", "body": b'{"a":1}', "more_body": False}
    assert await answer_to(b'{"a"', b":1}") == ([whole], [])


async def test_who_leaves_in_the_middle_has_left() -> None:
    got, told = await answer_to(b'{"a"', leaves=True)
    assert ([one["type"] for one in got], told) == (["http.request", "http.disconnect"], [])


async def test_what_is_too_large_or_has_too_many_values_never_reaches_the_application() -> None:
    got, told = await answer_to(b"[" + b"{}," * MOST_VALUES + b"{}]")
    assert (got, refusal(told)) == ([], (413, "A request may have 50,000 values at most"))
    got, told = await answer_to(*[b"x" * (MOST_BODY // 4 + 1)] * 4)
    assert (got, refusal(told)) == ([], (413, "A request may have 16 MiB at most"))


async def test_who_sends_nothing_for_long_is_told_so(autojump_clock) -> None:
    told: list[Any] = []

    async def receive() -> Any:
        await trio.sleep_forever()

    async def send(message: Any) -> None:
        told.append(message)

    async def inner(*_: Any) -> None:
        raise AssertionError("it has not come")

    await Measured(inner)({"type": "http", "method": "POST", "path": "/mcp", "headers": []}, receive, send)
    assert refusal(told) == (408, "The request did not come in time")


async def test_commas_in_a_text_are_no_values() -> None:
    await check_values(b'"' + b"," * 1_000_000 + b'"')
    with pytest.raises(Refused):
        await check_values(b"," * (MOST_VALUES + 1))


async def test_whoever_has_sent_all_of_it_is_refused_at_once(autojump_clock: Any) -> None:
    told: list[Any] = []
    messages = [{"type": "http.request", "body": b"[" + b"1," * MOST_VALUES + b"1]", "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await trio.sleep_forever()

    async def send(message: Any) -> None:
        told.append(message)

    started = trio.current_time()
    await Measured(trio.sleep_forever)({"type": "http", "method": "POST"}, receive, send)  # type: ignore[arg-type]
    assert (told[0]["status"], trio.current_time() - started) == (413, 0)


async def test_what_says_beforehand_that_it_is_too_large_is_not_waited_for(autojump_clock: Any) -> None:
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    async def inner(*_: Any) -> None:
        raise AssertionError

    for length in (b"%d" % (MOST_BODY + 1), b"9" * 5_000):
        started = trio.current_time()
        scope = {"type": "http", "method": "POST", "path": "/chat", "headers": [(b"content-length", length)]}
        await Measured(inner)(scope, trio.sleep_forever, send)
        assert (refusal(told), trio.current_time() - started < 5) == ((413, "A request may have 16 MiB at most"), True)
        told.clear()
