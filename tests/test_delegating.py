"""The tool `task`: work that is done in a session of its own, inside the call that asked for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from aar.messages.events import ApprovalRequested, ApprovalResolved, ProviderMeta, ToolOutput, ToolResult
from aar.messages.settings import BUILTIN_TOOLS, AgentConfig, SafetyConfig, ToolConfig
from aar.testing import MemoryStore, ScriptedProvider, facts_of, open_test_runtime

WITH_TASK = AgentConfig(tools=ToolConfig(enabled_builtins=[*BUILTIN_TOOLS, "task"]))
TASK = {"description": "count files", "prompt": "Count the files."}


def asking() -> ScriptedProvider:
    """A model that has one task done."""
    return ScriptedProvider().call("task", **TASK)


def results(session: Any) -> list[tuple[str, bool]]:
    return [(event.output, event.is_error) for event in facts_of(session) if isinstance(event, ToolResult)]


@asynccontextmanager
async def answering(session: Any, decision: str) -> AsyncIterator[list[ApprovalRequested]]:
    asked: list[ApprovalRequested] = []

    async def answer() -> None:
        with session.follow(after=session.seq) as records:
            async for record in records:
                if isinstance(record.event, ApprovalRequested):
                    asked.append(record.event)
                    await session.decide(record.event.tool_call_id, decision)

    async with session.attend(), trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        yield asked
        nursery.cancel_scope.cancel()


async def test_a_task_knows_nothing_of_the_conversation_and_gives_its_last_answer(live) -> None:
    provider = asking().text("There are three.").text("Three, I hear.")
    async with live(provider, WITH_TASK) as session:
        await session.prompt("How many files are there?")
        assert results(session) == [("There are three.", False)]
    first, inner, last = provider.requests
    assert [message["content"] for message in inner.messages] == ["Count the files."]
    assert "task" not in [tool.name for tool in inner.tools or ()]
    assert {tool.name for tool in first.tools or ()} - {tool.name for tool in inner.tools or ()} == {"task"}
    assert len(last.messages) == 3


async def test_what_a_task_does_is_shown_while_it_does_it(live) -> None:
    provider = asking().call("list_directory", path=".").hang("hm")
    shown = ""
    async with live(provider, WITH_TASK) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "go")
        with session.follow(after=session.seq) as records:
            async for record in records:
                if isinstance(record.event, ToolOutput):
                    shown += record.event.text
                if shown == 'count files\nlist_directory {"path": "."}\n':
                    break
        await session.cancel()


@pytest.mark.covers("AURA-74")
async def test_several_tasks_run_side_by_side_and_a_cancel_ends_them_all(tmp_path: Path) -> None:
    provider = ScriptedProvider().calls(("task", TASK), ("task", TASK)).hang("thinking").hang("thinking")
    async with open_test_runtime(provider, WITH_TASK, home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))

        def open_sessions() -> list[str]:
            return [name for name in runtime.registry.names() if name.startswith("session:")]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            while len(provider.requests) < 3:
                await trio.testing.wait_all_tasks_blocked()
            assert len(open_sessions()) == 3
            began = trio.current_time()
            await session.cancel()
        took = trio.current_time() - began
        assert open_sessions() == [f"session:{session.session_id}"]
        assert took < 5
        assert [is_error for _, is_error in results(session)] == [True, True]
        assert (await runtime.sessions.list()).sessions == (await runtime.sessions.list(cwd=str(tmp_path))).sessions


async def test_a_task_leaves_no_session_behind(tmp_path: Path) -> None:
    store = MemoryStore()
    async with open_test_runtime(asking().text("x").text("y"), WITH_TASK, home=tmp_path, store=store) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt("go")
        listed = await runtime.sessions.list()
    assert [info.session_id for info in listed.sessions] == [session.session_id]


async def test_its_questions_are_asked_in_the_session_that_gave_it(live) -> None:
    provider = asking().call("bash", command="echo hi").text("done").text("ok")
    async with live(provider, WITH_TASK) as session:
        async with answering(session, "allow") as asked:
            await session.prompt("go")
        resolved = [event for event in facts_of(session) if isinstance(event, ApprovalResolved)]
    assert [(one.tool_name, one.arguments) for one in asked] == [("bash", {"command": "echo hi"})]
    assert [(one.tool_name, one.decision) for one in resolved] == [("bash", "allow")]
    said = provider.requests[2].messages[-1]["content"]
    assert "hi" in str(said)
    assert "denied" not in str(said)


async def test_an_always_holds_for_the_next_task_too(live) -> None:
    provider = asking().call("bash", command="echo hi").text("done")
    provider.call("task", **TASK).call("bash", command="echo hi").text("done").text("ok")
    async with live(provider, WITH_TASK) as session, answering(session, "allow_always") as asked:
        await session.prompt("go")
    assert len(asked) == 1
    assert provider.remaining == 0


@pytest.mark.parametrize("attended", [True, False])
async def test_without_a_yes_the_answer_is_no(live, attended: bool) -> None:
    provider = asking().call("bash", command="echo hi").text("I may not").text("ok")
    async with live(provider, WITH_TASK) as session:
        if attended:
            async with answering(session, "deny"):
                await session.prompt("go")
        else:
            await session.prompt("go")
        assert results(session) == [("I may not", False)]
    assert "Error [denied]" in str(provider.requests[2].messages[-1]["content"])


async def test_rules_of_the_session_hold_in_its_tasks(live) -> None:
    config = WITH_TASK.model_copy(update={"safety": SafetyConfig(read_only=True)})
    provider = asking().call("write_file", path="a", content="x").text("I may not").text("ok")
    async with live(provider, config) as session:
        await session.prompt("go")
        assert not await trio.Path(session.cwd, "a").exists()
    assert "Error [blocked]" in str(provider.requests[2].messages[-1]["content"])


async def test_what_a_task_spends_is_spent_by_the_session(live) -> None:
    provider = asking().usage(10, 5).text("x").usage(100, 50).text("y").usage(1, 1)
    async with live(provider, WITH_TASK) as session:
        await session.prompt("go")
        status = await session.status()
        metas = [event for event in facts_of(session) if isinstance(event, ProviderMeta)]
    assert (status.input_tokens, status.output_tokens) == (111, 56)
    assert ["task" in meta.data for meta in metas] == [False, True, False]


async def test_a_task_that_goes_on_and_on_ends(live) -> None:
    provider = asking()
    for _ in range(25):
        provider.call("list_directory", path=".")
    provider.text("too much")
    config = WITH_TASK.patched({"guardrails": {"max_repeated_tool_steps": 99}})
    async with live(provider, config) as session:
        await session.prompt("go")
        [(output, is_error)] = results(session)
    assert is_error
    assert output.startswith("The task did not come to its end (max_steps).")


async def test_an_agent_that_there_is_none_of_is_told(live) -> None:
    provider = ScriptedProvider().call("task", **TASK, agent="nobody").text("ok")
    async with live(provider, WITH_TASK) as session:
        await session.prompt("go")
        [(output, is_error)] = results(session)
    assert is_error
    assert output.startswith("Error [invalid_arguments]: agent 'nobody':")


async def test_an_agent_does_the_task_as_its_file_says(live, tmp_path: Path) -> None:
    agents = tmp_path / "home" / "agents"
    agents.mkdir(parents=True)
    (agents / "reader.md").write_text("---\ndescription: reads\ntools:\n  only: [read_file]\n---\nYou only read.\n")
    provider = ScriptedProvider().call("task", **TASK, agent="reader").text("read it").text("ok")
    async with live(provider, WITH_TASK) as session:
        await session.prompt("go")
        assert results(session) == [("read it", False)]
    assert [tool.name for tool in provider.requests[1].tools or ()] == ["read_file"]
    assert "You only read." in provider.requests[1].system
