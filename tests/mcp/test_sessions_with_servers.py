"""Sessions that use MCP servers: real processes, real pipes, a scripted model."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
import trio

import aar
from aar.errors import McpError
from aar.messages.events import Notice, ToolOutput, ToolResult, TurnEnded
from aar.messages.mcp import McpServer, McpTool
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.testing import ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import tool


def results_of(session) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


def notices_of(session) -> list[str]:
    return [event.text for event in facts_of(session) if isinstance(event, Notice)]


def tools_of(request) -> list[str]:
    return [tool.name for tool in request.tools or ()]


async def told(session, words: str) -> str:
    """The first notice with these words, which may still have to come."""
    with session.follow(after=0) as records:
        async for record in records:
            if isinstance(record.event, Notice) and words in record.event.text:
                return record.event.text
    raise AssertionError("the session was closed")


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- tools ------------------------------------------------------------------------------------


@pytest.mark.covers("MCP-01", "TOOL-12")
async def test_the_tools_of_a_server_are_there_in_the_first_turn_and_can_be_called(using, plain) -> None:
    provider = ScriptedProvider().call("echo", a=1).text("done")
    async with using(provider, plain(tools=["echo"])) as session:
        await session.prompt("go")
        assert tools_of(provider.requests[0]) == ["echo"]
        assert results_of(session) == ['{"a": 1}']
        assert notices_of(session) == []


async def test_arguments_may_have_any_names(using, plain) -> None:
    arguments = {"ctx": 1, "self": 2, "handler": 3, "not a name": 4, "arguments": {"deep": [None]}, "ü": "\n"}
    async with using(ScriptedProvider().call("echo", **arguments).text("done"), plain()) as session:
        await session.prompt("go")
        assert [json.loads(result) for result in results_of(session)] == [arguments]


async def test_a_server_that_lists_in_pages_is_read_to_the_end(using, plain) -> None:
    names = [f"tool_{number}" for number in range(7)]
    async with using(ScriptedProvider(), plain(tools=names, page=3)) as session:
        (status,) = await session.mcp_servers(wait=True)
        assert [tool.name for tool in status.tools] == names


@pytest.mark.covers("MCP-05")
async def test_a_prefix_that_was_asked_for_stands_before_every_tool(using, plain) -> None:
    provider = ScriptedProvider().call("web__echo").text("done")
    async with using(provider, plain("web", tools=["echo", "pid"], prefix=True)) as session:
        await session.prompt("go")
        assert tools_of(provider.requests[0]) == ["web__echo", "web__pid"]
        assert results_of(session) == ["{}"]
        assert notices_of(session) == []


@pytest.mark.covers("MCP-06", "TOOL-12")
async def test_a_name_that_is_taken_gets_the_prefix_of_its_server_and_that_is_told(using, plain) -> None:
    @tool
    def echo() -> str:
        return "I was here first"

    provider = ScriptedProvider().calls(("echo", {}), ("one__echo", {}), ("two__echo", {})).text("done")
    async with using(provider, plain("one", tools=["echo"]), plain("two", tools=["echo"]), tools=[echo]) as session:
        await session.prompt("go")
        assert tools_of(provider.requests[0]) == ["echo", "one__echo", "two__echo"]
        assert results_of(session) == ["I was here first", "{}", "{}"]
        assert notices_of(session) == [
            f"There is another tool named 'echo': that of MCP server {name!r} is '{name}__echo'."
            for name in ("one", "two")
        ]


async def test_the_server_that_was_named_first_keeps_the_plain_name_however_fast_the_others_are(using, plain) -> None:
    slow = plain("slow", tools=["echo"], floods=50_000)
    async with using(ScriptedProvider(), slow, plain("fast", tools=["echo"])) as session:
        statuses = await session.mcp_servers(wait=True)
        assert [tool.name for status in statuses for tool in status.tools] == ["echo", "fast__echo"]


@pytest.mark.covers("MCP-09")
async def test_a_tool_that_says_it_failed_is_a_failed_call_with_its_own_words(using, plain) -> None:
    async with using(ScriptedProvider().call("fail").text("done"), plain()) as session:
        await session.prompt("go")
        (result,) = [event for event in facts_of(session) if isinstance(event, ToolResult)]
        assert (result.output, result.is_error) == ("that did not work", True)


async def test_a_long_result_is_cut_as_that_of_any_tool(using, plain) -> None:
    config = AgentConfig(
        tools={"enabled_builtins": [], "max_output_chars": 100},
        safety=SafetyConfig(require_approval_for_execute=False),
    )
    provider = ScriptedProvider().calls(("big", {"size": 100}), ("big", {"size": 3_000_000})).text("done")
    async with using(provider, plain(), config=config) as session:
        await session.prompt("go")
        assert results_of(session) == ["x" * 100, "x" * 100 + "\n... (truncated)"]


async def test_what_a_server_tells_during_a_call_is_live_output(using, plain) -> None:
    async with using(ScriptedProvider().call("hang"), plain()) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "go")
        said = ""
        with session.follow(after=0) as records:
            async for record in records:
                if isinstance(record.event, ToolOutput):
                    said += record.event.text
                if len(said) >= 26:
                    break
        assert said == "step 1 (1/2)\nstep 2 (2/2)\n"
        await session.cancel()


# --- what it gets -----------------------------------------------------------------------------


@pytest.mark.covers("MCP-16")
async def test_a_server_gets_its_own_variables_but_no_keys_to_models(using, plain, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("MY_SETTING", "mine")
    names = ["OWN", "OPENAI_API_KEY", "MY_SETTING", "ANTHROPIC_API_KEY"]
    provider = ScriptedProvider().calls(*[("variable", {"name": name}) for name in names]).text("done")
    async with using(provider, plain(env={"OWN": "o", "ANTHROPIC_API_KEY": "meant"})) as session:
        await session.prompt("go")
        assert results_of(session) == ["o", "(unset)", "mine", "meant"]


async def test_a_server_works_in_the_folder_of_the_session_and_is_told_so(using, plain, tmp_path) -> None:
    provider = ScriptedProvider().calls(("folder", {}), ("roots", {})).call("ping_back").text("done")
    async with using(provider, plain()) as session:
        await session.prompt("go")
        folder, roots, pong = results_of(session)
        assert pong == "{}"
        assert folder == str(tmp_path / "project")
        assert json.loads(roots) == {"roots": [{"uri": (tmp_path / "project").as_uri(), "name": "project"}]}


async def test_a_server_that_asks_the_user_something_is_refused_and_goes_on(using, plain) -> None:
    async with using(ScriptedProvider().call("ask").text("done"), plain()) as session:
        await session.prompt("go")
        assert "not supported" in results_of(session)[0]


# --- permission -------------------------------------------------------------------------------


@pytest.mark.covers("SAFE-21")
async def test_a_servers_tool_asks_and_without_anybody_to_answer_it_is_denied(using, plain) -> None:
    provider = ScriptedProvider().calls(("echo", {}), ("read_it", {})).text("done")
    async with using(provider, plain(tools=["echo", "read_it"]), config=AgentConfig()) as session:
        await session.prompt("go")
        assert results_of(session) == ["Error [denied]: this call needs an approval and nobody is there to give it"] * 2


@pytest.mark.covers("SAFE-21")
@pytest.mark.parametrize(
    ("trust", "answer"), [(False, "Error [blocked]: blocked by safety policy: read-only mode"), (True, "{}")]
)
async def test_in_read_only_mode_only_tools_of_trusted_servers_that_say_they_read_may_run(
    using, plain, trust, answer
) -> None:
    provider = ScriptedProvider().calls(("echo", {}), ("read_it", {})).text("done")
    config = AgentConfig(
        tools={"enabled_builtins": []}, safety=SafetyConfig(read_only=True, require_approval_for_execute=False)
    )
    async with using(provider, plain(tools=["echo", "read_it"], trust=trust), config=config) as session:
        await session.prompt("go")
        assert results_of(session) == ["Error [blocked]: blocked by safety policy: read-only mode", answer]


@pytest.mark.covers("SAFE-21")
async def test_what_a_server_says_of_itself_opens_no_protected_place(using, plain) -> None:
    provider = ScriptedProvider().calls(("read_it", {"path": ".git/config"})).text("done")
    async with using(provider, plain(tools=["read_it"])) as session:
        await session.prompt("go")
        assert results_of(session)[0].startswith("Error [blocked]: ")


# --- lifetimes --------------------------------------------------------------------------------


@pytest.mark.covers("MCP-07")
async def test_one_process_serves_all_turns_and_all_sessions_of_a_folder(plain, tmp_path) -> None:
    provider = ScriptedProvider()
    for _ in range(4):
        provider.call("pid").text("done")
    config = AgentConfig(tools={"enabled_builtins": []}, safety=SafetyConfig(require_approval_for_execute=False))
    async with open_test_runtime(provider, config, home=tmp_path) as runtime:
        one, two, elsewhere = [
            await runtime.sessions.open(folder, mcp_servers=[plain(tools=["pid"])])
            for folder in (str(tmp_path), str(tmp_path), "/")
        ]
        for session in (one, one, two, elsewhere):
            await session.prompt("go")
        first, second = results_of(one)
        assert first == second == results_of(two)[0] != results_of(elsewhere)[0]
        await runtime.sessions.close(one.session_id)
        assert is_running(first)
        stopped = runtime.registry.find("mcp:1:plain")
        await runtime.sessions.close(two.session_id)
        while stopped in [runtime.registry.find(name) for name in runtime.registry.names()]:
            await trio.lowlevel.checkpoint()
        assert not is_running(first)
        assert is_running(results_of(elsewhere)[0])


@pytest.mark.covers("MCP-15")
async def test_a_server_is_told_the_end_of_its_input_and_may_leave_by_itself(using, plain, tmp_path) -> None:
    notes = tmp_path / "notes"
    async with using(ScriptedProvider(), plain(notes=str(notes))) as session:
        await session.mcp_servers(wait=True)
    assert notes.read_text().splitlines()[-1] == "end of input"


@pytest.mark.covers("MCP-15")
async def test_nothing_is_left_of_servers_that_want_to_stay(using, plain, tmp_path) -> None:
    notes = tmp_path / "notes"
    provider = ScriptedProvider().call("grandchild").text("done")
    stubborn = plain("stubborn", notes=str(notes), ignores_eof=True, ignores_term=True)
    async with using(provider, stubborn, plain("also", ignores_eof=True)) as session:
        await session.prompt("go")
        (grandchild,) = results_of(session)
        server = notes.read_text().split()[1]
        assert is_running(server)
        assert is_running(grandchild)
    assert not is_running(server)
    assert not is_running(grandchild)


async def test_the_end_of_everything_does_not_wait_for_a_server_that_is_being_started(using, plain) -> None:
    with trio.fail_after(10):
        async with using(ScriptedProvider(), plain(hangs=True)):
            pass


# --- trouble ----------------------------------------------------------------------------------


@pytest.mark.covers("MCP-10")
async def test_one_server_that_cannot_start_does_not_stop_the_others(using, plain) -> None:
    provider = ScriptedProvider().call("echo").text("done")
    broken = plain("broken", exits=7, says="no license found")
    missing = McpServer(name="missing", command="there-is-no-such-program")
    async with using(provider, broken, missing, plain()) as session:
        await session.prompt("go")
        assert results_of(session) == ["{}"]
        assert sorted(notices_of(session)) == [
            "MCP server 'broken' could not be connected: it ended with status 7. Its last words: no license found.",
            "MCP server 'missing' could not be connected: the command 'there-is-no-such-program' was not found.",
        ]
        statuses = {status.name: status.state for status in await session.mcp_servers()}
        assert statuses == {"broken": "failed", "missing": "failed", "plain": "connected"}


@pytest.mark.covers("MCP-11")
async def test_a_server_that_never_answers_is_reported_and_a_turn_waits_only_a_moment_for_it(
    using, plain, autojump_clock
) -> None:
    async with using(ScriptedProvider().text("done"), plain("silent", hangs=True)) as session:
        began = trio.current_time()
        await session.prompt("go")
        assert trio.current_time() - began == pytest.approx(10, abs=0.5)
        assert await told(session, "silent") == (
            "MCP server 'silent' could not be connected: it did not answer within 15 s."
        )
        again = trio.current_time()
        await session.prompt("and again")
        assert trio.current_time() - again < 0.5


@pytest.mark.covers("MCP-12")
async def test_a_crash_in_a_call_is_the_result_of_that_call_and_the_next_call_finds_the_server_again(
    using, plain
) -> None:
    provider = ScriptedProvider().call("crash").call("echo", a=1).text("done")
    async with using(provider, plain(tools=["crash", "echo"])) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert results_of(session) == [
            "Error [exception]: McpUnavailable: MCP server 'plain' was lost: it ended with status 3. It is tried again"
            " by itself",
            '{"a": 1}',
        ]
        assert notices_of(session) == [
            "MCP server 'plain' was lost: it ended with status 3. Its last words: I am about to fall over.",
            "MCP server 'plain' is connected now.",
        ]
        assert [tools_of(request) for request in provider.requests] == [["crash", "echo"]] * 3


@pytest.mark.covers("MCP-12")
async def test_a_server_that_dies_while_nobody_uses_it_is_noticed_at_once_and_started_again(using, plain) -> None:
    provider = ScriptedProvider().call("pid").text("done").call("pid").text("done")
    async with using(provider, plain(tools=["pid"])) as session:
        await session.prompt("go")
        (first,) = results_of(session)
        os.kill(int(first), signal.SIGKILL)
        assert await told(session, "was lost") == "MCP server 'plain' was lost: it ended with status -9."
        await told(session, "is connected now")
        await session.prompt("go")
        assert results_of(session)[1] != first


async def test_a_cancelled_call_is_cancelled_on_the_server_which_goes_on(using, plain, tmp_path, until) -> None:
    notes = tmp_path / "notes"
    provider = ScriptedProvider().call("hang").call("pid").text("done")
    async with using(provider, plain(tools=["hang", "pid"], notes=str(notes))) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            await until(session, ToolOutput)
            await session.cancel()
        await session.prompt("and now?")
        assert is_running(results_of(session)[1])
    methods = [json.loads(line).get("method") for line in notes.read_text().splitlines() if line.startswith("{")]
    assert methods[-3:] == ["tools/call", "notifications/cancelled", "tools/call"]


async def test_a_server_that_reads_nothing_any_more_does_not_delay_a_cancel(using, plain, until) -> None:
    provider = ScriptedProvider().call("deaf", padding="x" * 1000)
    provider.calls(*[("deaf", {"padding": "x" * 100_000})] * 8).text("done")
    async with using(provider, plain(tools=["deaf"])) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "go")
        await until(session, ToolOutput)
        with trio.fail_after(2):
            await session.cancel()
            await until(session, TurnEnded)


async def test_what_is_no_message_is_passed_over_and_standard_error_cannot_block_a_server(using, plain) -> None:
    noisy = plain(garbage=["hello", "", "{", "[]", '{"id": "nobody"}', '{"jsonrpc": "2.0"}', "\x00"], floods=20_000)
    async with using(ScriptedProvider().call("echo").text("done"), noisy) as session:
        await session.mcp_servers(wait=True)
        await session.prompt("go")
        assert results_of(session) == ["{}"]


async def test_an_answer_that_is_none_fails_its_call_and_no_other(using, plain) -> None:
    provider = ScriptedProvider().calls(("nonsense", {}), ("echo", {})).text("done")
    async with using(provider, plain(tools=["nonsense", "echo"])) as session:
        await session.prompt("go")
        assert results_of(session) == [
            "Error [exception]: McpError: MCP server 'plain': the server's answer is no proper JSON-RPC",
            "{}",
        ]


async def test_a_server_that_asks_and_does_not_read_the_answers_is_let_go(using, plain) -> None:
    provider = ScriptedProvider().call("swamp").call("echo").text("done")
    async with using(provider, plain()) as session:
        await session.prompt("go")
        swamped, echoed = results_of(session)
        assert "was lost: it does not read what it is told" in swamped
        assert echoed == "{}"


async def test_a_server_that_does_not_survive_the_newest_protocol_is_asked_in_the_old_way(using, plain) -> None:
    provider = ScriptedProvider().call("echo").text("done")
    async with using(provider, plain(falls_over=True)) as session:
        await told(session, "is connected now")
        await session.prompt("go")
        assert results_of(session) == ["{}"]
        assert notices_of(session)[0] == "MCP server 'plain' could not be connected: it ended with status 4."


async def test_without_the_package_the_session_works_and_says_what_to_install(using, plain, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with using(ScriptedProvider().text("done"), plain()) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert notices_of(session) == [
            "MCP server 'plain' could not be connected: MCP servers need a package that is not there:"
            " pip install 'aar-agent[mcp]'."
        ]


# --- changes ----------------------------------------------------------------------------------


async def test_tools_that_come_and_go_are_followed_and_told(using, plain) -> None:
    provider = ScriptedProvider().call("change", tools=["change", "new"]).text("done").text("done")
    async with using(provider, plain(tools=["change", "echo"])) as session:
        await session.prompt("go")
        assert await told(session, "others now") == (
            "The tools of MCP server 'plain' are others now; added: new; removed: echo."
        )
        await session.prompt("and now?")
        assert [tools_of(request) for request in (provider.requests[0], provider.requests[-1])] == [
            ["change", "echo"],
            ["change", "new"],
        ]


async def test_the_system_prompt_does_not_name_the_tools_of_servers(using, plain) -> None:
    provider = ScriptedProvider().call("change", tools=["change", "new"]).text("done").text("done")
    async with using(provider, plain(tools=["change"])) as session:
        await session.prompt("go")
        await told(session, "others now")
        await session.prompt("and now?")
        assert len({request.system for request in provider.requests}) == 1


# --- through the library ----------------------------------------------------------------------


async def test_clients_see_what_servers_offer_and_what_became_of_them(using, plain) -> None:
    missing = McpServer(name="missing", command="there-is-no-such-program")
    async with using(ScriptedProvider(), plain(tools=["read_it"], prefix=True, trust=True), missing) as session:
        found, lost = await session.mcp_servers(wait=True)
        schema = {"type": "object", "properties": {}}
        assert found.tools == (
            McpTool(name="plain__read_it", description="Does read_it.", input_schema=schema, is_read_only=True),
        )
        assert (found.state, lost.state, lost.tools) == ("connected", "failed", ())
        assert await session.mcp_resources("plain") == ()
        with pytest.raises(McpError, match="no MCP server named 'x'; it has: plain, missing"):
            await session.mcp_resources("x")
        with pytest.raises(McpError, match="the command 'there-is-no-such-program' was not found"):
            await session.mcp_prompts("missing")


async def test_an_agent_has_servers_of_its_own(plain, tmp_path) -> None:
    provider = ScriptedProvider().call("echo", a=1).text("done")
    config = AgentConfig(tools={"enabled_builtins": []}, safety=SafetyConfig(require_approval_for_execute=False))
    agent = aar.Agent(config, provider, cwd=tmp_path, home=tmp_path, mcp_servers=[plain()])
    session = await agent.run("go")
    assert [event.output for event in session.events if isinstance(event, ToolResult)] == ['{"a": 1}']


async def test_a_service_that_was_given_up_is_told_and_its_tools_say_so(plain, tmp_path) -> None:
    provider = ScriptedProvider().call("echo").text("done")
    config = AgentConfig(tools={"enabled_builtins": []}, safety=SafetyConfig(require_approval_for_execute=False))
    async with open_test_runtime(provider, config, home=tmp_path) as runtime:
        session = await runtime.sessions.open("/", mcp_servers=[plain(tools=["echo"])])
        await session.mcp_servers(wait=True)
        await runtime.supervisor.stop("mcp:1:plain")
        assert await told(session, "was lost") == "MCP server 'plain' was lost: mcp:1:plain is stopped."
        await session.prompt("go")
        assert results_of(session) == ["Error [exception]: McpUnavailable: MCP server 'plain' does not run any more"]
