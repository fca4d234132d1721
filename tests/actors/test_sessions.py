"""The sessions of a runtime: opening, loading, forking, listing, closing and deleting them, many at once."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
import trio
import trio.testing

from aar.errors import (
    ActorStopped,
    InvalidMessage,
    SessionClosed,
    SessionInUse,
    SessionNotFound,
    StoreUnavailable,
)
from aar.journal.jsonl import JsonlStore
from aar.messages.events import AgentState, ConfigChanged, SessionEvent, TurnEnded
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.testing import Fault, MemoryStore, ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolRegistry


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, **fields})


async def test_a_new_session_begins_with_where_it_works_and_how(tmp_path) -> None:
    config = settings(provider=ProviderConfig(name="scripted", api_key="sk-12345"))
    async with open_test_runtime(config=config, home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        (first,) = facts_of(session)
        assert isinstance(first, SessionEvent)
        assert first.action == "started"
        assert (first.data["session_id"], first.data["cwd"]) == (session.session_id, str(tmp_path))
        assert "sk-12345" not in json.dumps(first.data)
        assert re.fullmatch("[0-9a-f]{16}", session.session_id)
        assert session.info.state is AgentState.IDLE


@pytest.mark.parametrize("cwd", ["", "here", "./x"])
async def test_the_folder_of_a_session_is_absolute(tmp_path, cwd) -> None:
    async with open_test_runtime(home=tmp_path) as runtime:
        with pytest.raises(InvalidMessage, match="absolute"):
            await runtime.sessions.open(cwd)


async def test_ids_that_are_no_file_names_are_refused_and_harm_nobody(tmp_path) -> None:
    async with open_test_runtime(home=tmp_path) as runtime:
        for call in (runtime.sessions.load, runtime.sessions.fork, runtime.sessions.delete):
            with pytest.raises(InvalidMessage, match="Invalid session_id"):
                await call("../../etc/passwd")
        with pytest.raises(InvalidMessage):
            await runtime.sessions.open("/", session_id="a/b")
        await runtime.sessions.open("/")


async def test_a_session_nobody_knows_cannot_be_loaded_or_forked(tmp_path) -> None:
    async with open_test_runtime(home=tmp_path) as runtime:
        for call in (runtime.sessions.load, runtime.sessions.fork):
            with pytest.raises(SessionNotFound, match="Session not found: unknown"):
                await call("unknown")
        assert await runtime.sessions.delete("unknown") is False
        await runtime.sessions.close("unknown")


# --- the same one again -----------------------------------------------------------------------


async def test_an_open_session_is_loaded_as_it_is(tmp_path) -> None:
    async with open_test_runtime(ScriptedProvider().text("x"), home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        await session.prompt("go")
        with trio.fail_after(5):
            for again in (
                await runtime.sessions.load(session.session_id),
                await runtime.sessions.open("/", session_id=session.session_id),
            ):
                assert again.records() == session.records()
                assert again.info.state is AgentState.COMPLETED


async def test_one_that_is_loaded_by_many_at_once_is_opened_once(tmp_path, autojump_clock) -> None:
    store = MemoryStore(faults={3: Fault(delay=5)})
    async with open_test_runtime(home=tmp_path, store=store) as runtime:
        session = await runtime.sessions.open("/", session_id="one")
        await runtime.sessions.close("one")
        loaded = []

        async def load() -> None:
            loaded.append(await runtime.sessions.load("one"))

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(load)
        assert {handle.seq for handle in loaded} == {2}
        assert [event.action for event in facts_of(loaded[0])] == ["started", "resumed"]
        with pytest.raises(ActorStopped):
            await session.status()


async def test_one_that_could_not_be_opened_can_be_opened_later(tmp_path) -> None:
    store = MemoryStore(faults={1: Fault(error=StoreUnavailable("disk full"))})
    async with open_test_runtime(home=tmp_path, store=store) as runtime:
        with pytest.raises(StoreUnavailable, match="disk full"):
            await runtime.sessions.open("/", session_id="one")
        with trio.fail_after(5):
            session = await runtime.sessions.open("/", session_id="one")
        assert session.seq == 1


async def test_closing_one_that_is_just_being_opened_waits_and_closes_it(tmp_path, autojump_clock) -> None:
    store = MemoryStore(faults={1: Fault(delay=5)})
    async with open_test_runtime(home=tmp_path, store=store) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(_open_or_be_too_late, runtime)
        await trio.sleep(1)
        with trio.fail_after(30):
            await runtime.sessions.close("one")
        assert runtime.registry.find("session:one") is None


async def _open_or_be_too_late(runtime) -> None:
    with suppress(SessionClosed):
        await runtime.sessions.open("/", session_id="one")


async def test_opening_one_that_is_just_closing_waits_for_it(tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().hang()
    store = MemoryStore(faults={3: Fault(delay=5)})  # the end of its turn
    async with open_test_runtime(provider, home=tmp_path, store=store) as runtime, trio.open_nursery() as nursery:
        session = await runtime.sessions.open("/", session_id="one")
        nursery.start_soon(_prompt_until_closed, session)
        await provider.reached(1)
        nursery.start_soon(runtime.sessions.close, "one")
        await trio.sleep(1)
        again = await runtime.sessions.load("one")
        assert [event.type for event in facts_of(again)] == [
            "session",
            "turn_started",
            "user_message",
            "error",
            "turn_ended",
            "session",
        ]


async def _prompt_until_closed(session) -> None:
    assert (await session.prompt("go")).stop == "cancelled"


async def test_one_whose_asker_leaves_before_it_is_open_is_closed_again(tmp_path, autojump_clock) -> None:
    store = MemoryStore(faults={1: Fault(delay=5)})
    async with open_test_runtime(home=tmp_path, store=store) as runtime:
        with trio.move_on_after(1):
            await runtime.sessions.open("/", session_id="one")
        assert runtime.registry.find("session:one") is None  # the disk is slow
        await trio.sleep(30)
        assert runtime.registry.find("session:one") is None
        with trio.fail_after(5):
            again = await runtime.sessions.load("one")
        assert [event.action for event in facts_of(again)] == ["started", "resumed"]


async def test_one_whose_asker_leaves_at_the_very_moment_of_the_answer_is_nobodys_and_closed(tmp_path, until) -> None:
    """Cancelled so many rounds of the loop after it has begun: before, at and behind the answer."""
    got: list[bool] = []
    async with open_test_runtime(home=tmp_path) as runtime:
        for rounds in range(30):
            name, leaving, has_it = f"s{rounds}", trio.CancelScope(), False

            async def leave(leaving=leaving, rounds=rounds) -> None:
                for _ in range(rounds):
                    await trio.lowlevel.checkpoint()
                leaving.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(leave)
                with leaving:
                    await runtime.sessions.open("/", session_id=name)
                    has_it = True
            await trio.testing.wait_all_tasks_blocked()
            got.append(has_it)
            assert (runtime.registry.find(f"session:{name}") is not None) == has_it, f"after {rounds} rounds"
    assert got[0] is False
    assert got[-1] is True


async def test_one_whose_asker_leaves_stays_open_for_another_who_asked_for_it(tmp_path, autojump_clock) -> None:
    store = MemoryStore(faults={1: Fault(delay=5)})
    async with open_test_runtime(home=tmp_path, store=store) as runtime, trio.open_nursery() as nursery:

        async def open_and_leave() -> None:
            with trio.move_on_after(1):
                await runtime.sessions.open("/", session_id="one")

        nursery.start_soon(open_and_leave)
        await trio.testing.wait_all_tasks_blocked()
        session = await runtime.sessions.load("one")
        await trio.sleep(30)
        assert (await session.status()).seq in (1, 2)  # as it was opened, or opened anew


async def test_one_that_is_open_stays_so_when_somebody_asks_for_it_again_and_leaves(tmp_path) -> None:
    async with open_test_runtime(home=tmp_path) as runtime:
        session = await runtime.sessions.open("/", session_id="one")
        with trio.CancelScope() as leaving:
            leaving.cancel()
            await runtime.sessions.load("one")
        await trio.testing.wait_all_tasks_blocked()
        assert (await session.status()).seq == 1


# --- going ------------------------------------------------------------------------------------


async def test_closing_ends_the_turn_and_tells_everybody_who_waits(tmp_path, until) -> None:
    provider = ScriptedProvider().hang("half")
    async with open_test_runtime(provider, settings(streaming=True), home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        ends = []

        async def prompt(text: str) -> None:
            try:
                ends.append((text, (await session.prompt(text)).stop))
            except SessionClosed as error:
                ends.append((text, type(error)))

        async def read() -> None:
            with session.follow() as records:
                ends.append(("read", [record.event.type async for record in records if record.seq][-1]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(prompt, "first")
            await provider.reached(1)
            nursery.start_soon(prompt, "second")
            await trio.testing.wait_all_tasks_blocked()
            await runtime.sessions.close(session.session_id)
        assert sorted(ends, key=str) == [("first", "cancelled"), ("read", "turn_ended"), ("second", SessionClosed)]
        for call in (session.status(), session.prompt("x"), session.cancel(), session.queue()):
            with pytest.raises(ActorStopped):
                await call
        assert session.snapshot().state is AgentState.CANCELLED


async def test_a_deleted_session_is_gone(tmp_path) -> None:
    async with open_test_runtime(home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        assert await runtime.sessions.delete(session.session_id) is True
        assert (await runtime.sessions.list()).sessions == []
        with pytest.raises(SessionNotFound):
            await runtime.sessions.load(session.session_id)


async def test_only_one_runtime_holds_a_session(tmp_path) -> None:
    store = JsonlStore(tmp_path / "sessions")
    async with open_test_runtime(home=tmp_path, store=store) as first:
        session = await first.sessions.open("/")
        async with open_test_runtime(home=tmp_path, store=JsonlStore(tmp_path / "sessions")) as second:
            with pytest.raises(SessionInUse):
                await second.sessions.load(session.session_id)
            await first.sessions.close(session.session_id)
            with trio.fail_after(5):
                await second.sessions.load(session.session_id)


# --- going on later ---------------------------------------------------------------------------


@pytest.mark.covers("SES-15", "SES-23", "TOK-08", "LOOP-34")
async def test_a_stored_session_goes_on_where_it_stopped(tmp_path) -> None:
    before: dict = {}
    provider = ScriptedProvider(ProviderConfig(name="scripted", model="claude-sonnet-4-6"))
    provider.text("My name is Aar.").usage(100, 10).text("You asked my name.").usage(50, 5)
    for text in ("What is your name?", "What did I ask?"):
        async with open_test_runtime(provider, home=tmp_path, store=JsonlStore(tmp_path / "s")) as runtime:
            session = await (runtime.sessions.load("one") if before else runtime.sessions.open("/", session_id="one"))
            now = session.snapshot()
            if before:
                assert now.events[:-1] == before["events"]
                for name in ("step_count", "trace_id", "total_input_tokens", "total_output_tokens", "total_cost"):
                    assert getattr(now, name) == before[name]
                assert now.metadata["guardrails"] == before["metadata"]["guardrails"]
                assert now.state is AgentState.COMPLETED
            await session.prompt(text)
            before = dict(vars(session.snapshot()))
    assert (before["step_count"], before["total_input_tokens"], before["total_output_tokens"]) == (2, 150, 15)
    assert list(provider.requests[-1].messages) == [
        {"role": "user", "content": "What is your name?"},
        {"role": "assistant", "content": "My name is Aar."},
        {"role": "user", "content": "What did I ask?"},
    ]


@pytest.mark.covers("TOK-08", "LOOP-35")
async def test_budgets_count_over_the_whole_life_of_a_session(tmp_path) -> None:
    provider = ScriptedProvider().text("x").usage(40, 0).forever()
    stops = []
    for _ in range(3):
        async with open_test_runtime(
            provider, settings(token_budget=100), home=tmp_path, store=JsonlStore(tmp_path / "s")
        ) as runtime:
            session = await runtime.sessions.open("/", session_id="one")
            stops.append((await session.prompt("go")).stop)
    assert stops == ["end_turn", "end_turn", "budget_exceeded"]


@pytest.mark.covers("SES-13", "SES-14")
async def test_the_file_is_a_header_then_a_line_per_fact(tmp_path) -> None:
    async with open_test_runtime(
        ScriptedProvider().text("x").forever(), home=tmp_path, store=JsonlStore(tmp_path / "s")
    ) as runtime:
        session = await runtime.sessions.open("/", session_id="one")
        await session.prompt("go")
        await session.prompt("go")
        facts = session.records()
    lines = [json.loads(line) for line in (tmp_path / "s" / "one.jsonl").read_text().splitlines()]
    headers = [line for line in lines if line.get("_meta")]
    assert lines[0] is headers[0]
    assert [line["seq"] for line in lines if not line.get("_meta")] == [record.seq for record in facts]
    assert len(headers) == 1 + 2  # and one after each turn
    for header in headers:
        assert set(header) == {
            "_meta",
            "schema_version",
            "session_id",
            "run_id",
            "trace_id",
            "state",
            "step_count",
            "metadata",
            "total_input_tokens",
            "total_output_tokens",
            "total_cost",
        }


async def test_a_session_from_nowhere_needs_a_folder(tmp_path) -> None:
    (tmp_path / "old.jsonl").write_text('{"_meta": true, "schema_version": 1, "session_id": "old"}\n')
    async with open_test_runtime(home=tmp_path, store=JsonlStore(tmp_path)) as runtime:
        with pytest.raises(InvalidMessage, match="absolute"):
            await runtime.sessions.load("old")
        session = await runtime.sessions.load("old", cwd="/")
        assert session.cwd == "/"


async def test_changed_settings_hold_until_the_session_is_opened_anew(tmp_path) -> None:
    for _ in range(2):
        async with open_test_runtime(home=tmp_path, store=JsonlStore(tmp_path / "s")) as runtime:
            session = await runtime.sessions.open("/", session_id="one")
            assert (await session.configure({})).max_steps == 50
            assert (await session.configure({"max_steps": 7})).max_steps == 7


# --- copies -----------------------------------------------------------------------------------


@pytest.fixture
async def talked(tmp_path):
    """A runtime with a session of five messages; its provider answers everything."""
    provider = ScriptedProvider().text("one").text("two").call("nothing").text("three").forever()
    async with open_test_runtime(provider, settings(), home=tmp_path) as runtime:
        session = await runtime.sessions.open("/", session_id="parent", config=settings(max_steps=9))
        await session.prompt("a")
        await session.prompt("b")
        yield runtime, session, provider


@pytest.mark.covers("SES-34")
async def test_a_fork_at_a_message_has_the_messages_before_it(talked) -> None:
    runtime, parent, _ = talked
    fork = await runtime.sessions.fork("parent", at_message=2)
    assert fork.session_id != "parent"
    assert fork.snapshot().to_messages() == parent.snapshot().to_messages()[:2]
    assert fork.snapshot().metadata["forked_from"] == "parent"
    assert facts_of(fork)[0].action == "forked"
    assert fork.cwd == "/"


@pytest.mark.covers("SES-35")
async def test_a_fork_of_the_whole_is_equal_and_goes_its_own_way(talked) -> None:
    runtime, parent, _ = talked
    fork = await runtime.sessions.fork("parent")
    before = facts_of(parent)
    assert facts_of(fork)[1:] == before[1:]
    await fork.prompt("and now?")
    assert facts_of(parent) == before
    assert len(fork.snapshot().to_messages()) > len(parent.snapshot().to_messages())


async def test_no_fork_leaves_a_call_without_its_result(talked, problems_of) -> None:
    runtime, parent, provider = talked
    await parent.prompt("c")
    messages = parent.snapshot().to_messages()
    assert len(messages) == 8
    for count in range(len(messages) + 2):
        fork = await runtime.sessions.fork("parent", at_message=count)
        assert problems_of(fork.snapshot().to_messages()) == []
        await fork.prompt("go on")
        assert problems_of(list(provider.requests[-1].messages)) == []


async def test_a_fork_keeps_settings_and_decisions(talked) -> None:
    runtime, parent, _ = talked
    await parent.configure({"max_retries": 8})
    await parent.auto_approve("bash:git *")
    await parent.status()
    for at_message in (None, 1):
        fork = await runtime.sessions.fork("parent", at_message=at_message)
        assert fork.snapshot().standing.entries == ["bash:git *"]
        config = await fork.configure({})
        assert (config.max_steps, config.max_retries) == (9, 8)


async def test_a_fork_does_not_revive_what_an_earlier_life_allowed(tmp_path) -> None:
    async with open_test_runtime(home=tmp_path) as runtime:
        session = await runtime.sessions.open("/", session_id="parent")
        await session.auto_approve("bash")
        await session.configure({"max_steps": 1})
        await runtime.sessions.close("parent")
        again = await runtime.sessions.load("parent")
        assert (await again.configure({"max_retries": 2})).max_steps == 50
        fork = await runtime.sessions.fork("parent")
        assert fork.snapshot().standing.entries == []
        assert [event.patch for event in facts_of(fork) if isinstance(event, ConfigChanged)] == [{"max_retries": 2}]


async def test_a_running_session_can_be_forked(tmp_path, problems_of) -> None:
    provider = ScriptedProvider().text("one").hang().text("two")
    async with open_test_runtime(provider, settings(), home=tmp_path) as runtime, trio.open_nursery() as nursery:
        session = await runtime.sessions.open("/", session_id="parent")
        await session.prompt("a")
        nursery.start_soon(session.prompt, "b")
        await provider.reached(2)
        fork = await runtime.sessions.fork("parent")
        assert (await fork.status()).turn_id == ""
        assert fork.snapshot().state is AgentState.ERROR
        assert facts_of(fork)[-1].stop == "interrupted"
        assert (await fork.prompt("c")).stop == "end_turn"
        await session.cancel()


# --- lists ------------------------------------------------------------------------------------


@pytest.mark.covers("SES-36")
async def test_sessions_are_listed_newest_first_with_the_start_of_their_first_answer(tmp_path) -> None:
    provider = ScriptedProvider().text("").text("A very long answer " * 9).text("second").text("Hello there")
    async with open_test_runtime(provider, settings(), home=tmp_path, store=JsonlStore(tmp_path / "s")) as runtime:
        one = await runtime.sessions.open("/", session_id="one-with-a-long-id")
        for _ in range(3):
            await one.prompt("go")
        await runtime.sessions.open(str(tmp_path), session_id="two-with-a-long-id")
        three = await runtime.sessions.open("/", session_id="three")
        await three.prompt("go")
        listed = (await runtime.sessions.list()).sessions
        titles = {entry.session_id: entry.title for entry in listed}
        assert titles == {
            "three": "Hello there",
            "two-with-a-long-id": "two-with-a-l",
            "one-with-a-long-id": ("A very long answer " * 9)[:60],
        }
        assert listed[0].session_id == "three"
        assert [entry.session_id for entry in (await runtime.sessions.list(cwd=str(tmp_path))).sessions] == [
            "two-with-a-long-id"
        ]
        page = await runtime.sessions.list(limit=2)
        rest = await runtime.sessions.list(limit=2, cursor=page.cursor)
        assert len(page.sessions) == 2
        assert {entry.session_id for entry in [*page.sessions, *rest.sessions]} == set(titles)
        assert rest.cursor == ""


# --- many -------------------------------------------------------------------------------------


async def test_two_hundred_sessions_talk_at_once_and_none_hears_another(tmp_path) -> None:
    def echo(request):
        return f"you said {request.messages[-1]['content']}"

    provider = ScriptedProvider().reply(echo).forever()
    async with open_test_runtime(provider, settings(), home=tmp_path, store=JsonlStore(tmp_path / "s")) as runtime:
        answers = {}

        async def talk(number: int) -> None:
            session = await runtime.sessions.open("/")
            for turn in range(2):
                await session.prompt(f"{number}-{turn}")
            answers[number] = [message["content"] for message in session.snapshot().to_messages()]
            await runtime.sessions.close(session.session_id)

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(talk, number)
        assert answers == {
            number: [f"{number}-0", f"you said {number}-0", f"{number}-1", f"you said {number}-1"]
            for number in range(200)
        }
        assert len((await runtime.sessions.list(limit=1000)).sessions) == 200


async def test_leaving_the_runtime_closes_every_turn_in_the_store(tmp_path) -> None:
    provider = ScriptedProvider().hang("half").forever()
    store = JsonlStore(tmp_path / "s")
    with trio.CancelScope() as scope:
        async with (
            open_test_runtime(provider, settings(streaming=True), home=tmp_path, store=store) as runtime,
            trio.open_nursery() as nursery,
        ):
            for number in range(20):
                session = await runtime.sessions.open("/", session_id=f"s{number}")
                nursery.start_soon(session.prompt, "go")
            await provider.reached(20)
            scope.cancel()
    for number in range(20):
        stored = await store.load(f"s{number}")
        assert isinstance(stored.records[-1].event, TurnEnded)
        assert stored.records[-1].event.stop == "cancelled"
        assert stored.header.state is AgentState.CANCELLED
    assert provider.streaming_now == 0


async def test_a_session_that_is_still_ending_is_not_opened_a_second_time_beside_itself(
    autojump_clock, tmp_path
) -> None:
    """Its tool cleans up for longer than a session may; the file is let go, and nothing is written to it meanwhile."""
    tools = ToolRegistry()

    @tools.register("stubborn")
    async def stubborn() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(60)
        return ""

    provider, store = ScriptedProvider().call("stubborn").text("here"), MemoryStore()
    async with open_test_runtime(provider, tools=tools, store=store, home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        with trio.move_on_after(1):
            await session.prompt("go")
        await runtime.sessions.close(session.session_id)
        before = (await store.load(session.session_id)).records
        with pytest.raises(SessionInUse, match="still ending"):
            await runtime.sessions.load(session.session_id)
        assert (await store.load(session.session_id)).records == before
        await trio.sleep(60)
        again = await runtime.sessions.load(session.session_id)
        assert (await again.prompt("are you there?")).stop == "end_turn"
