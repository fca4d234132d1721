"""The tool `task`: work that is done in a session of its own, inside the call that asked for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from aar.actors.errand import Errand
from aar.config.agents.narrowing import stricter
from aar.delegating import run_errand
from aar.errors import ConfigError, StoreUnavailable
from aar.messages.events import ApprovalRequested, ApprovalResolved, ProviderMeta, ToolCall, ToolOutput, ToolResult
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


def an_agent(home: Path, name: str, front: str) -> None:
    folder = home / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"---\n{front}\n---\nYou work.\n")


async def test_an_agent_that_the_model_names_may_do_no_more_than_the_session(live, tmp_path: Path) -> None:
    loose = "safety: {read_only: false, require_approval_for_execute: false, auto: [bash], allowed_paths: []}"
    an_agent(tmp_path / "home", "free", f"{loose}\ntoken_budget: 0")
    provider = ScriptedProvider().call("task", **TASK, agent="free")
    provider.call("write_file", path="a", content="x").text("I may not").text("ok")
    config = WITH_TASK.patched({"safety": {"read_only": True}})
    async with live(provider, config) as session:
        await session.prompt("go")
        assert results(session) == [("I may not", False)]
        assert not await trio.Path(session.cwd, "a").exists()
    assert "read-only mode" in str(provider.requests[2].messages[-1]["content"])


async def test_the_mode_of_the_session_holds_in_its_tasks(live, tmp_path: Path) -> None:
    home = tmp_path / "home"
    an_agent(home, "coder", "mode: build")
    (home / "modes").mkdir()
    (home / "modes" / "build.md").write_text("Build.\n")
    (home / "modes" / "plan.md").write_text("---\ntools: {only: [read_file]}\n---\nPlan.\n")
    provider = ScriptedProvider().call("task", **TASK, agent="coder").text("done").text("ok")
    config = WITH_TASK.model_copy(update={"mode": "plan"})
    async with live(provider, config) as session:
        await session.prompt("go")
    assert [tool.name for tool in provider.requests[1].tools or ()] == ["read_file"]


async def test_each_question_of_a_task_has_a_name_that_no_other_call_has(live) -> None:
    """So a late answer hits nothing, and an editor that knows the task does not take the question to be about it."""
    provider = asking().calls(("bash", {"command": "echo 1"}), ("bash", {"command": "echo 2"})).text("done").text("ok")
    async with live(provider, WITH_TASK) as session:
        async with answering(session, "allow") as asked:
            await session.prompt("go")
        calls = [event.tool_call_id for event in facts_of(session) if isinstance(event, ToolCall)]
    names = [one.tool_call_id for one in asked]
    assert len(set(names)) == 2
    assert not set(names) & set(calls)


async def test_a_task_may_spend_what_is_left(tmp_path: Path) -> None:
    provider = asking().usage(60, 30).text("a").usage(8, 4).text("ok")
    config = WITH_TASK.patched({"token_budget": 100})
    async with open_test_runtime(provider, config, home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt("go")
        [(output, is_error)] = results(session)
    assert is_error
    assert output.startswith("The task did not come to its end (budget_exceeded).")


async def test_a_task_whose_costs_cannot_be_put_on_record_leaves_no_session_behind(tmp_path: Path) -> None:
    async def spent(meta: ProviderMeta) -> None:
        raise StoreUnavailable("the disk is full")

    async def may(*_: object) -> bool:
        return False

    async with open_test_runtime(ScriptedProvider().text("x"), WITH_TASK, home=tmp_path) as runtime:
        errand = Errand("do it", "", str(tmp_path), WITH_TASK, "", lambda text: None, may, spent)
        with pytest.raises(StoreUnavailable):
            await run_errand(runtime.sessions, tmp_path, errand)
        assert [name for name in runtime.registry.names() if name.startswith("session:")] == []


def test_rules_are_those_that_both_allow() -> None:
    giver = SafetyConfig(auto=["bash:git *", "edit_file"], deny=["bash:rm*"], allowed_paths=["<cwd>/**", "/data/**"])
    own = SafetyConfig(
        read_only=True, auto=["bash:*", "edit_file"], deny=["read_file"], allowed_paths=["/w/docs/**", "/etc/**"]
    )
    both = stricter(giver, own, "/w")
    assert both.read_only
    assert (both.auto, both.deny) == (["edit_file"], ["bash:rm*", "read_file"])
    assert both.allowed_paths == ["/w/docs/**"]
    assert stricter(own, giver, "/w").allowed_paths == ["/w/docs/**"]
    assert stricter(SafetyConfig(allowed_paths=[]), own, "/w").allowed_paths == own.allowed_paths
    with pytest.raises(ConfigError, match="not within those of the session"):
        stricter(giver, SafetyConfig(allowed_paths=["/w/../etc/**"]), "/w")
