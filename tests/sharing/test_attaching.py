"""A session of another process, through its owner's socket: what a `SessionHandle` on it can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from aar.errors import ActorStopped, InvalidSetting, ProtocolError, SessionInUse, SessionNotFound, StoreUnavailable
from aar.messages.events import ApprovalRequested, ApprovalResolved, StreamChunk, TurnEnded, UserMessage
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.sharing.attaching import attached
from aar.sharing.frames import frame
from aar.sharing.places import Listening
from aar.testing import ScriptedProvider, facts_of

ASKING = AgentConfig(safety=SafetyConfig(require_approval_for_execute=True))


async def test_a_client_has_all_facts_and_sees_what_happens_next(autojump_clock, house) -> None:
    async with house(ScriptedProvider().text("one").text("two")) as here:
        await here.session.prompt("first")
        async with here.attached() as client:
            assert client.handle.records() == here.session.records()
            assert client.handle.cwd == here.session.cwd
            with client.handle.follow(after=client.handle.seq) as records:
                await here.session.prompt("second")
                async for record in records:
                    if isinstance(record.event, TurnEnded):
                        break
            assert client.handle.records() == here.session.records()
            mine, theirs = client.handle.snapshot(), here.session.snapshot()
            assert mine.to_messages() == theirs.to_messages()
            assert mine.header() == theirs.header()


async def test_a_client_sees_the_answer_grow(autojump_clock, house) -> None:
    script = ScriptedProvider().hang("Hello there.")
    async with house(script, AgentConfig(streaming=True)) as here, here.attached() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.handle.run, "hi")
            with client.handle.follow(every=0) as records:
                async for record in records:
                    if isinstance(record.event, StreamChunk):
                        break
            nursery.cancel_scope.cancel()
        assert record.event.text == "Hello there."


async def test_a_client_prompts_cancels_and_changes_settings(autojump_clock, house, story) -> None:
    waiting = ScriptedProvider().text("done").hang().text("again")
    async with house(waiting) as here, here.attached() as client:
        assert (await client.handle.prompt("go")).stop == "end_turn"
        async with trio.open_nursery() as nursery:
            with client.handle.follow(after=client.handle.seq) as records:
                nursery.start_soon(client.handle.prompt, "wait")
                async for record in records:
                    if isinstance(record.event, UserMessage):
                        break
            await client.handle.cancel(record.turn_id)
        assert story(here.session)[-1] == "turn_ended cancelled"
        assert (await client.handle.configure({"max_steps": 7})).max_steps == 7
        with pytest.raises(InvalidSetting, match="max_steps"):
            await client.handle.configure({"max_steps": -1})
        assert (await client.handle.status()).session_id == here.session.session_id
        assert [tool.name for tool in await client.handle.tools()] == [tool.name for tool in await here.session.tools()]
        assert await client.handle.commands() == ()
        assert await client.handle.mcp_servers() == ()
        assert (await client.handle.queue()).items == []


@pytest.mark.covers("AURA-26")
async def test_a_client_answers_a_question_and_the_facts_say_so(autojump_clock, house) -> None:
    script = ScriptedProvider().call("bash", command="echo hello").text("done")
    async with house(script, ASKING) as here, here.attached() as client:
        async with client.handle.attend(), trio.open_nursery() as nursery:
            with client.handle.follow() as records:
                nursery.start_soon(client.handle.prompt, "go")
                async for record in records:
                    if isinstance(record.event, ApprovalRequested):
                        assert await client.handle.decide(record.event.tool_call_id, "allow")
                        assert not await client.handle.decide(record.event.tool_call_id, "deny")
                    if isinstance(record.event, TurnEnded):
                        break
        resolved = [event for event in facts_of(here.session) if isinstance(event, ApprovalResolved)]
        assert [(event.decision, event.by) for event in resolved] == [("allow", "attached")]


async def test_the_first_answer_counts_wherever_it_comes_from(autojump_clock, house) -> None:
    script = ScriptedProvider().call("bash", command="echo hello").text("done")
    async with house(script, ASKING) as here, here.attached() as one, here.attached() as other:
        handles = [here.session, one.handle, other.handle]
        seen: list[list[Any]] = [[], [], []]

        async def watch(number: int) -> None:
            with handles[number].follow() as records:
                async for record in records:
                    if isinstance(record.event, ApprovalRequested):
                        told = await handles[number].decide(record.event.tool_call_id, "allow" if number else "deny")
                        seen[number].append(told)
                    elif isinstance(record.event, ApprovalResolved):
                        seen[number].append(record.event.by)
                    elif isinstance(record.event, TurnEnded):
                        return

        async with one.handle.attend(), other.handle.attend(), trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(watch, number)
            await here.session.prompt("go")
        assert sorted(told for told, _ in seen) == [False, False, True]
        assert len({by for _, by in seen}) == 1  # all of them saw who has decided


async def test_a_client_that_leaves_takes_its_answers_along_and_leaves_its_turn(
    autojump_clock, house, story, until
) -> None:
    gate = trio.Event()
    async with house(ScriptedProvider().text("done").after(gate)) as here:
        async with here.attached() as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.handle.prompt, "go")
            await until(here.session, UserMessage)
            nursery.cancel_scope.cancel()
        gate.set()
        await until(here.session, TurnEnded)
        assert story(here.session)[-1] == "turn_ended end_turn"


async def test_a_question_is_no_when_the_client_that_could_answer_it_has_left(
    autojump_clock, house, story, until
) -> None:
    """Whoever goes is as good as nobody: a question that nobody sees holds no turn, and is no yes."""
    script = ScriptedProvider().call("bash", command="touch made").text("done")
    async with house(script, ASKING) as here:
        async with here.attached() as client, client.handle.attend(), trio.open_nursery() as nursery:
            nursery.start_soon(client.handle.prompt, "go")
            await until(here.session, ApprovalRequested)
            nursery.cancel_scope.cancel()
        await until(here.session, TurnEnded)
        assert [line.partition(": ")[2] for line in story(here.session) if "approval_resolved" in line] == [
            "deny once by nobody"
        ]


async def test_a_client_is_told_when_the_session_ends(autojump_clock, house) -> None:
    async with house(ScriptedProvider().text("x")) as here, here.attached() as client:
        await client.handle.prompt("go")
        await here.runtime.sessions.close(here.session.session_id)
        with client.handle.follow(after=client.handle.seq) as records:
            assert [record async for record in records] == []
        assert client.farewell == "The session was closed by the process that owned it."
        with pytest.raises(ActorStopped, match="closed by the process"):
            await client.handle.prompt("more")
        with pytest.raises(SessionNotFound, match="not open in another process"):
            async with here.attached():
                pass


async def test_what_somebody_attached_allows_beforehand_is_signed_and_facts_cannot_be_made_up(
    autojump_clock, house, story
) -> None:
    async with house() as here, here.attached() as client:
        await client.handle.auto_approve("bash:git *")
        await client.handle.revoke("bash")
        assert story(here.session, after=1) == [
            "approval_resolved bash:git *: allow session by attached",
            "approval_resolved bash: revoked session by attached",
        ]
        made_up = ApprovalResolved(decision="allow", scope="session", by="client", key="bash")
        with pytest.raises(Exception, match="adopt"):
            await client.handle.adopt([made_up])


async def test_keys_stay_with_the_owner(autojump_clock, house) -> None:
    config = AgentConfig().patched({"provider": {"name": "generic", "api_key": "sk-secret"}})
    async with house(None, config) as here, here.attached() as client:
        assert (await client.handle.configure({"max_steps": 7})).resolve_provider().api_key == ""


async def test_a_client_can_begin_where_it_was(autojump_clock, house) -> None:
    async with house(ScriptedProvider().text("one").text("two")) as here:
        await here.session.prompt("first")
        after = here.session.seq
        await here.session.prompt("second")
        async with here.attached(after=after) as client:
            assert client.handle.records() == here.session.records(after=after)


async def test_nobody_but_the_owner_writes_the_journal(autojump_clock, house) -> None:
    async with house() as here, here.attached() as client:
        with pytest.raises(SessionInUse):
            await client.handle._journal.append()


async def test_a_session_that_is_not_open_cannot_be_attached_to(tmp_path) -> None:
    with pytest.raises(SessionNotFound, match="Session x is not open in another process"):
        async with attached(tmp_path, "x"):
            pass


async def test_with_an_answer_the_facts_are_there_that_led_to_it(autojump_clock, house) -> None:
    async with house(ScriptedProvider().text("one").text("two")) as here, here.attached() as client:
        for _ in range(2):
            await client.handle.prompt("go")
            assert client.handle.records() == here.session.records()
        async with here.attached(after=here.session.seq) as late:
            await late.handle.configure({"max_steps": 7})
            assert [record.event.type for record in late.handle.records()] == ["config_changed"]


async def test_an_owner_that_does_not_answer_is_told(autojump_clock, tmp_path) -> None:
    """It was stopped, perhaps: the system still takes connections for it."""
    listening = Listening(tmp_path, "abc")
    with pytest.raises(StoreUnavailable, match="session abc does not answer"):
        async with attached(tmp_path, "abc"):
            raise AssertionError
    listening.close()


async def owned_by(home: Path, *answers: bytes) -> None:
    """Somebody who listens as an owner does, and says this to whoever comes."""
    listening = Listening(home, "abc")
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening.socket))
    try:
        async with listener, await listener.accept() as stream:
            await stream.receive_some()
            for answer in answers:
                await stream.send_all(answer)
            await trio.sleep_forever()
    finally:
        listening.close()


def welcome(**more: Any) -> bytes:
    info = {"session_id": "abc", "cwd": "/"}
    return frame("welcome", **{"version": 1, "pid": 7, "session": info, "header": {}, "seq": 0, **more})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (frame("error", message="not you"), "Cannot attach to session abc: not you."),
        (b"garbage\n", "frame 1 is not a line of JSON"),
        (frame("welcome"), "does not speak as this Aar does"),
        (welcome(seq="x"), "does not speak as this Aar does"),
    ],
)
async def test_an_owner_that_is_none_is_refused(autojump_clock, nursery, tmp_path, answer, told) -> None:
    nursery.start_soon(owned_by, tmp_path, answer)
    await trio.testing.wait_all_tasks_blocked(0.01)
    with pytest.raises(ProtocolError, match=told):
        async with attached(tmp_path, "abc"):
            pass
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "told",
    [
        b"garbage\n",
        frame("record", seq=1),
        frame("record", seq=1, turn_id="", event={"type": "sung"}),
        frame("answer", id="x"),
        frame("header", header=7),
    ],
)
async def test_an_owner_that_says_what_nobody_understands_is_left(autojump_clock, nursery, tmp_path, told) -> None:
    nursery.start_soon(owned_by, tmp_path, welcome(), told)
    await trio.testing.wait_all_tasks_blocked(0.01)
    async with attached(tmp_path, "abc") as found:
        with found.handle.follow() as records:
            assert [record async for record in records] == []
        assert found.farewell == "The process that owns the session speaks as another version of Aar does."
        with pytest.raises(ActorStopped, match="another version"):
            await found.handle.status()
    nursery.cancel_scope.cancel()
