from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tools.web.cache import Cache
from tools.web.network import Web
from tools.web.server import WebTools, serve_tools

RESULTS = """<html><body>
<div class="result results_links web-result"><h2><a class="result__a"
 href="//duckduckgo.com/l/?uddg=https%3A%2F%2Ftrio.readthedocs.io%2F%3Fa%3D1%26b%3D2&amp;rut=abc"
 >Trio &amp; friends</a></h2>
 <a class="result__snippet" href="#">A friendly <b>Python</b> library</a></div>
<div class="result result--ad"><a class="result__a" href="https://duckduckgo.com/y.js?ad_domain=x.example">Buy</a></div>
<div class="result"><a class="result__a" href="https://direct.example/page">Direct</a></div>
</body></html>"""

PAGE = """<!doctype html><html><head><title> About
 nurseries </title><meta name="description" content="How tasks live"><style>p {}</style></head><body>
<nav>Home | Docs</nav><header>Banner</header>
<article><h1>Nurseries</h1><p>Every task lives in a <b>nursery</b>.</p><script>track()</script>
<form>Subscribe <input></form><ul><li>one</li><li>two</li></ul><pre>async with trio:
    pass</pre></article><aside>Ads</aside><footer>Imprint</footer></body></html>"""

FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><description>All of it</description>
<link>https://news.example</link>
<item><title>First &amp; best</title><link>https://news.example/1</link><pubDate>Mon, 06 Sep 2027 00:00:00 GMT</pubDate>
<description>&lt;p&gt;Some &lt;b&gt;bold&lt;/b&gt; words&lt;/p&gt;</description></item>
<item><title>Second</title><link>https://news.example/2</link><description>LONG</description></item></channel></rss>"""

ATOM = """<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Releases</title>
<entry><title>v1</title><link href="https://x.example/v1"/><updated>2027-01-02T03:04:05Z</updated></entry></feed>"""


@pytest.fixture
def internet(service: Any, answer: Any) -> Iterator[Any]:
    """Pages by path; `pages` may be changed by a test."""
    pages = {
        "/html/": answer(RESULTS, headers={"Content-Type": "text/html; charset=UTF-8"}),
        "/page": answer(PAGE, headers={"Content-Type": "text/html"}),
        "/feed": answer(FEED.replace("LONG", "x" * 600), headers={"Content-Type": "application/rss+xml"}),
        "/atom": answer(ATOM, headers={"Content-Type": "application/atom+xml"}),
        "/data": answer('{"a": 1}', headers={"Content-Type": "application/json"}),
        "/image": answer(b"\x89PNG", headers={"Content-Type": "image/png"}),
        "/away": answer(status=302, headers={"Location": "/page"}),
        "/again": answer(status=302, headers={"Location": "/again"}),
        "/latin": answer("<p>caf\u00e9</p>".encode("latin-1"), headers={"Content-Type": "text/html; charset=latin-1"}),
        "/meta": answer(
            '<meta charset="latin-1"><p>caf\u00e9'.encode("latin-1"), headers={"Content-Type": "text/html"}
        ),
        "/plain": answer("<!doctype html><p>no type"),
        "/long": answer("<p>" + "word " * 5000, headers={"Content-Type": "text/html"}),
        "/deep": answer("<div>" * 20_000 + "bottom", headers={"Content-Type": "text/html"}),
    }
    with service(lambda request: pages.get(request.path, answer("gone", status=404))) as there:
        there.pages = pages
        yield there


@pytest.fixture
def tools(internet: Any, tmp_path: Path) -> Callable[..., WebTools]:
    """`tools()`: those of a server that may see loopback and is in no hurry to wait."""

    def make(now: Callable[[], float] = lambda: 0.0, every: float = 0.0) -> WebTools:
        web = Web(allow_private=True, every=every)
        return WebTools(web, Cache(tmp_path / "cache", now=now), f"{internet.url}/html/")

    return make


@pytest.mark.covers("BMCP-01")
async def test_results_are_numbered_and_lead_where_they_say(tools: Any, internet: Any, call: Any) -> None:
    async with Client(serve_tools(tools())) as client:
        text = await call(client, "search", query="python trio")
    assert text == (
        "1. Trio & friends\nhttps://trio.readthedocs.io/?a=1&b=2\nA friendly Python library\n\n"
        "2. Direct\nhttps://direct.example/page"
    )
    (request,) = internet.asked
    assert (request.method, request.form) == ("POST", {"q": "python trio", "b": ""})


async def test_a_search_gives_as_many_results_as_asked_for(tools: Any, call: Any) -> None:
    async with Client(serve_tools(tools())) as client:
        assert (await call(client, "search", query="trio", limit=1)).count("\n\n") == 0
        assert "less than or equal to 30" in await call(client, "search", query="trio", limit=31)


@pytest.mark.covers("BMCP-01")
async def test_a_page_comes_without_its_menus(tools: Any, internet: Any, call: Any) -> None:
    async with Client(serve_tools(tools())) as client:
        text = await call(client, "fetch", url=f"{internet.url}/page")
    assert text == (
        f"Title: About nurseries\nDescription: How tasks live\nURL: {internet.url}/page\n\n"
        "Nurseries\n\nEvery task lives in a nursery.\n\n- one\n\n- two\n\nasync with trio:\n    pass"
    )
    assert "aar-web-tools" in internet.asked[0].headers["user-agent"]


@pytest.mark.covers("BMCP-01")
async def test_a_feed_is_a_numbered_list(tools: Any, internet: Any, call: Any) -> None:
    async with Client(serve_tools(tools())) as client:
        rss = await call(client, "read_rss", feed_url=f"{internet.url}/feed")
        atom = await call(client, "read_rss", feed_url=f"{internet.url}/atom", limit=1)
    assert rss == (
        "Feed: News\nDescription: All of it\nLink: https://news.example\nEntries: 2\n\n"
        "1. First & best\nhttps://news.example/1\nPublished: Mon, 06 Sep 2027 00:00:00 GMT\nSome bold words\n\n"
        "2. Second\nhttps://news.example/2\n" + "x" * 500 + "..."
    )
    assert atom == "Feed: Releases\nEntries: 1\n\n1. v1\nhttps://x.example/v1\nPublished: 2027-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/data", '{"a": 1}'),
        ("/latin", "caf\u00e9"),
        ("/meta", "caf\u00e9"),
        ("/plain", "no type"),
        ("/deep", "bottom"),
    ],
)
async def test_other_texts_are_read_as_they_are(path: str, text: str, tools: Any, internet: Any, call: Any) -> None:
    async with Client(serve_tools(tools())) as client:
        assert await call(client, "fetch", url=internet.url + path) == f"URL: {internet.url}{path}\n\n{text}"


async def test_a_long_page_is_cut(tools: Any, internet: Any, call: Any) -> None:
    async with Client(serve_tools(tools())) as client:
        text = await call(client, "fetch", url=f"{internet.url}/long")
    head, _, rest = text.partition("\n\n")
    assert head == f"URL: {internet.url}/long"
    assert rest == ("word " * 5000)[:20_000] + "\n\n[... truncated]"


async def test_what_is_sent_without_end_is_not_read_to_the_end(
    tools: Any, internet: Any, answer: Any, call: Any
) -> None:
    internet.pages["/huge"] = answer(b"x" * 9_000_000, headers={"Content-Type": "text/plain"})
    async with Client(serve_tools(tools())) as client:
        text = await call(client, "fetch", url=f"{internet.url}/huge")
    assert text.endswith("[... truncated]")
    assert len(text) < 21_000


@pytest.mark.covers("BMCP-01")
@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("search", {"query": "  "}, "The query is empty"),
        ("fetch", {"url": "ftp://x.example/"}, "Only http and https can be fetched, not ftp"),
        ("fetch", {"url": "file:///etc/passwd"}, "Only http and https can be fetched, not file"),
        ("fetch", {"url": "http://"}, "No host in 'http://'"),
        ("fetch", {"url": "x.example"}, "Only http and https can be fetched, not an address without a scheme"),
        ("fetch", {"url": "http://user:pass@x.example/"}, "An address with a login is not fetched"),
        ("fetch", {"url": "HERE/none"}, "HTTP 404 Not Found from HERE/none"),
        ("fetch", {"url": "HERE/image"}, "HERE/image is no text but image/png"),
        ("fetch", {"url": "HERE/again"}, "More than 5 redirects from HERE/again"),
        ("read_rss", {"feed_url": "HERE/page"}, "HERE/page is no RSS or Atom feed"),
    ],
)
async def test_what_cannot_be_read_says_why(
    tool: str, arguments: dict[str, str], error: str, tools: Any, internet: Any, call: Any
) -> None:
    given = {name: value.replace("HERE", internet.url) for name, value in arguments.items()}
    async with Client(serve_tools(tools())) as client:
        assert await call(client, tool, **given) == "error: " + error.replace("HERE", internet.url)


async def test_no_results_and_a_question_for_humans_are_told(tools: Any, internet: Any, answer: Any, call: Any) -> None:
    async with Client(serve_tools(tools())) as client:
        internet.pages["/html/"] = answer("<p>nothing</p>", headers={"Content-Type": "text/html"})
        assert await call(client, "search", query="a") == "No results found."
        internet.pages["/html/"] = answer('<form id="challenge-form">', headers={"Content-Type": "text/html"})
        assert "wants to see a human" in await call(client, "search", query="b")


@pytest.mark.covers("BMCP-02")
async def test_a_second_call_is_answered_from_the_cache_until_it_is_too_old(
    tools: Any, internet: Any, call: Any, tmp_path: Path
) -> None:
    clock = [1_000_000.0]
    url = f"{internet.url}/page"
    async with Client(serve_tools(tools(now=lambda: clock[0]))) as client:
        first = [await call(client, "fetch", url=url), await call(client, "search", query="a")]
        clock[0] += 299
        assert [await call(client, "fetch", url=url), await call(client, "search", query="a")] == first
        assert internet.lines == ["GET /page", "POST /html/"]
        clock[0] += 2
        await call(client, "search", query="a")
        await call(client, "fetch", url=url)
        assert internet.lines == ["GET /page", "POST /html/", "POST /html/"]
        clock[0] += 1500
        await call(client, "fetch", url=url)
    assert internet.lines[3:] == ["GET /page"]
    assert all(len(path.stem) == 64 for path in (tmp_path / "cache").iterdir())


async def test_an_error_is_not_kept(tools: Any, internet: Any, answer: Any, call: Any) -> None:
    async with Client(serve_tools(tools())) as client:
        assert "404" in await call(client, "fetch", url=f"{internet.url}/late")
        internet.pages["/late"] = answer("here", headers={"Content-Type": "text/plain"})
        assert await call(client, "fetch", url=f"{internet.url}/late") == f"URL: {internet.url}/late\n\nhere"


@pytest.mark.covers("BMCP-02")
async def test_requests_start_a_second_apart_also_when_they_come_together(tools: Any, internet: Any, call: Any) -> None:
    async with Client(serve_tools(tools(every=1.0))) as client:
        await call(client, "fetch", url=f"{internet.url}/away")
    assert internet.lines == ["GET /away", "GET /page"]
    first, second = (request.at for request in internet.asked)
    assert 0.95 < second - first < 3


def test_the_cache_stays_small_and_can_do_without_a_disk(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", max_bytes=1000, now=lambda: 0.0)
    for number in range(9):
        cache.put(f"key {number}", "x" * 200)
    assert sum(path.stat().st_size for path in cache.folder.iterdir()) <= 1000
    assert cache.get("key 8", 1) == "x" * 200
    assert cache.get("key 0", 1) is None
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    nowhere = Cache(tmp_path / "file" / "cache")
    nowhere.put("a", "b")
    assert nowhere.get("a", 1) is None


def test_damage_in_the_cache_is_a_miss(tmp_path: Path) -> None:
    cache = Cache(tmp_path, now=lambda: 0.0)
    cache.put("a", "b")
    (file,) = tmp_path.iterdir()
    for damage in ("{", "[]", '{"key": "other", "at": 0, "text": "evil"}', '{"key": "a", "at": 99, "text": "b"}'):
        file.write_text(damage)
        assert cache.get("a", 10) is None
