"""A process that dies in the middle of its work: whatever it has left, the conversation can go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import trio

from aar.journal.jsonl import JsonlStore
from aar.journal.reading import parse_journal
from aar.journal.state import Session
from aar.messages.events import AgentState, ToolCall
from aar.messages.settings import AgentConfig
from aar.providers.openai_wire import encode_message
from aar.testing import ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolRegistry

SHORT = {"denied_paths": [], "allowed_paths": []}  # the settings are part of the first fact
CONFIG = AgentConfig(streaming=True, tools={"enabled_builtins": []}, system_prompt="x", safety=SHORT)


def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text: text)
    registry.register("write", side_effects=["write"])(lambda: "written")
    return registry


@pytest.fixture
async def recorded(tmp_path) -> bytes:
    """The journal of a session with tools, approvals, a queue, a failed call and a cancelled turn."""
    provider = ScriptedProvider().calls(("echo", {"text": "a\nb"}), ("write", {}), ("nobody", {}), text="let me")
    provider.reasoning("hm").usage(10, 5).text("done").calls(("echo", {"text": "c"}), ("echo", {"text": "d"}))
    provider.hang("half")
    store = JsonlStore(tmp_path / "recorded")
    async with open_test_runtime(provider, CONFIG, tools=tools(), store=store, home=tmp_path) as runtime:
        session = await runtime.sessions.open("/", session_id="one")
        await session.auto_approve("write")
        await session.prompt("first\nline — ü")
        async with session.running("second"):
            await provider.reached(4)
            await session.follow_up("and then?")
            await session.status()
    return (tmp_path / "recorded" / "one.jsonl").read_bytes()


async def test_a_journal_that_was_cut_at_any_byte_is_a_valid_conversation(recorded, problems_of) -> None:
    seen: list[int] = []
    beginning = recorded.index(b"\n", recorded.index(b"\n") + 1)  # the header, and the fact with the settings
    for size in [*range(0, beginning, 50), *range(beginning, len(recorded) + 1)]:
        records = parse_journal(recorded[:size], "one", "one.jsonl").records
        if seen and len(records) == seen[-1]:
            continue
        seen.append(len(records))
        session = Session("one")
        for record in records:
            session.apply(record.event, seq=record.seq, turn_id=record.turn_id)
        session.add_user_message("go on")
        assert wire_problems(session.to_messages()) == problems_of(session.to_messages()) == []
    assert seen == list(range(len(seen)))  # one fact after the other becomes whole, and none is lost again
    assert len(seen) > 30


@pytest.mark.covers("SES-23")
async def test_a_session_that_was_cut_between_or_in_any_two_facts_goes_on(recorded, tmp_path) -> None:
    edges = [at + 1 for at, byte in enumerate(recorded) if byte == ord("\n")]
    cuts = sorted({size for edge in edges for size in (edge - 40, edge - 1, edge)} - set(range(-40, 1)))
    folder = tmp_path / "cut"
    folder.mkdir()
    provider = ScriptedProvider().text("I am here").forever()
    for size in cuts:
        (folder / f"s{size}.jsonl").write_bytes(recorded[:size])
    store = JsonlStore(folder)
    async with (
        open_test_runtime(provider, CONFIG, tools=tools(), store=store, home=tmp_path) as runtime,
        trio.open_nursery() as nursery,
    ):
        for size in cuts:
            nursery.start_soon(_go_on, runtime, f"s{size}")
    assert len(provider.requests) == len(cuts)
    for request in provider.requests:
        assert wire_problems(list(request.messages)) == []
        assert request.messages[-1] == {"role": "user", "content": "go on"}


async def _go_on(runtime, name: str) -> None:
    session = await runtime.sessions.load(name, cwd="/")
    fold = session.snapshot()
    assert (fold.turn_id, fold.open_calls) == ("", {})
    assert fold.state not in (AgentState.RUNNING, AgentState.WAITING_FOR_TOOL, AgentState.WAITING_FOR_INPUT)
    assert (await session.prompt("go on")).stop == "end_turn"
    await runtime.sessions.close(name)


def wire_problems(messages) -> list[str]:
    """What an OpenAI-compatible server would refuse: calls that are not answered by the very next messages."""
    wire = json.loads(b"[" + b",".join(filter(None, map(encode_message, messages))) + b"]")
    waiting: list[str] = []
    problems = []
    for message in wire:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                problems.append(f"a result without its call: {message['tool_call_id']}")
            else:
                waiting.remove(message["tool_call_id"])
            continue
        problems += [f"no result for {call_id}" for call_id in waiting]
        waiting = [call["id"] for call in message.get("tool_calls") or []]
    return problems + [f"no result for {call_id}" for call_id in waiting]


PROGRAM = """
    import sys, trio
    from aar import Agent, AgentConfig, SessionStore
    from aar.testing import ScriptedProvider

    config = AgentConfig(safety={"require_approval_for_execute": False, "allowed_paths": []})
    provider = ScriptedProvider().calls(("bash", {"command": "echo started >&2; sleep 1000"}), text="working")
    agent = Agent(config, provider, store=SessionStore(sys.argv[1]), cwd=sys.argv[2])
    agent.on_event(lambda event: print(event.type, flush=True))
    trio.run(agent.run, "go")
"""


@pytest.mark.covers("AURA-102")
async def test_a_process_that_is_killed_while_a_command_runs_has_lost_nothing(tmp_path, story) -> None:
    store = JsonlStore(tmp_path / "sessions")
    arguments = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "sessions"), str(tmp_path)]
    environment = {**os.environ, "AAR_HOME": str(tmp_path / "home")}
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment)  # noqa: ASYNC220
    with process, trio.fail_after(30):
        while await trio.to_thread.run_sync(process.stdout.readline) != b"tool_output\n":
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        await trio.to_thread.run_sync(process.wait)

    (name,) = await store.ids()
    provider = ScriptedProvider().text("here I am")
    async with open_test_runtime(provider, CONFIG, store=store, home=tmp_path / "home") as runtime:
        session = await runtime.sessions.load(name)
        assert session.cwd == str(tmp_path)
        (call,) = [event for event in facts_of(session) if isinstance(event, ToolCall)]
        assert story(session, after=5) == [
            "assistant tool_use: working",
            f"tool_started {call.tool_call_id}",
            f"tool_result {call.tool_call_id} failed: Run interrupted before this tool call was finished.",
            "error Run interrupted",
            "turn_ended interrupted",
            "session resumed",
        ]
        assert (await session.prompt("are you there?")).stop == "end_turn"
    assert wire_problems(list(provider.requests[0].messages)) == []
