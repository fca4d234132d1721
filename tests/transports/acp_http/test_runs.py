"""Runs: begun in three ways, ended in four, and told of in order."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
import trio

from aar.agent import ApprovalResult
from aar.errors import ProviderUnavailable, SessionInUse
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.runtime import open_runtime
from aar.testing import MemoryStore, ScriptedProvider
from aar.tools.registry import ToolRegistry, tool
from aar.transports.runs import conversations, runs
from tests.transports.acp_http.conftest import asked, post, text_of
from tests.transports.runs.test_conversations import GatedStore


def said(text: str) -> dict:
    return {"role": "assistant", "parts": [{"content_type": "text/plain", "content": text}]}


# --- looking ----------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-01")
async def test_a_ping_is_answered(api) -> None:
    async with api() as client:
        answer = await client.get("/ping")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert answer.headers["content-type"] == "application/json"
        assert int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.covers("ACPH-02")
async def test_the_agent_says_what_it_is(api) -> None:
    config = AgentConfig(provider=ProviderConfig(name="generic", model="tiny"), max_steps=7)
    async with api(config=config, agent_name="helper", agent_description="Helps.") as client:
        manifest = {
            "name": "helper",
            "description": "Helps.",
            "input_content_types": ["text/plain"],
            "output_content_types": ["text/plain"],
            "metadata": {"provider": "generic", "model": "tiny", "max_steps": 7},
        }
        assert (await client.get("/agents")).json() == {"agents": [manifest]}
        assert (await client.get("/agents/helper")).json() == manifest
        missing = await client.get("/agents/aar")
        assert (missing.status_code, missing.json()) == (404, {"detail": "Agent 'aar' not found"})


@pytest.mark.covers("ACPH-06", "ACPH-09")
async def test_unknown_runs_and_sessions_are_not_found(api) -> None:
    async with api() as client:
        for method, path, what in (
            ("GET", "/runs/x1", "Run 'x1'"),
            ("POST", "/runs/x1", "Run 'x1'"),
            ("POST", "/runs/x1/cancel", "Run 'x1'"),
            ("GET", "/runs/x1/events", "Run 'x1'"),
            ("GET", "/sessions/0123456789abcdef", "Session '0123456789abcdef'"),
            ("GET", "/sessions/..", "Session '..'"),
            ("GET", "/sessions/%2e%2e%5cx", "Session '..\\x'"),
        ):
            answer = await client.http.request(method, client.url + path)
            if path == "/sessions/..":  # the client resolves it itself
                assert answer.status_code == 404
                continue
            assert (answer.status_code, answer.json()) == (404, {"detail": f"{what} not found"})


async def test_whatever_else_is_asked_for_is_not_found(api) -> None:
    async with api() as client:
        for method, path in (
            ("GET", "/"),
            ("GET", "/ping/"),
            ("GET", "/agents//aar"),
            ("DELETE", "/ping"),
            ("GET", "/runs"),
            ("PUT", "/runs"),
            ("GET", "/runs/a/b/c"),
            ("GET", "/static/x"),
        ):
            answer = await client.http.request(method, client.url + path)
            assert (method, path, answer.status_code, answer.json()) == (method, path, 404, {"detail": "Not found"})


# --- sync -------------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-03", "ACPH-06", "ACPH-09")
async def test_a_sync_request_waits_for_the_finished_run(api) -> None:
    provider = ScriptedProvider().calls(("list_directory", {"path": "."}), text="I look.").text("Nothing there.")
    async with api(provider) as client:
        run = await client.run("What is here?")
        begun, ended = datetime.fromisoformat(run.pop("created_at")), datetime.fromisoformat(run.pop("finished_at"))
        assert begun.utcoffset() == ended.utcoffset()
        assert begun.utcoffset().total_seconds() == 0
        assert begun <= ended
        assert re.fullmatch("[0-9a-f]{32}", run["run_id"])
        assert run == {
            "run_id": run["run_id"],
            "agent_name": "aar",
            "status": "completed",
            "session_id": run["session_id"],
            "output": [said("I look."), said("Nothing there.")],
            "error": None,
            "stop_reason": "end_turn",
        }
        stored = (await client.get(f"/runs/{run['run_id']}")).json()
        assert {**stored, **run} == stored
        session = (await client.get(f"/sessions/{run['session_id']}")).json()
        events = len((await client.store.load(run["session_id"])).records)
        told = {"session_id": run["session_id"], "state": "completed", "step_count": 2, "event_count": events}
        assert session == told


async def test_all_that_users_say_is_the_prompt(api) -> None:
    provider = ScriptedProvider().text("ok")
    messages = [
        {
            "role": "user",
            "parts": [{"content": "One,"}, {"content_type": "text/plain; charset=utf-8", "content": "two"}],
        },
        {"role": "assistant", "parts": [{"content": "never mind"}]},
        {"parts": [{"content_type": "image/png", "content": "iVBOR"}, {"content": "three"}]},
    ]
    async with api(provider) as client:
        answer = await client.post("/runs", {"agent_name": "aar", "mode": "sync", "input": messages, "more": 1})
        assert answer.json()["status"] == "completed"
    assert provider.requests[0].messages[-1]["content"] == "One,two\nthree"


@pytest.mark.covers("ACPH-14")
async def test_a_failure_of_the_model_is_a_failed_run(api) -> None:
    failed = ProviderUnavailable("the server is down", retryable=False)
    async with api(ScriptedProvider().error(failed)) as client:
        run = await client.run("go")
        assert (run["status"], run["stop_reason"], run["output"]) == ("failed", "error", [])
        assert run["error"].startswith("Could not connect to the provider")
        assert await client.types(run) == ["run_created", "run_in_progress", "run_failed"]


async def test_a_run_that_reached_a_limit_is_completed_and_says_why(api) -> None:
    provider = ScriptedProvider().call("list_directory", path=".").forever()
    async with api(provider, AgentConfig(max_steps=1)) as client:
        run = await client.run("go")
        assert (run["status"], run["stop_reason"], run["error"]) == ("completed", "max_steps", None)


async def test_a_turn_that_took_too_long_is_a_failed_run(api) -> None:
    async with api(ScriptedProvider().hang("Let me"), AgentConfig(timeout=0.2, streaming=True)) as client:
        run = await client.run("go")
        assert (run["status"], run["stop_reason"], run["error"]) == (
            "failed",
            "timed_out",
            "Agent timed out after 0.2s",
        )
        assert run["output"] == [said("Let me")]


async def test_a_session_that_another_process_holds_is_a_failed_run(api) -> None:
    store = MemoryStore()
    async with open_runtime(AgentConfig(), store=store) as other:
        held = await other.sessions.open("/")
        async with api(ScriptedProvider(), store=store) as client:
            run = await client.run("go", session_id=held.session_id)
            assert (run["status"], run["session_id"]) == ("failed", None)
            assert run["error"].startswith(f"Session {held.session_id} is open in this process")


async def test_a_mistake_in_a_tool_of_the_application_fails_no_request(api) -> None:
    @tool
    async def broken(word: str) -> str:
        """Breaks."""
        raise KeyError(word)

    registry = ToolRegistry()
    registry.add(broken)
    provider = ScriptedProvider().call("broken", word="x").text("It broke.")
    async with api(provider, registry=registry) as client:
        run = await client.run("go")
        assert (run["status"], text_of(*run["output"])) == ("completed", "It broke.")


# --- async ------------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-04")
async def test_an_async_request_is_answered_at_once_and_can_be_asked_for_later(api) -> None:
    gate = trio.Event()
    async with api(ScriptedProvider().text("Done.").after(gate)) as client:
        answer = await client.post("/runs", asked("go", mode="async"))
        assert answer.status_code == 202
        run = answer.json()
        assert run["session_id"]
        assert (run["status"] in ("created", "in-progress"), run["finished_at"], run["output"]) == (True, None, [])
        await client.until(run["run_id"], "in-progress")
        gate.set()
        finished = await client.until(run["run_id"], "completed")
        assert finished == run | {
            "status": "completed",
            "output": [said("Done.")],
            "stop_reason": "end_turn",
            "finished_at": finished["finished_at"],
        }


async def test_an_async_run_goes_on_when_its_client_has_left(api) -> None:
    gate = trio.Event()
    async with api(ScriptedProvider().text("Done.").after(gate)) as client:
        run = (await client.post("/runs", asked("go", mode="async"))).json()
        await client.http.aclose()
        gate.set()
        async with type(client.http)(base_url=client.url) as other:
            client.http = other
            assert (await client.until(run["run_id"], "completed"))["output"] == [said("Done.")]


@pytest.mark.covers("ACPH-08")
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_the_log_tells_everything_in_order_in_every_mode(api, mode: str) -> None:
    async with api(ScriptedProvider().text("Hello."), AgentConfig()) as client:
        run = (await client.post("/runs", asked("go", mode=mode))).json()
        run = await client.until(run["run_id"], "completed")
        events = (await client.get(f"/runs/{run['run_id']}/events")).json()["events"]
        types = ["run_created", "run_in_progress", "message_created", "run_completed"]
        assert [event["type"] for event in events] == types
        assert events[0]["run"]["status"] == "created"
        assert events[1]["run"] | {"status": "created"} == run | {
            "status": "created",
            "output": [],
            "finished_at": None,
            "stop_reason": None,
        }
        assert events[2] == {"type": "message_created", "message": said("Hello.")}
        assert events[3] == {"type": "run_completed", "run": run}


# --- stream -----------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-05", "ACPH-08", "ACPH-15")
async def test_a_stream_tells_of_the_run_as_it_goes_and_says_nothing_twice(api) -> None:
    provider = ScriptedProvider().calls(("list_directory", {"path": "."}), text="Look…\n\n").text("One. Two.", chunks=9)
    async with api(provider) as client:
        events = await client.stream("go")
        types = [event["type"] for event in events]
        assert types[:2] == ["run_created", "run_in_progress"]
        assert types[-1] == "run_completed"
        assert set(types[2:-1]) == {"message_created"}
        run = events[-1]["run"]
        assert run["output"] == [said("Look…\n\n"), said("One. Two.")]
        assert text_of(*(event["message"] for event in events[2:-1])) == text_of(*run["output"])
        assert (await client.get(f"/runs/{run['run_id']}/events")).json() == {"events": events}


@pytest.mark.covers("ACPH-05")
async def test_what_is_said_first_is_seen_before_the_rest_is_there(api) -> None:
    provider = ScriptedProvider().hang("Let me think")
    async with api(provider) as client, client.streaming("go") as events:
        seen = [await anext(events) for _ in range(3)]
        assert seen[2]["message"] == said("Let me think")
        cancelled = (await client.post(f"/runs/{seen[0]['run']['run_id']}/cancel")).json()
        assert (cancelled["status"], cancelled["output"]) == ("cancelled", [said("Let me think")])
        assert [event async for event in events] == [{"type": "run_cancelled", "run": cancelled}]


@pytest.mark.covers("ACPH-05", "ACPH-15")
async def test_without_streaming_a_message_comes_whole(api) -> None:
    async with api(ScriptedProvider().text("Hello there.", chunks=4), AgentConfig(streaming=False)) as client:
        told = [event["message"] for event in await client.stream("go") if event["type"] == "message_created"]
        assert told == [said("Hello there.")]


@pytest.mark.covers("ACPH-15")
async def test_a_call_that_breaks_off_and_is_tried_again_says_what_is_void(api) -> None:
    provider = ScriptedProvider().cut("Once upon").text("Once more.")
    async with api(provider) as client:
        events = await client.stream("go")
        text = ""
        for event in events:
            if event["type"] == "message_created":
                text = text[: len(text) - event.get("replaces", 0)] + text_of(event["message"])
        assert text == text_of(*events[-1]["run"]["output"]) == "Once more."


@pytest.mark.covers("ACPH-05", "ACPH-14")
async def test_a_stream_of_a_failed_run_ends_with_the_failure(api) -> None:
    failed = ProviderUnavailable("the server is down", retryable=False)
    async with api(ScriptedProvider().error(failed, after="Let me")) as client:
        events = await client.stream("go")
        assert [event["type"] for event in events][-1] == "run_failed"
        assert events[-1]["run"]["error"].startswith("Could not connect to the provider")


# --- ending -----------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-07")
async def test_a_run_that_is_cancelled_says_so_when_it_has_ended(api) -> None:
    provider = ScriptedProvider().hang()
    async with api(provider) as client:
        run = (await client.post("/runs", asked("go", mode="async"))).json()
        await provider.reached(1)
        answer = await client.post(f"/runs/{run['run_id']}/cancel")
        assert answer.status_code == 200
        assert (answer.json()["status"], answer.json()["error"]) == ("cancelled", None)
        assert provider.streaming_now == 0
        assert (await client.post(f"/runs/{run['run_id']}/cancel")).json() == answer.json()
        session = (await client.get(f"/sessions/{run['session_id']}")).json()
        assert session["state"] == "cancelled"


@pytest.mark.covers("ACPH-07")
async def test_a_completed_run_stays_as_it_is_when_it_is_cancelled(api) -> None:
    async with api(ScriptedProvider().text("Done.")) as client:
        run = await client.run("go")
        assert (await client.post(f"/runs/{run['run_id']}/cancel")).json() == run


@pytest.mark.covers("ACPH-17")
@pytest.mark.parametrize("mode", ["stream", "sync"])
async def test_a_client_that_leaves_cancels_its_run(api, mode: str) -> None:
    provider = ScriptedProvider().hang("Let me think")
    async with api(provider) as client:
        first = (await client.post("/runs", asked("go", mode="async"))).json()
        await client.post(f"/runs/{first['run_id']}/cancel")
        request = post("/runs", asked("go", mode=mode, session_id=first["session_id"]))
        provider.hang("Let me think")
        async with client.connected(request) as stream:
            await provider.reached(len(provider.requests) + 1)
            if mode == "stream":
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
        with trio.fail_after(10):
            while (await client.get(f"/sessions/{first['session_id']}")).json()["state"] != "cancelled":
                pass
        assert provider.streaming_now == 0


# --- sessions ---------------------------------------------------------------------------------


@pytest.mark.covers("ACPH-13", "ACPH-18")
async def test_a_second_run_goes_on_with_the_session_and_has_only_its_own_output(api) -> None:
    provider = ScriptedProvider().text("Noted.").text("It is seven.")
    async with api(provider) as client:
        first = await client.run("Remember seven.")
        second = await client.run("Which number?", session_id=first["session_id"])
        assert second["session_id"] == first["session_id"]
        assert second["output"] == [said("It is seven.")]
    assert [message["content"] for message in provider.requests[1].messages if message["role"] == "user"] == [
        "Remember seven.",
        "Which number?",
    ]


@pytest.mark.covers("ACPH-13")
async def test_a_session_goes_on_in_the_next_server(api) -> None:
    store = MemoryStore()
    async with api(ScriptedProvider().text("Noted."), store=store) as client:
        first = await client.run("Remember seven.")
    provider = ScriptedProvider().text("Seven.")
    async with api(provider, store=store) as client:
        seen = (await client.get(f"/sessions/{first['session_id']}")).json()
        assert (seen["state"], seen["step_count"]) == ("completed", 1)
        run = await client.run("Which?", session_id=first["session_id"])
        assert (run["session_id"], run["output"]) == (first["session_id"], [said("Seven.")])
    assert len(provider.requests[0].messages) == 3


@pytest.mark.covers("ACPH-13")
@pytest.mark.parametrize("session_id", ["0123456789abcdef", "../../etc/passwd", "", "\0", "é" * 500, None])
async def test_an_unknown_session_id_begins_a_session_of_its_own(api, session_id: str | None) -> None:
    async with api(ScriptedProvider().text("Hello.")) as client:
        run = await client.run("hi", session_id=session_id)
        assert run["status"] == "completed"
        assert re.fullmatch("[0-9a-f]{16}", run["session_id"])
        assert run["session_id"] != session_id


@pytest.mark.covers("ACPH-18")
async def test_runs_of_one_session_come_one_after_another(api) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("First.").after(gate).text("Second.").text("Third.")
    async with api(provider) as client:
        first = (await client.post("/runs", asked("1", mode="async"))).json()
        more = {"mode": "async", "session_id": first["session_id"]}
        second = (await client.post("/runs", asked("2", **more))).json()
        third = (await client.post("/runs", asked("3", **more))).json()
        assert (await client.get(f"/runs/{second['run_id']}")).json()["status"] == "created"
        cancelled = (await client.post(f"/runs/{third['run_id']}/cancel")).json()
        assert (cancelled["status"], cancelled["output"]) == ("cancelled", [])
        gate.set()
        assert (await client.until(second["run_id"], "completed"))["output"] == [said("Second.")]
        assert (await client.until(first["run_id"], "completed"))["output"] == [said("First.")]
    assert provider.remaining == 1


async def test_an_idle_session_is_let_go_and_found_again(api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "IDLE_FOR", 0.1)
    store = MemoryStore()
    async with api(ScriptedProvider().text("One.").text("Two."), store=store) as client:
        first = await client.run("go")
        with trio.fail_after(10):
            while not await _is_free(store, first["session_id"]):
                pass
        again = await client.run("go", session_id=first["session_id"])
        assert (again["session_id"], again["output"]) == (first["session_id"], [said("Two.")])


async def test_only_so_many_idle_sessions_stay_open(api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "IDLE_FOR", 2.0)
    monkeypatch.setattr(conversations, "MOST_IDLE", 1)
    store = MemoryStore()
    async with api(ScriptedProvider().text("One.").text("Two."), store=store) as client:
        first, second = await client.run("go"), await client.run("go")
        with trio.fail_after(10):
            while not await _is_free(store, first["session_id"]):
                pass
        assert not await _is_free(store, second["session_id"])


@pytest.mark.covers("ACPH-17")
@pytest.mark.parametrize("mode", ["sync", "stream", "async"])
async def test_a_client_that_leaves_while_its_session_is_opened_leaves_none_behind(
    api, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "IDLE_FOR", 0.1)
    store = GatedStore()
    async with api(ScriptedProvider().text("One."), store=store) as client:
        async with client.connected(post("/runs", asked("go", mode=mode))):
            await store.asked.wait()
        store.gate.set()
        with trio.fail_after(10):
            while not (store.opened and await _is_let_go(store, mode)):
                await trio.lowlevel.checkpoint()
        assert (await client.get("/ping")).status_code == 200


async def _is_let_go(store: GatedStore, mode: str) -> bool:
    """One that a run was done in can be opened by others; of one that nobody used nothing is left."""
    return await _is_free(store, store.opened[0]) if mode == "async" else await store.list() == ([], "")


async def _is_free(store: MemoryStore, session_id: str) -> bool:
    try:
        async with MemoryStore.open(store, session_id, create=False):
            return True
    except SessionInUse:
        await trio.lowlevel.checkpoint()
        return False


async def test_a_server_that_ends_leaves_no_session_in_which_nothing_was_said(api) -> None:
    store = GatedStore()
    async with api(ScriptedProvider().text("One."), store=store) as client:
        async with client.connected(post("/runs", asked("go"))):
            await store.asked.wait()
        store.gate.set()
        with trio.fail_after(10):
            while not store.opened:
                await trio.lowlevel.checkpoint()
        store.gate.set()
        said = (await client.run("go"))["session_id"]
    assert [entry.session_id for entry in (await store.list())[0]] == [said]


@pytest.mark.covers("ACPH-16")
async def test_a_run_is_answered_by_the_profile_that_it_names(api) -> None:
    profiles = {
        "small": ProviderConfig(name="generic", model="small"),
        "big": ProviderConfig(name="generic", model="big"),
    }
    config = AgentConfig(provider="small", providers=profiles)
    async with api(config=config) as client:
        unknown = await client.post("/runs", asked("go", provider="huge"))
        detail = "Unknown provider: 'huge'. Available: big, small"
        assert (unknown.status_code, unknown.json()) == (400, {"detail": detail})
        first = await client.run("go", provider="big")
        session = {"session_id": first["session_id"]}
        await client.run("go", **session)
        await client.run("go", provider="big", **session)
        records = (await client.store.load(first["session_id"])).records
        switches = [record.event.to_model for record in records if record.event.type == "provider_switch"]
        assert switches == ["big", "small", "big"]


# --- questions --------------------------------------------------------------------------------


async def test_nobody_is_there_to_ask_so_the_answer_is_no(api, tmp_path) -> None:
    provider = ScriptedProvider().call("write_file", path="x.txt", content="x").text("Then not.")
    async with api(provider) as client:
        run = await client.run("go")
        assert run["status"] == "completed"
        records = (await client.store.load(run["session_id"])).records
        assert [record.event.by for record in records if record.event.type == "approval_resolved"] == ["nobody"]
    assert not (tmp_path / "project" / "x.txt").exists()


async def test_an_application_answers_with_its_callback(api, tmp_path) -> None:
    asked_for = []

    async def decide(spec, call) -> ApprovalResult:
        asked_for.append((spec.name, call.arguments["path"]))
        return ApprovalResult.APPROVED

    provider = ScriptedProvider().call("write_file", path="x.txt", content="x").text("Written.")
    async with api(provider, approval_callback=decide) as client:
        assert (await client.run("go"))["output"] == [said("Written.")]
    assert asked_for == [("write_file", "x.txt")]
    assert (tmp_path / "project" / "x.txt").read_text() == "x"


async def test_a_question_that_is_never_answered_ends_with_its_run(api) -> None:
    waiting = trio.Event()

    async def never(spec, call) -> str:
        waiting.set()
        await trio.sleep_forever()
        return "approved"

    provider = ScriptedProvider().call("write_file", path="x.txt", content="x")
    async with api(provider, approval_callback=never) as client:
        run = (await client.post("/runs", asked("go", mode="async"))).json()
        await waiting.wait()
        assert (await client.post(f"/runs/{run['run_id']}/cancel")).json()["status"] == "cancelled"


# --- bounds -----------------------------------------------------------------------------------


async def test_finished_runs_are_forgotten_after_a_while_and_running_ones_never(
    api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_KEPT", 2)
    provider = ScriptedProvider().hang().text("x").text("x").text("x")
    async with api(provider) as client:
        live = (await client.post("/runs", asked("go", mode="async"))).json()
        await provider.reached(1)
        finished = [await client.run("go") for _ in range(3)]
        known = [(await client.get(f"/runs/{run['run_id']}")).status_code for run in (live, *finished)]
        assert known == [200, 404, 200, 200]


async def test_finished_runs_are_forgotten_when_they_take_too_much_room(api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_WEIGHT", 10_000)
    async with api(ScriptedProvider().text("x" * 8000).forever()) as client:
        finished = [await client.run("go") for _ in range(3)]
        known = [(await client.get(f"/runs/{run['run_id']}")).status_code for run in finished]
        assert known == [404, 404, 200]


async def test_more_runs_than_there_may_be_are_refused_at_once(api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_LIVE", 1)
    provider = ScriptedProvider().hang().text("Now.")
    async with api(provider) as client:
        live = (await client.post("/runs", asked("go", mode="async"))).json()
        await provider.reached(1)
        for mode in ("sync", "async", "stream"):
            refused = await client.post("/runs", asked("go", mode=mode))
            assert (refused.status_code, "not over" in refused.json()["detail"]) == (429, True)
        await client.post(f"/runs/{live['run_id']}/cancel")
        assert (await client.run("go"))["output"] == [said("Now.")]
