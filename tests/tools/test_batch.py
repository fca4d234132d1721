"""`batch`: several calls in one, each under its own rules; some may fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.hooks import Block, Hooks
from aar.messages.events import ApprovalRequested, Notice, ToolCall, ToolOutput, ToolResult, ToolStarted
from aar.messages.settings import AgentConfig, SafetyConfig, ToolConfig
from aar.testing import ScriptedProvider, facts_of
from aar.tools.registry import ToolContext, ToolRegistry

UNASKED = SafetyConfig(require_approval_for_writes=False, require_approval_for_execute=False, allowed_paths=[])


def settings(*builtins: str, safety: SafetyConfig = UNASKED, **named: Any) -> AgentConfig:
    return AgentConfig(tools=ToolConfig(enabled_builtins=["batch", *builtins], **named), safety=safety)


def batch_of(*calls: tuple[str, dict[str, Any]]) -> ScriptedProvider:
    told = [{"tool": name, "arguments": arguments} for name, arguments in calls]
    return ScriptedProvider().call("batch", calls=told).text("done")


def result(session: Any) -> ToolResult:
    (found,) = (event for event in facts_of(session) if isinstance(event, ToolResult))
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("first\n")
    (folder / "b.txt").write_text("second\n")
    return folder


@pytest.mark.covers("AURA-73")
async def test_one_of_three_fails_and_the_others_go_well(live, project: Path) -> None:
    provider = batch_of(
        ("read_file", {"path": "a.txt"}), ("read_file", {"path": "gone.txt"}), ("read_file", {"path": "b.txt"})
    )
    async with live(provider, settings("read_file")) as session:
        await session.prompt("go")
        found = result(session)
    assert not found.is_error
    assert found.output == (
        "[1] read_file: ok\n     1\tfirst\n\n\n"
        f"[2] read_file: failed\nError [exception]: FileNotFoundError: File not found: {project}/gone.txt\n\n"
        "[3] read_file: ok\n     1\tsecond\n"
    )


async def test_when_all_fail_the_call_has_failed(live) -> None:
    async with live(batch_of(("nobody", {}), ("read_file", {})), settings("read_file")) as session:
        await session.prompt("go")
        found = result(session)
    assert found.is_error
    assert "[1] nobody: failed\nError [unknown_tool]" in found.output
    assert "[2] read_file: failed\nError [invalid_arguments]" in found.output


@pytest.mark.parametrize("name", ["batch", "task", "todo", "done", "load_tools"])
async def test_some_tools_are_not_run_inside(live, name: str) -> None:
    config = settings("task", "todo", "done", "read_file")
    async with live(batch_of((name, {}), ("read_file", {"path": "x"})), config) as session:
        ended = await session.prompt("go")
        assert f"[1] {name}: failed\nError [blocked]: tool '{name}' is not run inside" in result(session).output
    assert ended.stop == "end_turn"


@pytest.mark.parametrize("count", [0, 26])
async def test_there_are_one_to_25_calls(live, count: int) -> None:
    async with live(batch_of(*[("read_file", {"path": "x"})] * count), settings("read_file")) as session:
        await session.prompt("go")
        assert result(session).output.startswith("Error [invalid_arguments]")


@pytest.mark.covers("AURA-73")
async def test_rules_hold_for_each_call_inside(live, project: Path) -> None:
    safety = UNASKED.model_copy(update={"deny": ["bash:git push*"]})
    provider = batch_of(
        ("read_file", {"path": ".env"}),
        ("bash", {"command": "git push"}),
        ("bash", {"command": "echo hello"}),
    )
    async with live(provider, settings("read_file", "bash", safety=safety)) as session:
        await session.prompt("go")
        found, facts = result(session), facts_of(session)
    assert "[1] read_file: failed\nError [blocked]" in found.output
    assert "[2] bash: failed\nError [blocked]: blocked by safety policy: the rule 'bash:git push*'" in found.output
    assert "[3] bash: ok\nhello\n" in found.output
    # What may change something was on record before it ran; the conversation knows of one call.
    assert [event.text for event in facts if isinstance(event, Notice)] == ['Running bash {"command": "echo hello"}']
    assert [sum(isinstance(event, kind) for event in facts) for kind in (ToolCall, ToolStarted, ToolResult)] == [1] * 3


@pytest.mark.covers("AURA-73")
async def test_hooks_see_each_call_inside(live, project: Path) -> None:
    async def guard(call: ToolCall) -> Any:
        if call.tool_name == "read_file" and call.arguments["path"] == "a.txt":
            return Block("not this one")
        if call.tool_name == "read_file":
            return call.model_copy(update={"arguments": {"path": "a.txt"}})
        return None

    async def shout(call: ToolCall, outcome: Any) -> Any:
        return outcome._replace(output=outcome.output.upper()) if call.tool_name == "read_file" else None

    provider = batch_of(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    hooks = Hooks(before_tool_call=(guard,), after_tool_call=(shout,))
    async with live(provider, settings("read_file"), hooks=hooks) as session:
        await session.prompt("go")
        found = result(session)
        told = [event.data["arguments"] for event in facts_of(session) if isinstance(event, Notice)]
    assert found.output == "[1] read_file: failed\nERROR [BLOCKED]: NOT THIS ONE\n\n[2] read_file: ok\n     1\tFIRST\n"
    assert told == [{"path": "a.txt"}]


async def test_questions_are_asked_one_at_a_time_under_the_name_of_the_inner_tool(live, project: Path) -> None:
    provider = batch_of(*(("write_file", {"path": name, "content": "x"}) for name in ("1", "2", "3")))
    asked: list[tuple[str, str]] = []
    names: set[str] = set()

    async def answer(session: Any) -> None:
        with session.follow(after=session.seq) as records:
            async for record in records:
                if isinstance(question := record.event, ApprovalRequested):
                    path = question.arguments["path"]
                    asked.append((question.tool_name, path))
                    names.add(question.tool_call_id)
                    await session.decide(question.tool_call_id, "deny" if path == "2" else "allow")

    config = settings("write_file", safety=SafetyConfig())
    async with live(provider, config) as session, session.attend(), trio.open_nursery() as nursery:
        nursery.start_soon(answer, session)
        await session.prompt("go")
        found = result(session)
        nursery.cancel_scope.cancel()
    assert len(names - {found.tool_call_id}) == 3  # a late answer hits no other, and no editor takes it for the batch
    assert sorted(asked) == [("write_file", "1"), ("write_file", "2"), ("write_file", "3")]
    assert "[2] write_file: failed\nError [denied]" in found.output
    assert sorted(os.listdir(project)) == ["1", "3", "a.txt", "b.txt"]


@pytest.fixture
def meeting() -> Callable[[ToolRegistry, int], None]:
    def add(tools: ToolRegistry, count: int) -> None:
        here: list[int] = []
        complete = trio.Event()

        async def meet() -> str:
            here.append(1)
            if len(here) == count:
                complete.set()
            await complete.wait()
            return "met"

        tools.register("meet")(meet)

    return add


async def test_calls_run_side_by_side_but_for_tools_that_run_alone(live, meeting) -> None:
    tools = ToolRegistry()
    meeting(tools, 3)
    running: list[str] = []

    async def alone(name: str) -> str:
        running.append(name)
        await trio.lowlevel.checkpoint()
        assert running == [name]
        running.clear()
        return name

    tools.register("alone", execution="sequential")(alone)
    calls = [("meet", {})] * 3 + [("alone", {"name": "x"}), ("alone", {"name": "y"})]
    async with live(batch_of(*calls), settings(), tools=tools) as session:
        await session.prompt("go")
        assert "failed" not in result(session).output


async def test_a_cancel_ends_all_and_keeps_what_was_done(live) -> None:
    tools = ToolRegistry()
    cancelled: list[str] = []

    async def wait(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(name)

    tools.register("wait")(wait)
    tools.register("quick")(lambda: "I was quick")
    provider = batch_of(("quick", {}), ("wait", {"name": "a"}), ("wait", {"name": "b"}))
    async with live(provider, settings(), tools=tools) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "go")
        with session.follow(after=session.seq) as records:
            async for record in records:
                if isinstance(record.event, ToolOutput) and "I was quick" in record.event.text:
                    await session.cancel()
                if isinstance(record.event, ToolResult):
                    break
        assert "quick {} ok\nI was quick" in result(session).output
    assert sorted(cancelled) == ["a", "b"]


async def test_each_call_has_its_own_time_and_its_share_of_the_output(live, autojump_clock) -> None:
    tools = ToolRegistry()
    tools.register("slow")(trio.sleep_forever)
    tools.register("long")(lambda: "x" * 3000)
    provider = batch_of(("slow", {}), ("long", {}), ("long", {}))
    config = settings(command_timeout=7, max_output_chars=3000)
    async with live(provider, config, tools=tools) as session:
        await session.prompt("go")
        found = result(session)
    assert "[1] slow: failed\nError [timeout]: tool 'slow' timed out after 7s" in found.output
    assert found.output.count("x" * 900 + "\n... (truncated)") == 2


async def test_any_tool_may_call_others_under_their_rules(live, project: Path) -> None:
    tools = ToolRegistry()

    @tools.register("both")
    async def both(ctx: ToolContext) -> str:
        assert ctx.run_calls is not None
        outcomes = await ctx.run_calls([("read_file", {"path": "a.txt"}), ("read_file", {"path": ".env"})])
        return " ".join(str(one.is_error) for one in outcomes)

    async with live(ScriptedProvider().call("both").text("done"), settings("read_file"), tools=tools) as session:
        await session.prompt("go")
        assert result(session).output == "False True"
