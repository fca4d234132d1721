"""Questions to people: when they are asked, who may answer, what an answer holds for."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from aar.messages.events import AgentState, ApprovalRequested, ToolCall, ToolResult, ToolStarted
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.testing import ScriptedAnswer, ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolContext, ToolRegistry, tool

NOBODY = "Error [denied]: this call needs an approval and nobody is there to give it"
DENIED = "Error [denied]: tool call denied by user"


def safe(**fields) -> AgentConfig:
    return AgentConfig(safety=SafetyConfig(**fields))


def bash(*commands: str) -> ScriptedProvider:
    provider = ScriptedProvider()
    for command in commands:
        provider.call("bash", command=command)
    return provider.text("done")


def results(session) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


def asked(session) -> list[str]:
    return [event.tool_call_id for event in facts_of(session) if isinstance(event, ApprovalRequested)]


@asynccontextmanager
async def answering(session, *decisions: str):
    """Somebody attends and answers one question after the other; the last answer serves for all that follow."""
    left = list(decisions)

    async def answer() -> None:
        with session.follow(after=session.seq) as records:
            async for record in records:
                if isinstance(record.event, ApprovalRequested):
                    await session.decide(record.event.tool_call_id, left.pop(0) if len(left) > 1 else left[0])

    async with session.attend(), trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        yield
        nursery.cancel_scope.cancel()


# --- what is asked ----------------------------------------------------------------------------


@pytest.mark.covers("SAFE-01")
async def test_read_only_sessions_neither_write_nor_execute_and_ask_nobody(live) -> None:
    provider = ScriptedProvider().calls(
        ("write_file", {"path": "a", "content": "x"}), ("bash", {"command": "ls"}), ("list_directory", {})
    )
    async with live(provider.text("x"), safe(read_only=True)) as session:
        async with answering(session, "allow"):
            await session.prompt("go")
        first, second, third = results(session)
        assert first.startswith("Error [blocked]: blocked by safety policy")
        assert second.startswith("Error [blocked]: blocked by safety policy")
        assert not third.startswith("Error")
        assert asked(session) == []


@pytest.mark.covers("SAFE-02")
async def test_a_denied_path_is_denied_whoever_approves(live, tmp_path) -> None:
    calls = ("read_file", {"path": ".env"}), ("write_file", {"path": ".env", "content": ""})
    async with live(ScriptedProvider().calls(*calls).text("x")) as session:
        (tmp_path / "project" / ".env").write_text("KEY=1")
        await session.auto_approve("write_file")
        async with answering(session, "allow"):
            await session.prompt("go")
        assert [output.startswith("Error [blocked]: ") for output in results(session)] == [True, True]
        assert asked(session) == []
        assert (tmp_path / "project" / ".env").read_text() == "KEY=1"


@pytest.mark.covers("SAFE-07", "SAFE-20")
async def test_writes_and_commands_are_asked_about_and_reads_inside_the_folder_are_not(live, tmp_path) -> None:
    provider = ScriptedProvider().calls(
        ("write_file", {"path": "a", "content": "x"}),
        ("bash", {"command": "echo hi"}),
        ("list_directory", {"path": "."}),
        ("read_file", {"path": str(tmp_path / "outside.txt")}),
    )
    (tmp_path / "outside.txt").write_text("x")
    async with live(provider.text("x")) as session:
        async with answering(session, "allow"):
            await session.prompt("go")
        assert sorted(asked(session)) == ["call_1", "call_2"]
        written, ran, _, outside = results(session)
        assert not written.startswith("Error")
        assert ran == "hi\n"
        assert outside.startswith("Error [blocked]: ")


@pytest.mark.covers("TOOL-39")
async def test_a_tool_that_wants_to_be_asked_about_always_is(live) -> None:
    tools = ToolRegistry()
    tools.register("look", side_effects=["read"], requires_approval=True)(lambda: "seen")
    provider = ScriptedProvider().call("look").text("x")
    config = safe(require_approval_for_writes=False, require_approval_for_execute=False)
    async with live(provider, config, tools=tools) as session:
        async with answering(session, "allow"):
            await session.prompt("go")
        assert asked(session) == ["call_1"]
        assert results(session) == ["seen"]


@pytest.mark.covers("SAFE-21")
@pytest.mark.parametrize("effect", ["external", "network"])
async def test_tools_that_reach_outside_are_asked_about_and_denied_in_read_only(live, effect) -> None:
    tools = ToolRegistry()
    tools.register("reach", side_effects=[effect])(lambda: "reached")
    async with live(ScriptedProvider().call("reach").text("x"), tools=tools) as session:
        async with answering(session, "allow"):
            await session.prompt("go")
        assert asked(session) == ["call_1"]
        assert results(session) == ["reached"]
    async with live(ScriptedProvider().call("reach").text("x"), safe(read_only=True), tools=tools) as session:
        async with answering(session, "allow"):
            await session.prompt("go")
        assert asked(session) == []
        assert results(session)[0].startswith("Error [blocked]: ")


async def test_the_facts_of_a_question_come_in_their_order(live, story) -> None:
    states = []
    async with live(bash("echo hi")) as session:
        async with session.attend(), trio.open_nursery() as nursery:

            async def answer() -> None:
                with session.follow() as records:
                    async for record in records:
                        if isinstance(record.event, ApprovalRequested):
                            states.append((await session.status()).state)
                            await session.decide(record.event.tool_call_id, "allow")
                            return

            nursery.start_soon(answer)
            await session.prompt("go")
        assert story(session)[3:-3] == [
            "tool_call call_1 bash",
            "assistant tool_use: ",
            "approval_requested call_1",
            "approval_resolved call_1: allow once by client",
            "tool_started call_1",
            "tool_result call_1 ok: hi\n",
        ]
        question = next(event for event in facts_of(session) if isinstance(event, ApprovalRequested))
        assert (question.tool_name, question.arguments) == ("bash", {"command": "echo hi"})
        assert question.reason == "commands need approval"
    assert states == [AgentState.WAITING_FOR_INPUT]


# --- who answers ------------------------------------------------------------------------------


@pytest.mark.covers("SAFE-18")
async def test_with_nobody_there_the_answer_is_no_at_once(live, story) -> None:
    async with live(bash("touch made")) as session:
        with trio.fail_after(5):
            await session.prompt("go")
        assert results(session) == [NOBODY]
        assert "approval_resolved call_1: deny once by nobody" in story(session)
        assert not any(isinstance(event, ToolStarted) for event in facts_of(session))


@pytest.mark.covers("SAFE-14")
@pytest.mark.parametrize(
    ("decision", "output", "resolved"),
    [
        ("allow", "hi\n", "allow once"),
        ("allow_always", "hi\n", "allow session"),
        ("deny", DENIED, "deny once"),
        ("deny_always", DENIED, "deny session"),
    ],
)
async def test_an_answer_does_what_it_says(live, story, decision, output, resolved) -> None:
    async with live(bash("echo hi", "echo hi")) as session:
        async with answering(session, decision):
            await session.prompt("go")
        assert results(session) == [output] * 2
        assert asked(session) == (["call_1"] if decision.endswith("always") else ["call_1", "call_2"])
        assert f"approval_resolved call_1: {resolved} by client" in story(session)


async def test_the_first_answer_counts(live, until) -> None:
    async with live(bash("echo hi")) as session, session.attend(), session.attend():
        async with session.running("go") as (_, ended):
            await until(session, ApprovalRequested)
            answers = []

            async def decide(decision) -> None:
                answers.append((decision, await session.decide("call_1", decision)))

            async with trio.open_nursery() as nursery:
                for decision in ("allow", "deny"):
                    nursery.start_soon(decide, decision)
            await ended()
        (won,) = [decision for decision, counted in answers if counted]
        assert results(session) == ["hi\n" if won == "allow" else DENIED]
        assert await session.decide("call_1", "allow") is False
        assert await session.decide("call_9", "allow") is False


async def test_a_question_waits_as_long_as_one_of_those_who_attend_is_there(live, until) -> None:
    async with live(bash("echo hi")) as session, session.attend():
        async with session.running("go") as (_, ended):
            async with session.attend():
                await until(session, ApprovalRequested)
            await trio.testing.wait_all_tasks_blocked()
            assert await session.decide("call_1", "allow")
            await ended()
        assert results(session) == ["hi\n"]


async def test_when_the_last_one_leaves_the_answer_is_no(live, until, story) -> None:
    async with live(bash("echo hi")) as session:
        async with session.running("go") as (_, ended):
            async with session.attend():
                await until(session, ApprovalRequested)
            with trio.fail_after(5):
                await ended()
        assert results(session) == [NOBODY]
        assert "approval_resolved call_1: deny once by nobody" in story(session)


async def test_a_question_nobody_answers_in_time_is_a_no(live, story, autojump_clock) -> None:
    tools = ToolRegistry()
    tools.register("write", side_effects=["write"])(lambda: "x")
    provider = ScriptedProvider().call("write").text("x")
    async with live(provider, safe(acp_approval_timeout=30.0), tools=tools) as session, session.attend():
        started = trio.current_time()
        await session.prompt("go")
        assert 30 <= trio.current_time() - started < 31
        assert results(session) == ["Error [denied]: this call needs an approval and nobody gave it in time"]
        assert "approval_resolved call_1: deny once by timeout" in story(session)


async def test_waiting_for_an_answer_does_not_count_as_the_tools_time(live, until, autojump_clock) -> None:
    tools = ToolRegistry()

    @tools.register("write", side_effects=["write"])
    async def write() -> str:
        await trio.sleep(1)
        return "x"

    provider = ScriptedProvider().call("write").text("x")
    config = AgentConfig(tools={"command_timeout": 2})
    async with live(provider, config, tools=tools) as session, session.attend():
        async with session.running("go") as (_, ended):
            await until(session, ApprovalRequested)
            await trio.sleep(1000)
            await session.decide("call_1", "allow")
            await ended()
        (result,) = [event for event in facts_of(session) if isinstance(event, ToolResult)]
        assert result.output == "x"
        assert 1000 <= result.duration_ms < 1100


# --- one at a time ----------------------------------------------------------------------------


@pytest.mark.covers("TOOL-40")
async def test_questions_of_one_step_never_overlap(live, story, autojump_clock) -> None:
    tools = ToolRegistry()
    tools.register("write", side_effects=["write"], requires_approval=True)(lambda name: name)
    provider = ScriptedProvider().calls(*(("write", {"name": str(number)}) for number in range(5))).text("x")
    async with live(provider, tools=tools) as session:
        async with session.attend(), trio.open_nursery() as nursery:

            async def answer() -> None:
                with session.follow(after=1) as records:
                    async for record in records:
                        if isinstance(record.event, ApprovalRequested):
                            await trio.sleep(10)
                            assert await session.decide(record.event.tool_call_id, "allow")

            nursery.start_soon(answer)
            await session.prompt("go")
            nursery.cancel_scope.cancel()
        kinds = [event.type for event in facts_of(session) if event.type.startswith("approval")]
        assert kinds == ["approval_requested", "approval_resolved"] * 5
        assert results(session) == list("01234")


async def test_always_said_to_the_first_of_a_step_settles_the_others(live) -> None:
    provider = ScriptedProvider().calls(*[("bash", {"command": "echo hi"})] * 4).text("x")
    async with live(provider) as session:
        async with answering(session, "allow_always"):
            await session.prompt("go")
        assert len(asked(session)) == 1
        assert results(session) == ["hi\n"] * 4


async def test_other_calls_run_while_a_question_waits(live, until) -> None:
    provider = ScriptedProvider().calls(("bash", {"command": "echo hi"}), ("list_directory", {})).text("x")
    async with live(provider) as session, session.attend(), session.running("go") as (_, ended):
        await until(session, ApprovalRequested)
        await until(session, ToolStarted)
        assert [event.tool_call_id for event in facts_of(session) if isinstance(event, ToolStarted)] == ["call_2"]
        await session.decide("call_1", "deny")
        await ended()


# --- what stands ------------------------------------------------------------------------------


@pytest.mark.covers("SAFE-15", "SAFE-16")
async def test_always_holds_for_the_same_call_in_every_prompt_and_for_no_other(live) -> None:
    provider = ScriptedProvider()
    for command in ("echo hi", "echo hi", "echo hi; echo ho"):
        provider.call("bash", command=command).text("x")
    async with live(provider) as session:
        async with answering(session, "allow_always", "deny"):
            for _ in range(3):
                await session.prompt("go")
        assert results(session) == ["hi\n", "hi\n", DENIED]
        assert len(asked(session)) == 2


async def test_always_said_to_a_write_holds_for_the_folder_and_not_outside(live, tmp_path) -> None:
    provider = ScriptedProvider()
    for path in ("a", "sub/b", str(tmp_path / "outside")):
        provider.call("write_file", path=path, content="x")
    async with live(provider.text("x"), safe(allowed_paths=[])) as session:
        async with answering(session, "allow_always", "deny"):
            await session.prompt("go")
        assert len(asked(session)) == 2
        assert results(session)[2] == DENIED


@pytest.mark.covers("SAFE-17")
async def test_a_pattern_allows_what_begins_with_it_and_every_part_must(live) -> None:
    commands = ["git --version", "git --version && ls", "git --version; rm x", "ls"]
    async with live(bash(*commands)) as session:
        await session.auto_approve("bash:git *")
        async with answering(session, "deny"):
            await session.prompt("go")
        assert asked(session) == ["call_2", "call_3", "call_4"]
        assert results(session)[0].startswith("git version")


async def test_a_tool_can_be_allowed_beforehand(live) -> None:
    async with live(bash("echo a", "echo b")) as session:
        await session.auto_approve("bash")
        await session.prompt("go")
        assert asked(session) == []
        assert results(session) == ["a\n", "b\n"]


@pytest.mark.covers("SAFE-19")
@pytest.mark.parametrize("entry", ["bash", "bash:echo *"])
async def test_what_was_allowed_can_be_taken_back(live, entry) -> None:
    provider = ScriptedProvider()
    for _ in range(3):
        provider.call("bash", command="echo hi").text("x")
    async with live(provider) as session:
        async with answering(session, "allow_always", "deny"):
            await session.auto_approve(entry)
            await session.prompt("go")
            await session.revoke("bash")
            await session.prompt("go")
            await session.revoke("bash")
            await session.prompt("go")
        assert asked(session) == ["call_2", "call_3"]
        assert results(session) == ["hi\n", "hi\n", DENIED]


async def test_a_denial_for_good_is_asked_about_again_once_it_is_revoked(live) -> None:
    provider = ScriptedProvider()
    for _ in range(3):
        provider.call("bash", command="echo hi").text("x")
    async with live(provider) as session:
        async with answering(session, "deny_always", "allow"):
            await session.prompt("go")
            await session.prompt("go")
            await session.revoke("bash")
            await session.prompt("go")
        assert results(session) == [DENIED, DENIED, "hi\n"]
        assert len(asked(session)) == 2


async def test_settings_that_change_in_the_middle_of_a_turn_hold_for_the_next_call(live, until) -> None:
    async with live(bash("echo a", "echo b", "echo c")) as session, session.attend():
        async with session.running("go") as (_, ended):
            await until(session, ApprovalRequested)
            await session.configure({"safety": {"require_approval_for_execute": False, "allowed_paths": []}})
            await session.decide("call_1", "allow")
            await ended()
        assert asked(session) == ["call_1"]
        assert results(session) == ["a\n", "b\n", "c\n"]


async def test_read_only_that_comes_in_the_middle_of_a_turn_holds_at_once(live, until) -> None:
    async with live(bash("echo a", "echo b")) as session, session.attend():
        async with session.running("go") as (_, ended):
            await until(session, ApprovalRequested)
            await session.configure({"safety": {"read_only": True}})
            await session.decide("call_1", "allow")
            await ended()
        assert ["[blocked]" in result for result in results(session)] == [True, True]
        assert not any(isinstance(event, ToolStarted) for event in facts_of(session))


async def test_a_tool_that_is_taken_away_while_somebody_thinks_does_not_run(live, until) -> None:
    async with live(bash("echo a")) as session, session.attend():
        async with session.running("go") as (_, ended):
            await until(session, ApprovalRequested)
            await session.configure({"tools": {"filters": {"mode": ["read_file"]}}})
            await session.decide("call_1", "allow")
            await ended()
        assert results(session) == ["Error [blocked]: tool 'bash' is not offered any more"]


async def test_a_call_runs_within_the_walls_that_it_was_let_through_with(live, until, tmp_path) -> None:
    began, changed = trio.Event(), trio.Event()

    @tool(side_effects=["execute"])
    async def later(ctx: ToolContext) -> str:
        """Run a command when the settings have changed."""
        began.set()
        await changed.wait()
        return str((await ctx.run_command(f"touch {tmp_path}/outside", 60)).exit_code)

    tools = ToolRegistry()
    tools.add(later)
    settings = safe(require_approval_for_execute=False, sandbox={"mode": "linux"})
    async with live(ScriptedProvider().call("later").text("done"), settings, tools=tools) as session:
        async with session.running("go") as (_, ended):
            with trio.fail_after(10):
                await began.wait()
            await session.configure({"safety": {"sandbox": {"mode": "local"}}})
            changed.set()
            await ended()
        assert asked(session) == []
        assert results(session) == ["1"]
    assert not (tmp_path / "outside").exists()


async def test_questions_of_two_sessions_do_not_mix(live, tmp_path) -> None:
    provider = ScriptedProvider().reply(_ask_once).forever()
    async with open_test_runtime(provider, home=tmp_path) as runtime:
        one, two = [await runtime.sessions.open(str(tmp_path)) for _ in range(2)]
        async with answering(one, "allow"), answering(two, "deny"), trio.open_nursery() as nursery:
            nursery.start_soon(one.prompt, "go")
            await two.prompt("go")
        assert results(one) == ["hi\n"]
        assert results(two) == [DENIED]


def _ask_once(request):
    if isinstance(request.messages[-1]["content"], str):
        return ScriptedAnswer(calls=(ToolCall(tool_name="bash", tool_call_id="x", arguments={"command": "echo hi"}),))
    return "done"
