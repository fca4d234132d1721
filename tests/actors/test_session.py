"""A session's mailbox: the queue, steering and follow-ups, settings, summaries, and facts from elsewhere."""

from __future__ import annotations

import pytest
import trio

from aar.errors import (
    BadProviderReply,
    InvalidSetting,
    ProviderUnauthorized,
    QueueFull,
    SessionError,
    WouldDeadlock,
)
from aar.journal.jsonl import JsonlStore
from aar.journal.revision import dropping, renamed
from aar.messages.events import (
    AssistantMessage,
    PromptQueued,
    ToolStarted,
    TurnEnded,
    UserMessage,
)
from aar.messages.settings import AgentConfig
from aar.runtime import open_runtime
from aar.testing import ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolRegistry


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, **fields})


def said(session) -> list[tuple[str, str]]:
    """Who said what, in order."""
    return [
        (event.data.get("kind", "model") if isinstance(event, UserMessage) else "model", event.content)
        for event in facts_of(session)
        if isinstance(event, UserMessage | AssistantMessage)
    ]


# --- the queue --------------------------------------------------------------------------------


async def test_prompts_wait_for_their_turn_in_the_order_they_came(live, story, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("1").after(gate).text("2").text("3")
    async with live(provider, settings()) as session, trio.open_nursery() as nursery:
        for number, text in enumerate(("one", "two", "three")):
            nursery.start_soon(session.prompt, text)
            await (until(session, PromptQueued, times=number) if number else provider.reached(1))
        assert [(item.content, item.is_stored) for item in (await session.queue()).items] == [
            ("two", False),
            ("three", False),
        ]
        assert (await session.status()).queue_length == 2
        gate.set()
        await until(session, TurnEnded, times=3)
        assert said(session) == [
            ("prompt", "one"),
            ("model", "1"),
            ("prompt", "two"),
            ("model", "2"),
            ("prompt", "three"),
            ("model", "3"),
        ]
        assert (await session.queue()).items == []
        assert session.snapshot().queued == {}


async def test_thirty_two_prompts_may_wait_and_the_next_is_refused(live, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().reply(lambda request: "x").forever()
    async with live(provider, settings()) as session, trio.open_nursery() as nursery:
        provider.text("first").after(gate)
        provider._script.rotate(1)
        nursery.start_soon(session.prompt, "first")
        await provider.reached(1)
        for number in range(32):
            nursery.start_soon(session.prompt, str(number))
        await until(session, PromptQueued, times=32)
        with pytest.raises(QueueFull, match="32 prompts wait already"):
            await session.prompt("one too many")
        gate.set()
        await until(session, TurnEnded, times=33)
        assert "one too many" not in [text for _, text in said(session)]
        assert (await session.prompt("now there is room")).stop == "end_turn"


async def test_a_cleared_queue_answers_those_who_waited_and_says_what_was_dropped(live, story, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("1").after(gate)
    async with live(provider, settings()) as session:
        ends = []

        async def prompt(text: str) -> None:
            ends.append((text, (await session.prompt(text)).stop))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prompt, "one")
            await provider.reached(1)
            nursery.start_soon(prompt, "two")
            await until(session, PromptQueued)
            nursery.start_soon(prompt, "three")
            await until(session, PromptQueued, times=2)
            assert [item.content for item in (await session.clear_queue()).items] == ["two", "three"]
            assert (await session.clear_queue()).items == []
            gate.set()
        assert sorted(ends) == [("one", "end_turn"), ("three", "cancelled"), ("two", "cancelled")]
        assert [line for line in story(session) if "queued" in line or "cleared" in line] == [
            "prompt_queued two",
            "prompt_queued three",
            "prompts_cleared 2",
        ]


async def test_what_waited_when_the_session_ended_is_offered_again_and_never_run_unasked(tmp_path, until) -> None:
    provider = ScriptedProvider().hang()
    store = JsonlStore(tmp_path / "s")
    with trio.CancelScope() as scope:
        async with (
            open_test_runtime(provider, settings(), home=tmp_path, store=store) as runtime,
            trio.open_nursery() as nursery,
        ):
            session = await runtime.sessions.open("/", session_id="one")
            nursery.start_soon(session.prompt, "first")
            await provider.reached(1)
            nursery.start_soon(session.prompt, "second")
            await until(session, PromptQueued)
            scope.cancel()
    async with open_test_runtime(provider.text("x"), settings(), home=tmp_path, store=store) as runtime:
        session = await runtime.sessions.load("one")
        assert [(item.content, item.is_stored) for item in (await session.queue()).items] == [("second", True)]
        await session.prompt("third")
        assert len(provider.requests) == 2
        assert [item.content for item in (await session.clear_queue()).items] == ["second"]
        assert session.snapshot().queued == {}


# --- steering and follow-ups ------------------------------------------------------------------


@pytest.fixture
def gated():
    """A tool that waits for its gate, and a registry with it."""
    gate, tools = trio.Event(), ToolRegistry()

    @tools.register("wait")
    async def wait() -> str:
        await gate.wait()
        return "waited"

    return gate, tools


@pytest.mark.covers("AURA-05")
async def test_steering_is_seen_before_the_next_step(live, gated, until, problems_of) -> None:
    gate, tools = gated
    provider = ScriptedProvider().call("wait").text("turning left")
    async with live(provider, settings(), tools=tools) as session:
        async with session.running("drive") as (_, ended):
            await until(session, ToolStarted)
            await session.steer("go left")
            await session.steer("now")
            await session.status()
            gate.set()
            await ended()
        assert [message["content"] for message in list(provider.requests[1].messages)[-2:]] == ["go left", "now"]
        assert problems_of(list(provider.requests[1].messages)) == []
        assert said(session)[-3:] == [("steering", "go left"), ("steering", "now"), ("model", "turning left")]


async def test_steering_during_the_last_answer_makes_the_turn_go_on(live) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("done").after(gate).text("done again")
    async with live(provider, settings()) as session:
        async with session.running("go") as (_, ended):
            await provider.reached(1)
            await session.steer("not yet")
            await session.status()
            gate.set()
            assert (await ended()).stop == "end_turn"
        assert said(session) == [
            ("prompt", "go"),
            ("model", "done"),
            ("steering", "not yet"),
            ("model", "done again"),
        ]


@pytest.mark.covers("AURA-02", "AURA-04")
async def test_all_that_is_said_while_an_answer_streams_is_taken_at_once_and_goes_into_the_next_step(live) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("done").after(gate).text("done again")
    async with live(provider, settings(streaming=True)) as session, session.running("go") as (_, ended):
        await provider.reached(1)
        for text in ("one", "two", "three"):
            await session.steer(text)
            await session.status()  # answered in turn: it has been taken, and nothing else had to happen for it
        assert provider.streaming_now == 1
        gate.set()
        assert (await ended()).stop == "end_turn"
    asked = [[one["content"] for one in sent.messages if one["role"] == "user"] for sent in provider.requests]
    assert asked == [["go"], ["go", "one", "two", "three"]]


async def test_steering_without_a_turn_waits_for_one(live) -> None:
    async with live(ScriptedProvider().text("x"), settings()) as session:
        await session.steer("be brief")
        await session.prompt("go")
        assert said(session) == [("prompt", "go"), ("steering", "be brief"), ("model", "x")]


async def test_follow_ups_are_said_one_by_one_when_the_turn_would_stop(live, story) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("1").after(gate).text("2").text("3")
    async with live(provider, settings()) as session:
        async with session.running("go") as (_, ended):
            await provider.reached(1)
            await session.follow_up("and then?")
            await session.follow_up("and after that?")
            await session.status()
            gate.set()
            await ended()
        assert said(session) == [
            ("prompt", "go"),
            ("model", "1"),
            ("follow_up", "and then?"),
            ("model", "2"),
            ("follow_up", "and after that?"),
            ("model", "3"),
        ]
        assert [line for line in story(session) if line.startswith("turn_")] == ["turn_started", "turn_ended end_turn"]
        assert session.snapshot().queued == {}


async def test_a_follow_up_before_the_turn_is_said_at_its_end(live) -> None:
    async with live(ScriptedProvider().text("1").text("2"), settings()) as session:
        await session.follow_up("and then?")
        await session.prompt("go")
        assert said(session) == [("prompt", "go"), ("model", "1"), ("follow_up", "and then?"), ("model", "2")]


async def test_cleared_follow_ups_are_not_said(live) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("1").after(gate)
    async with live(provider, settings()) as session:
        async with session.running("go") as (_, ended):
            await provider.reached(1)
            await session.follow_up("and then?")
            await session.clear_queue()
            gate.set()
            await ended()
        assert said(session) == [("prompt", "go"), ("model", "1")]
        assert session.snapshot().queued == {}


async def test_steering_goes_before_follow_ups(live) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("1").after(gate).text("2").text("3")
    async with live(provider, settings()) as session:
        async with session.running("go") as (_, ended):
            await provider.reached(1)
            await session.follow_up("later")
            await session.steer("now")
            await session.status()
            gate.set()
            await ended()
        assert [text for _, text in said(session)] == ["go", "1", "now", "2", "later", "3"]


# --- settings ---------------------------------------------------------------------------------


async def test_changed_settings_hold_from_the_next_step_on(live, until) -> None:
    gate = trio.Event()
    tools = ToolRegistry()
    tools.register("noop")(lambda: "")
    provider = ScriptedProvider().call("noop").after(gate).call("noop").text("x")
    async with live(provider, settings(), tools=tools) as session:
        async with session.running("go") as (_, ended):
            await provider.reached(1)
            assert (await session.configure({"max_steps": 1})).max_steps == 1
            gate.set()
            assert (await ended()).stop == "max_steps"
        assert len(provider.requests) == 1


async def test_settings_that_cannot_be_change_nothing(live, story) -> None:
    async with live(ScriptedProvider(), settings()) as session:
        for patch in (
            {"max_steps": 0},
            {"provider": "nobody"},
            {"safety": {"acp_approval_timeout": "soon"}},
            {"provider": {"api_key": "sk-1"}},
        ):
            with pytest.raises(InvalidSetting):
                await session.configure(patch)
        assert story(session) == []
        assert (await session.configure({})).max_steps == 50


async def test_a_switch_of_the_model_is_a_fact(live, story) -> None:
    async with live(ScriptedProvider(), settings()) as session:
        await session.configure({"provider": {"name": "ollama", "model": "tiny"}})
        assert story(session)[-1] == "provider_switch anthropic/claude-sonnet-4-6 -> ollama/tiny"


async def test_a_tool_that_asks_its_own_session_is_told_that_it_would_wait_for_itself(live) -> None:
    tools = ToolRegistry()
    seen = []

    @tools.register("ask")
    async def ask() -> str:
        with pytest.raises(WouldDeadlock) as caught:
            await session.prompt("from inside")
        seen.append(str(caught.value))
        return "ok"

    async with live(ScriptedProvider().call("ask").text("x"), settings(), tools=tools) as session:
        await session.prompt("go")
        assert seen == [f"this ask would wait for itself: session:{session.session_id} -> session:{session.session_id}"]


# --- facts from elsewhere ---------------------------------------------------------------------


async def test_facts_made_elsewhere_become_part_of_the_conversation(live) -> None:
    provider = ScriptedProvider().text("yes")
    async with live(provider, settings()) as session:
        told = [UserMessage(content="my name is Ada"), AssistantMessage(content="hello Ada")]
        assert await session.adopt(told) == 3
        await session.prompt("do you know me?")
        assert [message["content"] for message in provider.requests[0].messages] == [
            "my name is Ada",
            "hello Ada",
            "do you know me?",
        ]


async def test_facts_from_elsewhere_do_not_get_between_those_of_a_turn(live) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider, settings()) as session, session.running("go"):
        await provider.reached(1)
        with pytest.raises(SessionError, match="a turn is running"):
            await session.adopt([UserMessage(content="x")])


async def test_facts_made_from_what_was_known_are_refused_when_more_is_known(live) -> None:
    async with live(ScriptedProvider().text("yes"), settings()) as session:
        seq = session.seq
        assert await session.adopt([UserMessage(content="a")], after_seq=seq) == seq + 1
        with pytest.raises(SessionError, match="something was said meanwhile"):
            await session.adopt([UserMessage(content="b")], after_seq=seq)


async def test_a_rewound_session_goes_on_from_what_is_left(live, problems_of) -> None:
    provider = ScriptedProvider().text("one").text("two").text("three")
    async with live(provider, settings()) as session:
        await session.prompt("a")
        await session.prompt("b")
        await session.adopt([dropping(session.snapshot().transcript, 2)], after_seq=session.seq)
        await session.prompt("c")
        assert [message["content"] for message in provider.requests[2].messages] == ["a", "one", "c"]
        assert problems_of(provider.requests[2].messages) == []


async def test_a_new_name_is_listed_at_once_and_kept(tmp_path) -> None:
    store = JsonlStore(tmp_path / "sessions")
    async with open_test_runtime(ScriptedProvider().text("hello"), settings(), store=store, home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.adopt([renamed("my work")])
        assert [entry.title for entry in (await runtime.sessions.list()).sessions] == ["my work"]
        await session.prompt("hi")
        assert session.metadata["name"] == session.metadata["title"] == "my work"
    assert (await store.load(session.session_id)).header.metadata["name"] == "my work"


# --- summaries --------------------------------------------------------------------------------


async def test_a_summary_stands_for_what_was_said(live, story) -> None:
    provider = ScriptedProvider().text("a long answer").text("They greeted.").text("sure")
    async with live(provider, settings()) as session:
        await session.prompt("hello")
        compacted = await session.compact("Keep names.")
        assert compacted.summary == "They greeted."
        assert provider.requests[1].messages[-1]["content"].endswith("Keep names.")
        await session.prompt("go on")
        contents = [message["content"] for message in provider.requests[2].messages]
        assert len(contents) == 2
        assert contents[0].endswith("They greeted.")
        assert contents[1] == "go on"


async def test_a_summary_that_fails_leaves_everything_as_it_was(live, story) -> None:
    provider = ScriptedProvider().text("hello").text("  ").error(ProviderUnauthorized("no"))
    async with live(provider, settings()) as session:
        await session.prompt("hi")
        with pytest.raises(BadProviderReply, match="empty summary"):
            await session.compact()
        before = story(session)
        with pytest.raises(ProviderUnauthorized):
            await session.compact()
        assert story(session) == before
        assert (await session.status()).turn_id == ""


async def test_prompts_wait_for_a_summary_and_a_summary_does_not_interrupt_a_turn(live, until) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("1").text("short").after(gate).text("2")
    async with live(provider, settings()) as session:
        await session.prompt("one")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.compact)
            await provider.reached(2)
            nursery.start_soon(session.prompt, "two")
            await until(session, PromptQueued)
            with pytest.raises(SessionError, match="a turn is running"):
                await session.compact()
            gate.set()
        assert [fact.type for fact in facts_of(session)][-6:] == [
            "compacted",
            "turn_started",
            "user_message",
            "provider_meta",
            "assistant_message",
            "turn_ended",
        ]


async def test_a_summary_can_be_cancelled(live) -> None:
    provider = ScriptedProvider().text("1").hang().text("2")
    async with live(provider, settings()) as session:
        await session.prompt("one")
        async with trio.open_nursery() as nursery:

            async def compact() -> None:
                with pytest.raises(SessionError, match="cancelled"):
                    await session.compact()

            nursery.start_soon(compact)
            await provider.reached(2)
            await session.cancel()
        assert (await session.prompt("two")).stop == "end_turn"


async def test_a_summary_by_a_model_that_does_not_exist_is_refused_and_harms_nobody(tmp_path) -> None:
    config = settings(provider={"name": "nobody", "model": "m"})
    async with open_runtime(config, home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        await session.adopt([UserMessage(content="x")])
        with pytest.raises(Exception, match="Unknown provider: 'nobody'"):
            await session.compact()
        assert runtime.registry.find(f"session:{session.session_id}") is not None
        assert (await session.status()).turn_id == ""
