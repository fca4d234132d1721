"""Chatting over HTTP: an answer when all is over, or events as they happen."""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from aar.agent import ApprovalResult
from aar.errors import ProviderUnauthorized, StoreUnavailable
from aar.messages.events import ProviderSwitchEvent
from aar.messages.settings import AgentConfig, ProviderConfig, SafetyConfig
from aar.testing import Fault, MemoryStore, ScriptedProvider
from aar.tools.registry import ToolRegistry, tool
from aar.transports.web import chats
from tests.transports.acp.test_ends import is_alive, written_to

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


# --- looking ----------------------------------------------------------------------------------


@pytest.mark.covers("WEB-01")
async def test_the_server_says_that_it_is_well(web: Any) -> None:
    async with web() as client:
        assert await client.get("/health") == (200, {"status": "ok"})
        head = await client.begin("HEAD", "/health")
        assert (head.status, b"".join([piece async for piece in head.pieces()])) == (200, b"")


@pytest.mark.covers("WEB-02", "WEB-03")
async def test_sessions_are_listed_and_described(web: Any) -> None:
    async with web(ScriptedProvider().text("x").forever()) as client:
        assert await client.get("/sessions") == (200, {"sessions": []})
        ids = sorted([(await client.chat("go"))["session_id"] for _ in range(3)])
        assert await client.get("/sessions") == (200, {"sessions": ids})
        events = len((await client.store.load(ids[0])).records)
        told = {"session_id": ids[0], "state": "completed", "step_count": 1, "event_count": events}
        assert await client.get(f"/sessions/{ids[0]}") == (200, told)
        for unknown in ("0123456789abcdef", "..", "a/b", ""):
            assert await client.get(f"/sessions/{unknown}") == (404, {"error": "not found"})


async def test_whatever_else_is_asked_for_is_not_found(web: Any) -> None:
    async with web() as client:
        for method, path in (
            ("GET", "/"),
            ("GET", "/health/"),
            ("POST", "/health"),
            ("GET", "/chat"),
            ("PUT", "/chat"),
            ("POST", "/chat/"),
            ("DELETE", "/sessions/x"),
        ):
            assert (method, path, await client.ask(method, path)) == (method, path, (404, {"error": "not found"}))


# --- an answer --------------------------------------------------------------------------------


@pytest.mark.covers("WEB-03", "CFG-13")
async def test_the_answer_has_all_that_happened(web: Any, tmp_path: Any) -> None:
    provider = ScriptedProvider().calls(("read_file", {"path": "a.txt"}), text="I look.").text("It says alpha.")
    async with web(provider) as client:
        (tmp_path / "project" / "a.txt").write_text("alpha")
        answer = await client.chat("What is in a.txt?")
        [result] = answer.pop("tool_results")
        events = answer.pop("events")
        assert result.pop("duration_ms") >= 0
        assert (result["tool_name"], result["is_error"], "alpha" in result["output"]) == ("read_file", False, True)
        session_id = answer["session_id"]
        assert answer == {
            "session_id": session_id,
            "response": "It says alpha.",
            "state": "completed",
            "step_count": 2,
        }
        assert (events[0]["action"], events[0]["data"]) == ("started", {"session_id": session_id})
        ended = {"session_id": session_id, "state": "completed", "step_count": 2, "stop": "end_turn"}
        assert (events[-1]["type"], events[-1]["action"], events[-1]["data"]) == ("session", "ended", ended)
        recorded = [one.event.id for one in (await client.store.load(session_id)).records if one.turn_id]
        assert [event["id"] for event in events[1:-1]] == recorded


@pytest.mark.covers("WEB-04")
async def test_without_a_text_the_last_output_of_a_tool_is_the_response(web: Any) -> None:
    @tool
    def double(number: int) -> str:
        """Twice the number."""
        return str(2 * number)

    provider = ScriptedProvider().calls(("double", {"number": 21})).text("")
    async with web(provider, registry=ToolRegistry([double])) as client:
        assert (await client.chat("go"))["response"] == "42"


async def test_a_session_goes_on_and_only_the_new_turn_is_told(web: Any) -> None:
    provider = ScriptedProvider().calls(("list_directory", {"path": "."})).text("One.").text("Two.")
    async with web(provider) as client:
        first = await client.chat("one")
        second = await client.chat("two", session_id=first["session_id"])
        assert second["session_id"] == first["session_id"]
        assert (second["response"], second["tool_results"], second["step_count"]) == ("Two.", [], 3)
        assert [event["content"] for event in second["events"] if event["type"] == "user_message"] == ["two"]


@pytest.mark.covers("WEB-03")
async def test_an_unknown_session_is_a_new_one_of_another_id(web: Any) -> None:
    async with web(ScriptedProvider().text("x").forever()) as client:
        answer = await client.chat("go", session_id="nobody")
        assert answer["session_id"] != "nobody"
        assert await client.get("/sessions") == (200, {"sessions": [answer["session_id"]]})


async def test_a_turn_that_fails_is_an_answer_that_says_why(web: Any) -> None:
    provider = ScriptedProvider().error(ProviderUnauthorized("the key is wrong"))
    async with web(provider) as client:
        answer = await client.chat("go")
        assert (answer["state"], answer["response"]) == ("error", "")
        [error] = [event for event in answer["events"] if event["type"] == "error"]
        assert "check your API key" in error["message"]


@pytest.mark.covers("WEB-18")
async def test_a_prompt_of_blocks_reaches_the_model_with_its_image(web: Any) -> None:
    provider = ScriptedProvider().text("A pixel.")
    blocks = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    async with web(provider) as client:
        assert (await client.chat(blocks))["response"] == "A pixel."
    [request] = provider.requests
    assert PIXEL in str(list(request.messages))


@pytest.mark.covers("WEB-10")
async def test_a_request_may_name_a_profile(web: Any) -> None:
    profiles = {"other": ProviderConfig(name="generic", model="other-model")}
    provider = ScriptedProvider().text("x").forever()
    async with web(provider, AgentConfig(providers=profiles)) as client:
        session_id = (await client.chat("go", provider="other"))["session_id"]
        await client.chat("go", session_id=session_id)
        facts = [record.event for record in (await client.store.load(session_id)).records]
    switches = [fact.to_model for fact in facts if isinstance(fact, ProviderSwitchEvent)]
    assert switches == ["other-model", AgentConfig().resolve_provider().model]


# --- events as they happen --------------------------------------------------------------------


@pytest.mark.covers("WEB-05", "WEB-06", "WEB-07")
async def test_a_stream_has_everything_in_order_and_ends_with_its_session(web: Any) -> None:
    provider = ScriptedProvider().calls(("list_directory", {"path": "."}), text="I look.").text("Nothing", chunks=2)
    async with web(provider) as client:
        exchange = await client.streaming("What is here?")
        assert exchange.headers["content-type"] == "text/event-stream"
        assert (exchange.headers["cache-control"], exchange.headers["connection"]) == ("no-cache", "keep-alive")
        events = [event async for event in exchange.events()]
        first, last = events[0], events[-1]
        session_id = first["data"]["session_id"]
        assert (first["type"], first["action"]) == ("session", "started")
        assert (last["type"], last["action"]) == ("session", "ended")
        assert last["data"] == {
            "session_id": session_id,
            "state": "completed",
            "step_count": 2,
            "stop": "end_turn",
        }
        wanted = ["user_message", "provider_meta", "tool_call", "tool_result", "assistant_message", "stream_chunk"]
        assert set(wanted) <= set(types(events))
        recorded = [one.event.id for one in (await client.store.load(session_id)).records if one.turn_id]
        assert [event["id"] for event in events[1:-1] if event["id"] in recorded] == recorded


async def test_later_versions_of_http_get_no_header_that_they_forbid(web: Any) -> None:
    async with web(ScriptedProvider().text("x")) as client:
        exchange = await client.begin("POST", "/chat/stream", {"prompt": "go"}, http_version="2")
        assert "connection" not in exchange.headers
        assert [event async for event in exchange.events()][-1]["action"] == "ended"


async def test_pieces_come_while_the_model_still_talks(web: Any) -> None:
    provider = ScriptedProvider().hang("Let me think")
    async with web(provider) as client:
        exchange = await client.streaming("go")
        async with aclosing(exchange.events()) as events:
            async for event in events:
                if event["type"] == "stream_chunk":
                    assert event["text"] == "Let me think"
                    break
        await exchange.leave()


@pytest.mark.covers("WEB-16")
@pytest.mark.parametrize("path", ["/chat", "/chat/stream"])
async def test_whoever_leaves_takes_the_turn_along(web: Any, path: str) -> None:
    provider = ScriptedProvider().hang("Let me").text("Again.")
    store = MemoryStore()
    async with web(provider, store=store) as client:
        exchange = client.start("POST", path, {"prompt": "go"})
        await provider.reached(1)
        await exchange.leave()
        assert provider.streaming_now == 0  # the application is done only when the turn has ended
        [session_id] = await store.ids()
        assert (await store.load(session_id)).header.state == "cancelled"
        assert (await client.chat("again", session_id=session_id))["response"] == "Again."


async def test_whoever_leaves_leaves_no_process(web: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    provider = ScriptedProvider().call("bash", command=f"sleep 1000 & echo $! > {pids}; wait")
    async with web(provider, approval_callback=lambda *_: "approved") as client:
        exchange = client.start("POST", "/chat", {"prompt": "go"})
        pid = int(await written_to(pids))
        assert is_alive(pid)
        await exchange.leave()
        assert not is_alive(pid)


async def test_half_a_request_begins_nothing(web: Any) -> None:
    async with web() as client:
        told: list[Any] = []
        messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b'{"prompt": 1}', "more_body": True}]

        async def receive() -> Any:
            return messages.pop()

        async def send(message: Any) -> None:
            told.append(message)

        scope = {"type": "http", "method": "POST", "path": "/chat", "headers": [(b"host", b"localhost")]}
        await client.app(scope, receive, send)
        assert told == []


@pytest.mark.covers("WEB-15")
async def test_what_breaks_a_turn_is_told_in_an_error_frame_before_the_last_one(web: Any) -> None:
    provider = ScriptedProvider().error(ProviderUnauthorized("the key is wrong"))
    async with web(provider) as client:
        events = await client.stream("go")
        assert "error" in types(events)
        assert (events[-1]["action"], events[-1]["data"]["state"]) == ("ended", "error")


@pytest.mark.covers("WEB-15")
async def test_a_turn_that_cannot_be_recorded_ends_with_an_error_frame(web: Any) -> None:
    full = dict.fromkeys(range(4, 100), Fault(error=StoreUnavailable("the disk is full")))
    provider = ScriptedProvider().calls(("list_directory", {"path": "."})).text("Done.")
    async with web(provider, store=MemoryStore(faults=full)) as client:
        events = await client.stream("go")
        assert [(event["type"], event.get("action")) for event in events[-2:]] == [
            ("error", None),
            ("session", "ended"),
        ]
        assert "the disk is full" in events[-2]["message"]
        assert events[-1]["data"]["state"] == "error"


async def test_a_silent_stream_is_kept_alive(web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats, "SILENCE", 0.01)
    provider = ScriptedProvider().hang()
    async with web(provider) as client:
        exchange = await client.streaming("go")
        async with aclosing(exchange.pieces()) as pieces:
            async for piece in pieces:
                if piece == b": still here\n\n":
                    break
        await exchange.leave()


async def test_turns_of_one_session_come_one_after_another(web: Any) -> None:
    provider = ScriptedProvider().text("One.").hang("Two").text("Three.")
    async with web(provider) as client:
        session_id = (await client.chat("one"))["session_id"]
        second = await client.streaming("two", session_id=session_id)
        await provider.reached(2)
        third = await client.streaming("three", session_id=session_id)
        async with aclosing(third.events()) as events:
            assert (await anext(events))["data"] == {"session_id": session_id}
            assert len(provider.requests) == 2
            await second.leave()
            last = [event async for event in events][-1]
        assert (last["data"]["state"], len(provider.requests)) == ("completed", 3)


async def test_a_session_that_another_process_holds_is_a_conflict(web: Any) -> None:
    store = MemoryStore()
    async with web(ScriptedProvider(), store=store) as client, store.open("held", create=True):
        for path in ("/chat", "/chat/stream"):
            status, answer = await client.ask("POST", path, {"prompt": "go", "session_id": "held"})
            said = "Session held is open in this process (pid"
            assert (status, answer["error"][: len(said)]) == (409, said)
            assert answer["error"].endswith("). Try again later, or leave session_id out")


# --- questions --------------------------------------------------------------------------------


WRITE = ("write_file", {"path": "a.txt", "content": "x"})


@pytest.mark.covers("WEB-12")
async def test_a_callback_answers_questions(web: Any, tmp_path: Any) -> None:
    asked = []

    def answer(spec: Any, call: Any) -> ApprovalResult:
        asked.append((spec.name, call.arguments["path"]))
        return ApprovalResult.APPROVED

    provider = ScriptedProvider().calls(WRITE).text("Done.")
    async with web(provider, approval_callback=answer) as client:
        [result] = (await client.chat("go"))["tool_results"]
    assert (asked, result["is_error"]) == ([("write_file", "a.txt")], False)
    assert (tmp_path / "project" / "a.txt").read_text() == "x"


async def test_without_one_the_answer_is_no(web: Any, tmp_path: Any) -> None:
    provider = ScriptedProvider().calls(WRITE).text("Done.")
    async with web(provider) as client:
        [result] = (await client.chat("go"))["tool_results"]
    assert (result["is_error"], "nobody is there" in result["output"]) == (True, True)
    assert not (tmp_path / "project" / "a.txt").exists()


# --- rules for one request --------------------------------------------------------------------

TRUSTING = AgentConfig(safety=SafetyConfig(require_approval_for_writes=False))


@pytest.mark.covers("WEB-08")
async def test_rules_hold_for_one_request_only(web: Any) -> None:
    provider = ScriptedProvider()
    for _ in range(3):
        provider.calls(WRITE).text("Done.")
    async with web(provider, TRUSTING) as client:
        first = await client.chat("go")
        session_id = first["session_id"]
        second = await client.chat("go", session_id=session_id, safety={"read_only": True})
        third = await client.chat("go", session_id=session_id)
    errors = [answer["tool_results"][0]["is_error"] for answer in (first, second, third)]
    assert errors == [False, True, False]
    assert "read-only mode" in second["tool_results"][0]["output"]


@pytest.mark.covers("WEB-09")
async def test_rules_cannot_be_loosened_unless_the_server_allows_it(web: Any) -> None:
    loose = {"require_approval_for_writes": False}
    async with web(ScriptedProvider().calls(WRITE).text("Done.")) as client:
        status, answer = await client.ask("POST", "/chat", {"prompt": "go", "safety": loose})
        assert (status, "--allow-loosening" in answer["error"]) == (403, True)
        assert await client.get("/sessions") == (200, {"sessions": []})
    async with web(ScriptedProvider().calls(WRITE).text("Done."), may_loosen=True) as client:
        [result] = (await client.chat("go", safety=loose))["tool_results"]
        assert not result["is_error"]


# --- the end ----------------------------------------------------------------------------------


async def test_when_the_server_ends_its_turns_have_ended_and_are_kept(web: Any) -> None:
    provider, store = ScriptedProvider().hang("Let me"), MemoryStore()
    async with web(provider, store=store) as client:
        exchange = await client.streaming("go")
        await provider.reached(1)
    events = [event async for event in exchange.events()]
    assert (events[-1]["action"], events[-1]["data"]["state"]) == ("ended", "cancelled")
    assert (await store.load(events[0]["data"]["session_id"])).header.state == "cancelled"
