from __future__ import annotations

import base64
from typing import Any

import pytest
import trio

from aar.providers.http import HttpPool, open_chunks


async def opened(pool: HttpPool, url: str, count: int) -> int:
    """How many clients `count` requests at the same time are spread over."""
    clients: set[int] = set()
    everyone = trio.Event()
    entered = 0

    async def use() -> None:
        nonlocal entered
        async with pool.client(url) as client:
            clients.add(id(client))
            entered += 1
            if entered == count:
                everyone.set()
            await everyone.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(use)
    return len(clients)


async def test_a_client_serves_at_most_sixteen_requests_at_a_time() -> None:
    pool = HttpPool()
    assert [await opened(pool, "http://h", count) for count in (1, 16, 17, 40, 1)] == [1, 1, 2, 3, 1]
    await pool.aclose()


async def test_a_request_that_is_over_makes_room_for_the_next_one() -> None:
    pool = HttpPool(requests_per_client=1)
    async with pool.client("http://h") as first:
        pass
    async with pool.client("http://h") as second, pool.client("http://h") as third:
        assert (first is second, second is third) == (True, False)
    await pool.aclose()


async def test_plain_and_encrypted_requests_have_different_clients() -> None:
    pool = HttpPool()
    async with pool.client("http://h") as plain, pool.client("https://h") as encrypted:
        assert plain is not encrypted
    await pool.aclose()


async def test_plain_requests_load_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    import ssl

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("certificates were loaded")

    for name in ("load_verify_locations", "load_default_certs", "set_default_verify_paths"):
        monkeypatch.setattr(ssl.SSLContext, name, refuse)
    pool = HttpPool()
    async with pool.client("http://127.0.0.1:1"):
        pass
    await pool.aclose()


async def test_a_request_streams_its_answer(server: Any) -> None:
    server.sends([b"one", b"two"], kind="text/plain", x_test="yes")
    pool = HttpPool()
    async with pool.open_stream("POST", server.url + "/p", headers={"x": "1"}, content=b"body") as response:
        assert (response.status_code, response.headers["x-test"]) == (200, "yes")
        async with open_chunks(response) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == b"onetwo"
    await pool.aclose()
    [request] = server.requests
    assert (request.method, request.path, request.headers["x"], request.body) == ("POST", "/p", "1", b"body")


async def test_a_name_and_a_password_in_the_address_become_basic_authentication(server: Any) -> None:
    server.sends(b"for anybody")
    pool = HttpPool()
    address = server.url.replace("http://", "http://us%40er:p%3Aw@")
    async with pool.open_stream("GET", address, headers={"authorization": "Bearer other"}) as response:
        await response.aread()
    await pool.aclose()
    [request] = server.requests
    assert request.headers["authorization"] == "Basic " + base64.b64encode(b"us@er:p:w").decode()


async def test_no_cookie_is_kept_from_one_request_to_the_next(server: Any) -> None:
    for _ in range(2):
        server.sends(b"done", set_cookie="who=you; Path=/")
    pool = HttpPool()
    for _ in range(2):
        async with pool.open_stream("GET", server.url) as response:
            await response.aread()
    await pool.aclose()
    assert ["cookie" in request.headers for request in server.requests] == [False, False]


async def test_a_pool_that_is_closed_lets_requests_end_and_closes_their_connections_then(server: Any) -> None:
    may_go_on, has_left = trio.Event(), trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        await may_go_on.wait()
        await connection.send(b"whole")
        await connection.end()
        await connection.client_leaves()
        has_left.set()

    server.plays(play)
    pool = HttpPool()
    async with pool.open_stream("GET", server.url) as response:
        await pool.aclose()
        may_go_on.set()
        async with open_chunks(response) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == b"whole"
    with trio.fail_after(5):
        await has_left.wait()


@pytest.mark.parametrize("reads", [0, 1])
async def test_leaving_the_chunks_early_drops_the_connection_and_keeps_the_pool_usable(reads: int, server: Any) -> None:
    left = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(b"one")
        await connection.client_leaves()
        left.set()

    server.plays(play)
    server.sends(b"again")
    pool = HttpPool()
    async with pool.open_stream("GET", server.url) as response, open_chunks(response) as chunks:
        assert [await anext(chunks) for _ in range(reads)] == [b"one"] * reads
    with trio.fail_after(5):
        await left.wait()
    async with pool.open_stream("GET", server.url) as response, open_chunks(response) as chunks:
        assert [chunk async for chunk in chunks] == [b"again"]
    await pool.aclose()
    await pool.aclose()
    assert server.connections == 2


async def test_a_proxy_of_the_environment_is_used_for_others_and_never_for_loopback(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "0.0.0.0")
    server.sends(b"from the server")
    pool = HttpPool()
    # 0.0.0.0 leads to this machine too, and is no loopback address.
    port = server.url.rpartition(":")[2]
    for url in ("http://model.test/v1", f"{server.url}/direct", f"http://0.0.0.0:{port}/excepted"):
        async with pool.open_stream("GET", url) as response:
            await response.aread()
    await pool.aclose()
    assert [request.path for request in server.requests] == ["http://model.test/v1", "/direct", "/excepted"]
