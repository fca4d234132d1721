"""Several people at one session: each with a client, all see the same, any of them decides."""

from __future__ import annotations

import trio
import trio.testing

from aar.messages.events import ApprovalRequested, ApprovalResolved, AssistantMessage, StreamChunk, TurnEnded
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, open_test_runtime


async def test_a_phone_approves_what_the_desk_asked_for_and_both_see_it(tmp_path) -> None:
    provider = ScriptedProvider().call("bash", command="echo deployed").text("It is done.", chunks=4, delay=0.01)
    seen: dict[str, list[str]] = {"desk": [], "phone": [], "late": []}

    async def watch(session, name: str, after: int = 0) -> None:
        with session.follow(after=after) as records:
            async for record in records:
                if record.seq:
                    seen[name].append(f"{record.seq} {record.event.type}")
                if isinstance(record.event, TurnEnded):
                    return

    async def phone(session) -> None:
        async with session.attend():
            with session.follow() as records:
                async for record in records:
                    if isinstance(record.event, ApprovalRequested):
                        assert await session.decide(record.event.tool_call_id, "allow")
                    if isinstance(record.event, ApprovalResolved):
                        return  # and puts the phone away

    async with open_test_runtime(provider, AgentConfig(streaming=True), home=tmp_path) as runtime:
        desk = await runtime.sessions.open(str(tmp_path))
        other = await runtime.sessions.load(desk.session_id)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, desk, "desk")
            nursery.start_soon(watch, other, "phone")
            nursery.start_soon(phone, other)
            await trio.testing.wait_all_tasks_blocked()
            ended = await desk.prompt("deploy it")
        assert ended.stop == "end_turn"
        await watch(other, "late", after=5)
    assert seen["desk"] == seen["phone"]
    assert seen["late"] == seen["desk"][5:]
    assert [line.split()[1] for line in seen["desk"]] == [
        "session",
        "turn_started",
        "user_message",
        "provider_meta",
        "tool_call",
        "assistant_message",
        "approval_requested",
        "approval_resolved",
        "tool_started",
        "tool_result",
        "provider_meta",
        "assistant_message",
        "turn_ended",
    ]


async def test_a_slow_screen_misses_no_text_and_holds_nobody_up(tmp_path, autojump_clock) -> None:
    text = "word " * 200
    provider = ScriptedProvider().text(text, chunks=200, delay=0.05)
    shown: dict[str, str] = {}
    pieces: dict[str, int] = {}

    async def screen(session, name: str, pause: float) -> None:
        shown[name], pieces[name] = "", 0
        with session.follow() as records:
            async for record in records:
                match record.event:
                    case StreamChunk(text=more):
                        shown[name] += more
                        pieces[name] += 1
                    case AssistantMessage(content=whole):
                        assert whole.startswith(shown[name])
                        shown[name] = whole
                    case TurnEnded():
                        return
                await trio.sleep(pause)

    async with open_test_runtime(provider, AgentConfig(streaming=True), home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        async with trio.open_nursery() as nursery:
            for name, pause in (("fast", 0.0), ("slow", 2.0)):
                nursery.start_soon(screen, session, name, pause)
            started = trio.current_time()
            await session.prompt("go")
            assert trio.current_time() - started < 11
    assert shown == {"fast": text, "slow": text}
    assert pieces["slow"] < 10 < 150 < pieces["fast"]
