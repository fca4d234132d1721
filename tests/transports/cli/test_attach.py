"""`aar attach`: two terminals, one session."""

from __future__ import annotations

import re
import time
from pathlib import Path

import trio

from aar.journal.jsonl import JsonlStore
from aar.messages.events import ApprovalResolved
from aar.sharing.places import live_sessions

PATIENCE = 20.0


async def shared(home: Path) -> str:
    """The id of the session, once its owner shares it."""
    return (await all_shared(home, 1)).pop()


async def all_shared(home: Path, count: int) -> set[str]:
    with trio.fail_after(PATIENCE):
        while len(found := live_sessions(home)) < count:  # noqa: ASYNC110 - nobody tells when a file is there
            await trio.sleep(0.02)
    return found


async def test_two_terminals_see_and_drive_the_same_session(terminal, aar, place, model, flags) -> None:
    model.says("Said there.").calls("bash", command="echo hi").says("Done here.")
    async with terminal("chat", *flags) as owner:
        await owner.until("> ")
        session_id = await shared(place.home)
        assert re.search(rf"^  {session_id}  \S+ \S+  live ", (await aar("sessions", "list")).out, re.M) is not None
        async with terminal("attach", session_id[:6]) as guest:
            await guest.until(f"Attached to a session of process {owner.process.pid}")
            await guest.until("> ")
            await owner.type("hello\r")
            await guest.until("> hello\n")
            await guest.until("Said there.")
            await owner.until("Said there.")
            await guest.type("do it\r")
            await owner.until("> do it\n")
            await owner.until("Allow?")
            await guest.until("Allow?")
            await guest.type("y\n")
            await owner.until("Answered elsewhere: allowed.")
            await owner.until("Done here.")
            await guest.until("Done here.")
            await guest.until("> ")
            await guest.type("/quit\r")
            assert await guest.end() == 0
            assert f"Left session {session_id}, which goes on.\n" in guest.text
        await owner.type("/quit\r")
        assert await owner.end() == 0
    stored = await JsonlStore(place.home / "sessions").load(session_id)
    resolved = [record.event for record in stored.records if isinstance(record.event, ApprovalResolved)]
    assert [(event.decision, event.by) for event in resolved] == [("allow", "attached")]
    assert live_sessions(place.home) == set()


async def test_whoever_is_attached_cancels_a_turn_and_is_told_when_the_owner_leaves(
    terminal, place, model, flags
) -> None:
    model.says("Slow ", "and long.", wait=trio.Event())
    async with terminal("chat", *flags) as owner:
        await owner.until("> ")
        await shared(place.home)
        async with terminal("attach") as guest:
            await guest.until("> ")
            await owner.type("hello\r")
            await guest.until("Slow")
            await guest.type("\x03")  # stops looking
            await guest.until("> ")
            await guest.type("/cancel\r")
            await guest.until("Cancelled.")
            await owner.until("cancelled")
            await owner.until("> ")
            await guest.until("> ")
            await guest.type("half a li")
            await owner.type("/quit\r")
            assert await owner.end() == 0
            await guest.until("The session was closed by the process that owned it.")
            assert await guest.end() == 0


async def test_a_line_that_is_being_typed_is_there_again_after_the_turn_of_another(
    terminal, place, model, flags
) -> None:
    model.says("One.").says("Two.")
    async with terminal("chat", *flags) as owner, terminal("attach") as early:
        await early.until("No session of this user is open in another process. `aar chat` begins one.")
        assert await early.end() == 1
        await owner.until("> ")
        await shared(place.home)
        async with terminal("attach") as guest:
            await guest.until("> ")
            await owner.type("half a")
            await guest.type("mine\r")
            await owner.until("One.")
            await owner.until("> half a")
            await owner.type(" line\r")
            await guest.until("> half a line\n")
            await guest.until("Two.")
    assert [request["messages"][-1]["content"] for request in model.requests] == ["mine", "half a line"]


async def test_a_session_is_named_where_there_are_more_than_one(terminal, aar, place, model, flags) -> None:
    async with terminal("chat", *flags) as one, terminal("chat", *flags) as other:
        await one.until("> ")
        await other.until("> ")
        found = await all_shared(place.home, 2)
        done = await aar("attach")
        told = f"aar: 2 sessions are open: name one of them. {', '.join(sorted(found))} (`aar sessions` says what they"
        assert (done.code, done.err) == (2, f"{told} are about)\n")
        done = await aar("attach", "x")
        assert (done.code, done.err) == (1, "aar: Session x is not open in another process.\n")


async def test_settings_can_forbid_it(terminal, place, model, flags) -> None:
    place.configure(attachable=False)
    model.says("Hello.")
    async with terminal("chat", *flags) as owner:
        await owner.until("> ")
        begun = time.monotonic()
        await owner.type("hello\r")
        await owner.until("Hello.")
        await trio.sleep(max(0.0, 0.6 - (time.monotonic() - begun)))
        assert not (place.home / "run").exists()


async def test_programs_attach_and_are_attached_to(aar, started, terminal, place, model, flags) -> None:
    """Lines of the input are prompts; at their end it leaves."""
    gate = trio.Event()
    model.says("Slow ", "run.", wait=gate).says("Answered.")
    async with started("run", "hi", *flags) as run:
        await shared(place.home)
        gate.set()
        assert await run.wait() == 0
    async with terminal("chat", *flags) as owner:
        await owner.until("> ")
        await shared(place.home)
        done = await aar("attach", stdin="and you?\n")
        assert (done.code, done.out) == (0, "Answered.\n")
        await owner.until("> and you?\n")
