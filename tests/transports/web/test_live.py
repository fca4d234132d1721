"""Live sessions over HTTP and the page for browsers: several clients see, drive and answer the same session."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

import aar
from aar.errors import ConfigError
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.safety.display import visible
from aar.testing import ScriptedProvider
from aar.transports.web import page_files
from aar.transports.web.live import SILENCE
from aar.ui import event_of

TOKEN = "sesame"
ASKING = AgentConfig(streaming=True, safety=SafetyConfig(require_approval_for_execute=True))
LONGEST_SCRIPT = 15 * 1024


@dataclass
class Frame:
    id: int
    event: str
    data: dict[str, Any]


class Browser:
    """A client that has the key. `seen` is what its stream has told."""

    def __init__(self, web: Any, session_id: str = "") -> None:
        self.web = web
        self.session_id = session_id
        self.seen: list[Frame] = []
        self.view = ""

    async def ask(self, path: str, body: Any = None, *, method: str = "POST", **headers: str) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {TOKEN}", **headers}
        query, path = path.partition("?")[2], path.partition("?")[0]
        exchange = self.web.start(method, path, body, headers, query_string=query.encode())
        await exchange.begin()
        return exchange.status, await exchange.data()

    async def do(self, what: str, **body: Any) -> Any:
        status, answer = await self.ask(f"/sessions/{self.session_id}/{what}", body)
        assert status == 200, answer
        return answer

    async def listen(self, stop: Callable[[Frame], bool], *, answers: bool = False, after: int | None = None) -> None:
        headers = {"authorization": f"Bearer {TOKEN}"} | ({"last-event-id": str(after)} if after is not None else {})
        query = "&".join(["answers=1"] * answers + [f"view={self.view}"] * bool(self.view)).encode()
        path = f"/sessions/{self.session_id}/events"
        exchange = self.web.start("GET", path, None, headers, query_string=query)
        await exchange.begin()
        assert (exchange.status, exchange.headers["content-type"]) == (200, "text/event-stream")
        rest = b""
        async with aclosing(exchange.pieces()) as pieces:
            async for piece in pieces:
                *frames, rest = (rest + piece).split(b"\n\n")
                for frame in map(parsed, frames):
                    if frame is not None:
                        self.seen.append(frame)
                        if stop(frame):
                            await exchange.leave()
                            return

    @property
    def facts(self) -> list[tuple[int, str]]:
        return [(frame.id, frame.event) for frame in self.seen if frame.id]


def parsed(frame: bytes) -> Frame | None:
    if frame.startswith(b":"):
        return None
    fields = dict(line.split(": ", 1) for line in frame.decode().split("\n"))
    return Frame(int(fields.get("id", 0)), fields["event"], json.loads(fields["data"]))


def until(kind: str) -> Callable[[Frame], bool]:
    return lambda frame: frame.event == kind


@pytest.fixture
def opened(web: Callable[..., Any]) -> Callable[..., Any]:
    """`async with opened(provider) as browser`: a browser with a new session."""

    @asynccontextmanager
    async def start(provider: ScriptedProvider | None = None, config: AgentConfig | None = None, **more: Any) -> Any:
        async with web(provider, config, token=TOKEN, page=True, **more) as client:
            browser = Browser(client)
            status, answer = await browser.ask("/sessions", {})
            assert status == 200
            browser.session_id = answer["session_id"]
            yield browser

    return start


# --- the page ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(page_files.PAGE_PATHS))
async def test_the_page_loads_nothing_from_elsewhere_and_runs_no_script_but_its_own(opened, path) -> None:
    async with opened() as browser:
        exchange = await browser.web.begin("GET", path)  # without a token: nothing in it is secret
        body = b"".join([piece async for piece in exchange.pieces()]).decode()
    policy = exchange.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "unsafe" not in policy
    assert exchange.headers["x-content-type-options"] == "nosniff"
    assert re.search(r"https?://|//cdn|<script>|style=|onclick=\"|innerHTML|eval\(", body) is None


def test_the_script_is_small() -> None:
    assert len(page_files.page_file("/page/app.js").data) < LONGEST_SCRIPT


def test_what_a_question_is_about_is_shown_with_its_hidden_characters() -> None:
    """A command that reads otherwise than it runs must not get a yes. Browsers reorder text, and hide some of it."""
    script = page_files.page_file("/page/app.js").data.decode()
    question = script.partition("approval_requested(event)")[2].partition("questions.set")[0]
    assert re.findall(r"(?:title|what)\.textContent = (\w+)\(", question) == ["visible", "visible"]
    hidden = re.search(r"const HIDDEN = /(.*)/gu;", script)
    assert hidden is not None
    named = {"Cc", "Cf", "Zl", "Zp"}
    assert named == set(re.findall(r"\\p\{(\w+)\}", hidden[1]))
    others = re.compile(re.sub(r"\\p\{\w+\}", "", hidden[1]))
    unseen = [one for one in map(chr, [*range(0x3200), *range(0xFE00, 0x10000)]) if visible(one) != one]
    assert [one for one in unseen if unicodedata.category(one) not in {*named, "Cn"} and not others.match(one)] == []


async def test_every_event_that_the_page_shows_is_one_that_there_is() -> None:
    script = page_files.page_file("/page/app.js").data.decode()
    shown = set(re.findall(r"^  (\w+)\((?:event|data)?\) \{", script, re.M))
    from aar.messages.events import EventType

    assert {"status"} == shown - set(EventType)
    assert set(EventType) - shown == {  # nothing for people
        *("compacted", "config_changed", "prompt_queued", "prompts_cleared"),
        *("provider_meta", "provider_switch", "session"),
    }


async def test_there_is_no_page_unless_it_was_asked_for(web) -> None:
    async with web() as client:
        assert (await client.get("/"))[0] == 404
        assert (await client.ask("POST", "/sessions", {}))[0] == 404
    with pytest.raises(ConfigError, match="page=True needs a token"):
        aar.create_asgi_app(page=True)


# --- who may ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/sessions"),
        ("GET", "/sessions?details=1"),
        ("GET", "/sessions/ID/events"),
        ("POST", "/sessions/ID/prompt"),
        ("POST", "/sessions/ID/cancel"),
        ("POST", "/sessions/ID/decide"),
    ],
)
async def test_without_the_key_nobody_looks_at_a_live_session_or_answers_for_it(opened, method, path) -> None:
    async with opened() as browser:
        path = path.replace("ID", browser.session_id)
        for given in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}"):
            assert (await browser.ask(path, {}, method=method, authorization=given))[0] == 401


async def test_only_the_servers_own_page_and_those_that_were_named_may(opened) -> None:
    async with opened() as browser:
        for origin, status in [
            ("http://localhost", 200),
            ("http://localhost:99", 403),
            ("https://evil.example", 403),
            ("null", 403),
        ]:
            assert (await browser.ask("/sessions", {}, origin=origin))[0] == status


# --- what happens -----------------------------------------------------------------------------


@pytest.mark.covers("AURA-26", "AURA-32")
async def test_two_browsers_see_the_same_and_either_answers(opened) -> None:
    script = ScriptedProvider().call("bash", command="echo hello").text("Done.")
    async with opened(script, ASKING) as one:
        other = Browser(one.web, one.session_id)
        accepted = []

        def answer(browser: Browser) -> Callable[[Frame], bool]:
            def look(frame: Frame) -> bool:
                if frame.event == "approval_requested":
                    nursery.start_soon(decide, browser, frame.data["tool_call_id"])
                return frame.event == "turn_ended"

            return look

        async def decide(browser: Browser, call_id: str) -> None:
            accepted.append((await browser.do("decide", tool_call_id=call_id, decision="allow"))["accepted"])

        async with trio.open_nursery() as nursery:
            for browser in (one, other):
                nursery.start_soon(lambda b=browser: b.listen(answer(b), answers=True))
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert await one.do("prompt", prompt="go") == {"session_id": one.session_id, "waits": False}
    assert sorted(accepted) == [False, True]
    assert one.facts == other.facts
    assert [number for number, _ in one.facts] == list(range(1, len(one.facts) + 1))
    resolved = next(frame.data for frame in one.seen if frame.event == "approval_resolved")
    assert (resolved["decision"], resolved["by"]) == ("allow", "web")


async def test_a_question_is_no_when_no_browser_is_there_to_answer(opened) -> None:
    async with opened(ScriptedProvider().call("bash", command="echo hello").text("No."), ASKING) as browser:
        await browser.do("prompt", prompt="go")
        await browser.listen(until("turn_ended"))
        resolved = next(frame.data for frame in browser.seen if frame.event == "approval_resolved")
        assert (resolved["decision"], resolved["by"]) == ("deny", "nobody")


@pytest.mark.covers("AURA-33")
async def test_a_client_that_was_away_for_a_thousand_events_misses_none_and_gets_none_twice(opened) -> None:
    calls = [("list_directory", {"path": "."})] * 520
    script = ScriptedProvider().text("First.").calls(*calls).text("Last.")
    async with opened(script) as browser:
        await browser.do("prompt", prompt="one")
        await browser.listen(until("turn_ended"))
        last = browser.facts[-1][0]
        await browser.do("prompt", prompt="two")
        steady = Browser(browser.web, browser.session_id)
        await steady.listen(lambda frame: frame.event == "turn_ended" and frame.id > last)
        await browser.listen(until("turn_ended"), after=last)
    assert len(steady.facts) > 1000
    assert browser.facts == steady.facts
    assert [number for number, _ in browser.facts] == list(range(1, len(browser.facts) + 1))


@pytest.mark.covers("AURA-33")
async def test_who_comes_new_is_told_the_state_first_and_of_the_past_the_facts_alone(opened) -> None:
    async with opened(ScriptedProvider().text("Hello there.", chunks=3), AgentConfig(streaming=True)) as browser:
        await browser.do("prompt", prompt="hi")
        await browser.listen(until("turn_ended"))
        late = Browser(browser.web, browser.session_id)
        await late.listen(until("turn_ended"))
        assert late.seen[0].event == "status"
        assert (late.seen[0].data["state"], late.seen[0].data["after"]) == ("completed", 0)
        assert all(frame.id for frame in late.seen[1:])
        lost = Browser(browser.web, browser.session_id)
        await lost.listen(until("turn_ended"), after=9999)  # it knows facts that there are not: it begins anew
        assert (lost.seen[0].data["after"], lost.facts) == (0, late.facts)


@pytest.mark.covers("AURA-25")
async def test_interfaces_get_events_made_for_them_and_go_on_where_they_were(opened) -> None:
    script = ScriptedProvider().calls(("list_directory", {"path": "."}), text="Let me look.").text("Done.")
    async with opened(script) as browser:
        browser.view = "ui"
        await browser.do("prompt", prompt="go")
        await browser.listen(lambda frame: frame.data.get("type") == "assistant_done")
        assert browser.seen[0].data["after"] == 0
        shown = [event_of(json.dumps(frame.data)) for frame in browser.seen[1:]]
        assert [frame.event for frame in browser.seen[1:]] == [event.tag for event in shown]
        middle = next(frame.id for frame in browser.seen if frame.data.get("type") == "message_finalized")
        again = Browser(browser.web, browser.session_id)
        again.view = "ui"
        await again.listen(lambda frame: frame.data.get("type") == "assistant_done", after=middle)
    at = next(at for at, frame in enumerate(browser.seen) if frame.id == middle)
    whole = ("message_added", "message_finalized", "assistant_done")
    missed = [frame.data for frame in browser.seen[at + 1 :] if frame.data["type"] in whole]
    assert [frame.data for frame in again.seen if frame.data.get("type") in whole] == missed


async def test_a_turn_goes_on_when_its_asker_leaves_and_anybody_cancels_it(opened) -> None:
    async with opened(ScriptedProvider().hang("Let me")) as browser:
        await browser.do("prompt", prompt="go")
        assert await Browser(browser.web, browser.session_id).do("cancel") == {"session_id": browser.session_id}
        await browser.listen(until("turn_ended"))
        assert browser.seen[-1].data["stop"] == "cancelled"


async def test_a_prompt_may_make_the_rules_stricter_and_not_looser(opened) -> None:
    script = ScriptedProvider().call("write_file", path="a.txt", content="x").text("No.")
    config = AgentConfig(safety=SafetyConfig(require_approval_for_writes=False))
    async with opened(script, config) as browser:
        asked = {"prompt": "go", "safety": {"require_approval_for_writes": False, "allowed_paths": []}}
        status, answer = await browser.ask(f"/sessions/{browser.session_id}/prompt", asked)
        assert (status, answer["error"].partition(":")[0]) == (403, "safety.allowed_paths")
        await browser.do("prompt", prompt="go", safety={"read_only": True})
        await browser.listen(until("turn_ended"))
        result = next(frame.data for frame in browser.seen if frame.event == "tool_result")
        assert result["is_error"]


@pytest.mark.parametrize(
    ("what", "body", "told"),
    [
        ("prompt", {}, "A prompt is needed"),
        ("prompt", [], "The body must be a JSON object"),
        ("prompt", {"prompt": "x", "session_id": "other"}, "The body must be a JSON object"),
        ("prompt", {"prompt": "x", "provider": "none"}, "Unknown provider 'none'"),
        ("cancel", {"turn_id": 7}, "Invalid turn_id"),
        ("decide", {"decision": "allow"}, "The body must be a JSON object"),
        ("decide", {"tool_call_id": "c", "decision": "maybe"}, "Invalid decision: use allow, allow_always, deny"),
    ],
)
async def test_what_cannot_be_understood_is_answered_with_why(opened, what, body, told) -> None:
    async with opened() as browser:
        status, answer = await browser.ask(f"/sessions/{browser.session_id}/{what}", body)
        assert (status, answer["error"][: len(told)]) == (400, told)


async def test_a_session_that_is_not_there_is_not_begun(opened) -> None:
    async with opened() as browser:
        for what in ("prompt", "cancel", "decide"):
            body = {"prompt": "x", "tool_call_id": "c", "decision": "allow"}
            body = {"prompt": {"prompt": "x"}, "cancel": {}, "decide": body}[what]
            assert await browser.ask(f"/sessions/none/{what}", body) == (404, {"error": "not found"})
        assert (await browser.ask("/sessions/none/events", method="GET"))[0] == 404
        for after in ("x", "-1", "1" * 30):
            path = f"/sessions/{browser.session_id}/events?after={after}"
            assert (await browser.ask(path, method="GET"))[0] == 400


async def test_sessions_are_listed_with_what_people_know_them_by(opened, tmp_path) -> None:
    async with opened(ScriptedProvider().text("Hello.")) as browser:
        await browser.do("prompt", prompt="hi")
        await browser.listen(until("turn_ended"))
        (entry,) = (await browser.ask("/sessions?details=1", method="GET"))[1]["sessions"]
        assert (entry["session_id"], entry["title"]) == (browser.session_id, "Hello.")
        assert Path(entry["cwd"]) == tmp_path / "project"


async def test_a_stream_says_that_it_is_still_there(autojump_clock, opened) -> None:
    async with opened() as browser:
        headers = {"authorization": f"Bearer {TOKEN}"}
        exchange = browser.web.start("GET", f"/sessions/{browser.session_id}/events", None, headers)
        await exchange.begin()
        told = b""
        begun = trio.current_time()
        async with aclosing(exchange.pieces()) as pieces:
            async for piece in pieces:
                told += piece
                if b"still here" in told:
                    break
        assert trio.current_time() - begun == pytest.approx(SILENCE, abs=0.5)
        await exchange.leave()
