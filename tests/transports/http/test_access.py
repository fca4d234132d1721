"""Who may ask: tokens, pages in browsers, and names of the machine."""

from __future__ import annotations

import pytest

from aar.errors import ConfigError
from aar.testing import ScriptedProvider
from aar.transports.http.access import Access, is_loopback
from aar.transports.http.refused import Refused
from tests.transports.acp_http.conftest import api, asked

__all__ = ["api"]

PAGE = "https://app.example.org"


def status_of(access: Access, **headers: str) -> int:
    sent = {"Host": "localhost:8000"} | {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        access.check(sent)
    except Refused as refused:
        return refused.status
    return 200


# --- tokens -----------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-21")
async def test_with_a_token_everybody_needs_it_except_for_a_ping(api) -> None:
    async with api(ScriptedProvider().text("Done."), token="s3cret") as client:
        for method, path in (("GET", "/agents"), ("POST", "/runs"), ("GET", "/runs/x"), ("GET", "/nowhere")):
            for given in (None, "s3cret", "Bearer", "Bearer wrong", "Bearer s3cre", "Basic s3cret", "Bearer é"):
                headers = {} if given is None else {"Authorization": given.encode()}
                answer = await client.http.request(method, path, headers=headers, json=asked("go"))
                assert (answer.status_code, answer.json()) == (401, {"detail": "A valid bearer token is needed"})
                assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/ping")).status_code == 200
        client.http.headers["Authorization"] = "bearer  s3cret"
        assert (await client.run("go"))["status"] == "completed"


def test_no_header_comes_near_a_token_by_its_form() -> None:
    access = Access(token="s3cret")
    assert status_of(access, Authorization="Bearer s3cret") == 200
    for given in ("", "Bearer ", "Bearer s3cret x", "s3cret", "Bearer s3creT", "Bearer \udcff"):
        assert status_of(access, Authorization=given) == 401


# --- pages ------------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-21")
async def test_no_page_of_a_browser_may_ask_unless_it_was_named(api) -> None:
    async with api() as client:
        for origin in (PAGE, "null", client.url, "http://localhost", ""):
            answer = await client.get("/agents", headers={"Origin": origin})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
            assert (await client.post("/runs", asked("go"), headers={"Origin": origin})).status_code == 403


@pytest.mark.covers("ACPH-21")
async def test_a_page_that_was_named_may_ask_and_read(api) -> None:
    async with api(ScriptedProvider().text("x").text("y"), allow_origins=[PAGE.upper()]) as client:
        client.http.headers["Origin"] = PAGE
        for answer in (await client.get("/agents"), await client.get("/nowhere")):
            assert answer.headers["access-control-allow-origin"] == PAGE
            assert answer.headers["vary"] == "origin"
        assert (await client.run("go"))["status"] == "completed"
        async with client.streaming("go") as events:
            assert [event["type"] async for event in events][-1] == "run_completed"
        client.http.headers["Origin"] = "https://other.example.org"
        assert (await client.get("/agents")).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site"])
async def test_a_page_that_hides_its_origin_is_found_out(api, site: str) -> None:
    async with api() as client:
        answer = await client.get("/agents", headers={"Sec-Fetch-Site": site})
        assert (answer.status_code, answer.json()) == (403, {"detail": "Pages of other sites are not allowed"})
        assert (await client.get("/agents", headers={"Sec-Fetch-Site": "none"})).status_code == 200


@pytest.mark.covers("ACPH-12")
@pytest.mark.parametrize("path", ["/runs", "/", "/nowhere", "/runs/x/cancel"])
async def test_a_browser_that_asks_beforehand_is_told_what_is_allowed(api, path: str) -> None:
    async with api(allow_origins=[PAGE]) as client:
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        answer = await client.http.request("OPTIONS", path, headers={"Origin": PAGE, **asks})
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
        assert answer.headers["access-control-allow-headers"] == "content-type"
        other = await client.http.request("OPTIONS", path, headers={"Origin": "https://evil.example", **asks})
        assert other.status_code == 204
        assert "access-control-allow-origin" not in other.headers


@pytest.mark.covers("ACPH-12")
async def test_every_answer_carries_the_headers_for_browsers(api) -> None:
    async with api(token="t") as client:
        answer = await client.get("/agents")
        assert answer.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
        assert answer.headers["access-control-allow-headers"] == "content-type, authorization"
        assert "access-control-allow-origin" not in answer.headers


def test_all_pages_may_be_named_at_once() -> None:
    access = Access(origins=frozenset({"*"}))
    assert status_of(access, Origin=PAGE) == 200
    assert access.headers(PAGE)["access-control-allow-origin"] == PAGE


# --- names of the machine ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "a.localhost", "127.0.0.1:1", "[::1]:8000", "10.1.2.3", ""]
)
def test_an_address_and_the_local_names_are_known(host: str) -> None:
    assert status_of(Access(), Host=host) == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "[::1", "my-host:8000", "127.0.0.1.evil"])
def test_a_name_that_somebody_pointed_here_is_refused(host: str) -> None:
    assert status_of(Access(), Host=host) == 421
    assert status_of(Access(token="t"), Host=host, Authorization="Bearer t") == 200
    assert status_of(Access(hosts=frozenset({"*"})), Host=host) == 200


async def test_names_that_a_program_gives_may_be_written_in_any_case(api) -> None:
    async with api(allow_hosts=["My-Host"], allow_origins=[f"{PAGE}/"]) as client:
        for headers in ({"Host": "my-host:8000"}, {"Host": "MY-HOST"}, {"Origin": PAGE}):
            assert (await client.get("/agents", headers=headers)).status_code == 200
        assert (await client.get("/agents", headers={"Host": "my-hosts"})).status_code == 421


def test_a_name_that_was_given_is_known() -> None:
    assert status_of(Access(hosts=frozenset({"my-host"})), Host="My-Host:8000") == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LocalHost"])
def test_only_this_machine_can_reach_it(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "my-host", "", "*"])
def test_others_may_reach_it(host: str) -> None:
    assert not is_loopback(host)


def test_names_that_no_browser_would_send_are_refused_rather_than_never_met() -> None:
    for origin in ("app.example.org", "https://app.example.org/page", "https://", "//app.example.org", "https:app", ""):
        with pytest.raises(ConfigError, match="is no origin of web pages"):
            Access.of("", [origin], [])
    for host in ("http://my-host", "my-host/x", "me@my-host", ""):
        with pytest.raises(ConfigError, match="is no name of a host"):
            Access.of("", [], [host])


def test_names_of_every_kind_are_taken_as_they_are_meant() -> None:
    origins = {"*", "null", "http://localhost:3000", "chrome-extension://abc", "http://[::1]:80"}
    access = Access.of("", [*origins, f"{PAGE.upper()}/"], ["*", "::1", "fe80::1%eth0", "My-Host:8080"])
    assert access == Access("", frozenset({*origins, PAGE}), frozenset({"*", "::1", "fe80::1%eth0", "my-host"}))


def test_one_name_need_not_be_in_a_list() -> None:
    assert Access.of("", PAGE, "my-host") == Access.of("", [PAGE], ["my-host"])
