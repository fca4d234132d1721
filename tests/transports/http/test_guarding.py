"""What stands in front of an application: who is let through, and what browsers are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aar.transports.http.access import Access
from aar.transports.http.guarding import Guarded

PAGE = "https://app.example.org"


async def passed(access: Access, *headers: tuple[str, str], method: str = "GET", **scope: str) -> tuple[bool, int, Any]:
    """Whether the application was reached, the status of the answer, and what it has to say of pages."""
    reached: list[str] = []
    told: list[Any] = []

    async def inner(scope: Any, _: Any, send: Any) -> None:
        reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    app = Guarded(inner, access, methods="GET", sent=["x-one", "x-two"], read=["x-three"], open_paths=["/ping"])
    raw = [(name.encode(), value.encode()) for name, value in [("host", "localhost"), *headers]]
    await app({"type": "http", "method": method, "path": "/", "headers": raw, **scope}, receive, send)
    if method != "OPTIONS" and not reached:
        assert json.loads(told[1]["body"])["detail"]
    answered = {name.decode(): value.decode() for name, value in told[0]["headers"]}
    pages = {name.removeprefix("access-control-"): value for name, value in answered.items() if name[:3] == "acc"}
    return bool(reached), told[0]["status"], pages


async def test_browsers_are_told_the_same_by_every_answer() -> None:
    rules = {"allow-methods": "GET", "allow-headers": "content-type, x-one, x-two", "expose-headers": "x-three"}
    access, page = Access(origins=frozenset({PAGE})), ("origin", PAGE)
    assert await passed(access) == (True, 200, rules)
    assert await passed(access, page) == (True, 200, {**rules, "allow-origin": PAGE})
    assert await passed(access, page, method="OPTIONS") == (False, 204, {**rules, "allow-origin": PAGE})
    assert await passed(access, ("origin", "https://evil.example"), method="OPTIONS") == (False, 204, rules)
    assert await passed(access, ("origin", "https://evil.example")) == (False, 403, rules)


async def test_a_path_that_is_open_needs_no_token_wherever_the_application_is_mounted() -> None:
    access = Access(token="t")
    assert (await passed(access, path="/ping"))[:2] == (True, 200)
    assert (await passed(access, path="/aar/ping", root_path="/aar"))[:2] == (True, 200)
    for path in ("/ping/", "/ping/x", "/aar/ping", "/Ping"):
        assert (await passed(access, path=path))[:2] == (False, 401)


@pytest.mark.parametrize("name", ["origin", "authorization"])
async def test_a_header_that_comes_twice_lets_nobody_in(name: str) -> None:
    access = Access(token="t", origins=frozenset({PAGE}))
    good = {"origin": PAGE, "authorization": "Bearer t"}
    for order in ((good[name], "x"), ("x", good[name])):
        twice = [(name, value) for value in order]
        rest = [(other, value) for other, value in good.items() if other != name]
        assert not (await passed(access, *twice, *rest))[0]


async def test_there_are_no_web_sockets() -> None:
    told: list[Any] = []

    async def nothing(*_: Any) -> None:
        raise AssertionError

    async def send(message: Any) -> None:
        told.append(message)

    await Guarded(nothing, Access(), methods="GET")({"type": "websocket"}, nothing, send)
    assert told == [{"type": "websocket.close", "code": 1000}]
