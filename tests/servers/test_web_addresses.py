"""Where the web server does not go."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp import Client

from tools.web.cache import Cache
from tools.web.network import Web, is_public, web_url
from tools.web.server import WebTools, serve_tools, web_server


class Names(trio.abc.HostnameResolver):
    """A name server: each look-up of a name takes the next of its answers, and repeats the last."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = {name.replace("_", "."): list(addresses) for name, addresses in answers.items()}
        self.asked: list[str] = []

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        answers = self.answers[name]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, int(port))) for one in found.split()]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


@pytest.fixture
def site(service: Any, answer: Any) -> Iterator[Any]:
    def play(request: Any) -> Any:
        if request.path == "/inside":
            return answer(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data/"})
        return answer("secret", headers={"Content-Type": "text/plain"})

    with service(play) as there:
        yield there


@pytest.mark.covers("BMCP-03")
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "0.0.0.0", "127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "[::]"],
)
async def test_loopback_is_refused_in_every_spelling(host: str, site: Any, tmp_path: Path, call: Any) -> None:
    port = site.url.rpartition(":")[2]
    tools = WebTools(Web(every=0), Cache(tmp_path))
    async with Client(serve_tools(tools)) as client:
        for tool, argument in (("fetch", "url"), ("read_rss", "feed_url")):
            said = await call(client, tool, **{argument: f"http://{host}:{port}/"})
            assert said.startswith("error: ")
            assert "secret" not in said
    assert site.asked == []


CLOSED = """
    10.0.0.1 172.16.5.4 192.168.1.1 100.64.0.1 169.254.169.254 0.0.0.0 224.0.0.1 255.255.255.255 240.0.0.1 192.0.2.1
    ::1 :: fe80::1 fe80::1%eth0 fd00::1 ff02::1 2001:db8::1
    ::127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: 2001:0:4136:e378:8000:63bf:80ff:fffe
"""


@pytest.mark.parametrize("address", CLOSED.split())
def test_no_address_of_a_closed_network_is_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_addresses_of_the_open_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.covers("BMCP-03")
async def test_a_name_that_leads_inside_is_refused() -> None:
    names = Names(evil_example=["127.0.0.1"], mixed_example=["1.1.1.1 10.0.0.1"])
    trio.socket.set_custom_hostname_resolver(names)
    for name in ("evil.example", "mixed.example"):
        with pytest.raises(ValueError, match=f"{name} is a private, loopback or link-local address"):
            await Web(every=0).request("GET", f"http://{name}/")


async def test_a_name_is_looked_up_once_so_its_second_answer_is_never_used(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To the check, loopback counts as public here; what would be private is an address where nobody listens.
    monkeypatch.setattr("tools.web.network.is_public", lambda address: address == "127.0.0.1")
    names = Names(rebind_example=["127.0.0.1", "10.255.255.1"])
    trio.socket.set_custom_hostname_resolver(names)
    port = site.url.rpartition(":")[2]
    page = await Web(every=0).request("GET", f"http://rebind.example:{port}/x")
    assert (page.body, page.url) == (b"secret", f"http://rebind.example:{port}/x")
    assert names.asked == ["rebind.example"]
    assert site.asked[0].headers["host"] == f"rebind.example:{port}"


@pytest.mark.covers("BMCP-03")
async def test_a_redirect_into_the_private_network_is_refused(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.web.network.is_public", lambda address: address == "127.0.0.1")
    with pytest.raises(ValueError, match=r"169\.254\.169\.254 is a private"):
        await Web(every=0).request("GET", f"{site.url}/inside")
    assert site.lines == ["GET /inside"]


@pytest.mark.parametrize("elsewhere", ["file:///etc/passwd", "ftp://x.example/", "http://me:secret@x.example/"])
async def test_a_redirect_to_what_is_no_web_page_is_refused(elsewhere: str, service: Any, answer: Any) -> None:
    with (
        service(lambda _: answer(status=302, headers={"Location": elsewhere})) as there,
        pytest.raises(ValueError, match=r"Only http and https|with a login"),
    ):
        await Web(allow_private=True, every=0).request("GET", there.url)


async def test_private_addresses_can_be_allowed(site: Any, tmp_path: Path, call: Any) -> None:
    allowed = {"WEB_TOOLS_ALLOW_PRIVATE": "1", "WEB_TOOLS_CACHE": str(tmp_path)}
    async with Client(web_server(allowed)) as client:
        assert await call(client, "fetch", url=site.url) == f"URL: {site.url}\n\nsecret"
    async with Client(web_server({**allowed, "WEB_TOOLS_ALLOW_PRIVATE": "no"})) as client:
        # What was fetched while it was allowed stays with those who may see it.
        assert "is a private" in await call(client, "fetch", url=site.url)


async def test_a_server_that_says_nothing_is_given_up(autojump_clock: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, pytest.raises(Exception, match=r"No answer from 127\.0\.0\.1 within 15 s"):
        await Web(allow_private=True).request("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/")


def test_a_url_is_stripped_and_kept() -> None:
    assert str(web_url("  https://x.example/a?b=c#d ")) == "https://x.example/a?b=c#d"
