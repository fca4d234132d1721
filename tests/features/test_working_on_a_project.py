"""One person, one project: reading, changing and checking files, steering meanwhile, and trying two ways."""

from __future__ import annotations

import trio

from aar.journal.jsonl import JsonlStore
from aar.messages.events import ApprovalRequested, ToolStarted, TurnEnded
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of, open_test_runtime


async def test_a_bug_is_found_mended_and_checked_with_two_questions(tmp_path, story) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "add.py").write_text("def add(a, b):\n    return a - b\n")
    provider = (
        ScriptedProvider()
        .call("read_file", path="add.py")
        .call("edit_file", path="add.py", old_string="a - b", new_string="a + b")
        .call("bash", command="python3 -c 'from add import add; print(add(2, 3))'")
        .text("It adds now.")
    )
    questions = []

    async def answer(session) -> None:
        with session.follow() as records:
            async for record in records:
                if isinstance(record.event, ApprovalRequested):
                    questions.append((record.event.tool_name, record.event.reason))
                    await session.decide(record.event.tool_call_id, "allow")
                if isinstance(record.event, TurnEnded):
                    return

    store = JsonlStore(tmp_path / "sessions")
    async with open_test_runtime(provider, AgentConfig(), store=store, home=tmp_path / "home") as runtime:
        session = await runtime.sessions.open(str(project))
        async with session.attend(), trio.open_nursery() as nursery:
            nursery.start_soon(answer, session)
            assert (await session.prompt("add() is wrong")).stop == "end_turn"
        assert (project / "add.py").read_text() == "def add(a, b):\n    return a + b\n"
        assert "tool_result call_3 ok: 5\n" in story(session)
        assert questions == [("edit_file", "writes need approval"), ("bash", "commands need approval")]
        listed = await runtime.sessions.list(cwd=str(project))
        assert [entry.title for entry in listed.sessions] == ["It adds now."]
        assert (await store.load(session.session_id)).records == session.records()


async def test_a_turn_is_steered_continued_and_stopped_softly(live, story, until) -> None:
    gates = [trio.Event() for _ in range(3)]
    provider = ScriptedProvider()
    for gate in gates:
        provider.call("bash", command="true").after(gate)
    config = AgentConfig(safety={"require_approval_for_execute": False, "allowed_paths": []})
    async with live(provider, config) as session:
        async with session.running("build it") as (turn_id, ended):
            await provider.reached(1)
            await session.steer("use meson")
            gates[0].set()
            await provider.reached(2)
            await session.follow_up("then write a changelog")
            await session.cancel(turn_id, after_step=True)
            await session.status()
            gates[1].set()
            assert (await ended()).stop == "cancelled"
        assert len([event for event in facts_of(session) if isinstance(event, ToolStarted)]) == 2
        assert [line for line in story(session) if line.startswith(("prompt", "steering", "follow", "turn"))] == [
            "turn_started",
            "prompt: build it",
            "steering: use meson",
            "prompt_queued then write a changelog",
            "turn_ended cancelled",
        ]


async def test_two_ways_are_tried_from_the_same_point(tmp_path) -> None:
    provider = ScriptedProvider().text("Which one?").text("Red it is.").text("Blue it is.")
    async with open_test_runtime(provider, AgentConfig(), home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        await session.prompt("Paint the shed.")
        branch = await runtime.sessions.fork(session.session_id, at_message=2)
        await session.prompt("Red.")
        await branch.prompt("Blue.")
        said = [[message["content"] for message in one.snapshot().to_messages()] for one in (session, branch)]
    assert said == [
        ["Paint the shed.", "Which one?", "Red.", "Red it is."],
        ["Paint the shed.", "Which one?", "Blue.", "Blue it is."],
    ]
