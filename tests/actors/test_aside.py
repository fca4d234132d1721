"""Shell commands that people ask for beside the conversation: under the rules of the tool `bash`, and no part of it."""

from __future__ import annotations

import pytest
import trio

from aar.errors import QueueFull, SessionError, ToolError
from aar.hooks import Block, Hooks
from aar.messages.events import AgentState, ApprovalRequested, ApprovalResolved, Notice
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of

FREE = {"require_approval_for_execute": False, "allowed_paths": []}


def settings(safety: dict | None = None, **fields) -> AgentConfig:
    return AgentConfig(safety=FREE if safety is None else safety, **fields)


async def test_what_a_command_says_goes_to_who_asked_and_not_into_the_conversation(live, tmp_path) -> None:
    provider = ScriptedProvider().text("ok")
    async with live(provider, settings()) as session:
        assert await session.run_shell("echo hello; pwd; exit 3") == f"hello\n{tmp_path}/project\n\nExit code: 3"
        assert [(type(fact), fact.text) for fact in facts_of(session, after=1)] == [
            (Notice, "Running beside the conversation: echo hello; pwd; exit 3")
        ]
        await session.prompt("hi")
        assert [message["content"] for message in provider.requests[0].messages] == ["hi"]


@pytest.mark.covers("AURA-45")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        (settings(tools={"enabled_builtins": ["read_file"]}), r"\[unknown_tool\]"),
        (settings(tools={"filters": {"mode": ["!bash"]}}), r"\[unknown_tool\]"),
        (settings({**FREE, "read_only": True}), r"\[blocked\]"),
        (settings({**FREE, "deny": ["bash:touch*"]}), r"\[blocked\]"),
        (settings({}), r"\[denied\].*nobody is there"),
    ],
)
async def test_what_is_denied_to_the_model_is_denied_here(live, tmp_path, config, words: str) -> None:
    async with live(ScriptedProvider(), config) as session:
        with pytest.raises(ToolError, match=words):
            await session.run_shell("touch ./made")
        assert not (tmp_path / "project" / "made").exists()


async def test_a_guard_of_tool_calls_guards_this_one(live) -> None:
    async def no(call):
        return Block(f"not {call.arguments['command']}")

    async with live(ScriptedProvider(), settings(), hooks=Hooks(before_tool_call=(no,))) as session:
        with pytest.raises(ToolError, match="not ls"):
            await session.run_shell("ls")


@pytest.mark.covers("AURA-45")
async def test_it_is_asked_about_as_the_model_would_be(live, until) -> None:
    async with live(ScriptedProvider(), settings({})) as session, session.attend():
        said: list[str] = []

        async def ask() -> None:
            said.append(await session.run_shell("echo yes"))

        async with trio.open_nursery() as asking:
            asking.start_soon(ask)
            question = (await until(session, ApprovalRequested)).event
            assert (await session.status()).state is AgentState.IDLE
            assert question.arguments == {"command": "echo yes"}
            assert await session.decide(question.tool_call_id, "allow_always")
            await until(session, Notice)
        assert await session.run_shell("echo yes") == "yes\n"  # what holds for the session holds here
        assert said == ["yes\n"]


async def test_a_turn_that_comes_and_goes_leaves_its_question_open(live, until) -> None:
    """Somebody else may say something meanwhile: the command still waits for an answer, which has to be seen."""
    async with live(ScriptedProvider().text("hi"), settings({})) as session, session.attend():
        said: list[str] = []

        async def ask() -> None:
            said.append(await session.run_shell("echo yes"))

        async with trio.open_nursery() as asking:
            asking.start_soon(ask)
            question = (await until(session, ApprovalRequested)).event
            await session.prompt("go")
            assert not [fact for fact in facts_of(session) if isinstance(fact, ApprovalResolved)]
            assert await session.decide(question.tool_call_id, "allow")
        assert said == ["yes\n"]


async def test_a_question_is_taken_back_when_its_asker_leaves(live, until) -> None:
    async with live(ScriptedProvider(), settings({})) as session, session.attend():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run_shell, "echo yes")
            await until(session, ApprovalRequested)
            nursery.cancel_scope.cancel()
        assert (await until(session, ApprovalResolved)).event.decision == "withdrawn"


async def test_a_command_ends_when_its_asker_leaves(live, tmp_path) -> None:
    async with live(ScriptedProvider(), settings()) as session:
        with trio.move_on_after(0.3) as left:
            await session.run_shell("sleep 30")
        assert left.cancelled_caught
        assert await session.run_shell("echo again") == "again\n"


async def test_commands_wait_for_the_end_of_a_turn(live) -> None:
    provider = ScriptedProvider().hang()
    async with live(provider, settings()) as session, session.running("go"):
        await provider.reached(1)
        with pytest.raises(SessionError, match="a turn is running"):
            await session.run_shell("ls")


async def test_only_so_many_run_at_once(live, until) -> None:
    async with live(ScriptedProvider(), settings({})) as session, session.attend(), trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(session.run_shell, "ls")
        await until(session, ApprovalRequested, times=4)
        with pytest.raises(QueueFull, match="4 commands run already"):
            await session.run_shell("ls")
        nursery.cancel_scope.cancel()
