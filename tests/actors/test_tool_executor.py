"""The tool calls of a step: admitted, run side by side, cut, timed, hooked; and a result for every one."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

import pytest
import trio
import trio.testing

from aar.actors.tool_executor import MAX_AT_ONCE, MAX_CALLS
from aar.hooks import Block, Hooks
from aar.messages.events import Notice, ToolOutput, ToolResult, ToolStarted, TurnEnded
from aar.messages.settings import AgentConfig, ToolConfig
from aar.messages.tools import ToolOutcome
from aar.testing import MemoryStore, ScriptedAnswer, ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolContext, ToolRegistry, ToolSpec


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": ToolConfig(enabled_builtins=[]), **fields})


def calling(*names: str, **arguments) -> ScriptedProvider:
    return ScriptedProvider().calls(*((name, arguments) for name in names)).text("done")


def results(session) -> list[ToolResult]:
    return [event for event in facts_of(session) if isinstance(event, ToolResult)]


@pytest.fixture
def tools() -> ToolRegistry:
    return ToolRegistry()


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.covers("TOOL-03")
@pytest.mark.parametrize(
    ("name", "arguments", "output", "took_time"),
    [
        ("nobody", {}, "Error [unknown_tool]: unknown tool 'nobody'", False),
        ("empty", {}, "Error [no_handler]: tool 'empty' has no handler", False),
        ("add", {"a": "x"}, "Error [invalid_arguments]: invalid arguments for 'add': ", False),
        ("read", {"path": "/etc/shadow"}, "Error [blocked]: blocked by safety policy", False),
        ("write", {}, "Error [denied]: ", False),
        ("slow", {}, "Error [timeout]: tool 'slow' timed out after 7s", True),
        ("fails", {}, "Error [exception]: KeyError: 'what'", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_every_kind_of_failure_has_its_tag(
    live, tools, autojump_clock, name, arguments, output, took_time
) -> None:
    tools.add(ToolSpec(name="empty"))
    tools.register("read", side_effects=["read"])(lambda path: path)
    tools.register("write", side_effects=["write"])(lambda: "written")

    @tools.register("add", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    def add(a: int) -> int:
        return a

    @tools.register("slow")
    async def slow() -> None:
        await trio.sleep_forever()

    @tools.register("fails")
    async def fails() -> None:
        raise KeyError("what")

    provider = ScriptedProvider().call(name, **arguments).text("I see")
    async with live(provider, settings(tools=ToolConfig(enabled_builtins=[], command_timeout=7)), tools=tools) as one:
        assert (await one.prompt("go")).stop == "end_turn"
        (result,) = results(one)
        assert result.output.startswith(output)
        assert result.is_error
        assert (result.duration_ms >= 7000) == took_time
        assert provider.requests[1].messages[-1]["content"][0] == {
            "type": "tool_result",
            "tool_use_id": "call_1",
            "content": result.output,
            "is_error": True,
        }


async def test_arguments_that_are_no_object_are_sent_back(live, tools) -> None:
    tools.register("echo")(lambda text: text)
    async with live(calling("echo", raw='{"text": "cut o'), settings(), tools=tools) as session:
        await session.prompt("go")
        (result,) = results(session)
        assert result.output.startswith("Error [invalid_arguments]: ")
        assert "not a JSON object" in result.output


async def test_a_tool_that_raises_a_group_of_errors_fails_alone(live, tools) -> None:
    @tools.register("fails")
    async def fails() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(raise_value_error)

    async def raise_value_error() -> None:
        raise ValueError("inside")

    tools.register("works")(lambda: "fine")
    async with live(calling("fails", "works"), settings(), tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert [result.is_error for result in results(session)] == [True, False]


# --- running ----------------------------------------------------------------------------------


@pytest.mark.covers("TOOL-05")
async def test_plain_functions_run_in_threads_and_coroutines_here_and_neither_blocks(live, tools) -> None:
    released = threading.Event()
    threads = []

    @tools.register("waits")
    def waits() -> str:
        threads.append(threading.current_thread())
        released.wait(10)
        return "thread"

    @tools.register("releases")
    async def releases() -> str:
        threads.append(threading.current_thread())
        released.set()
        return "task"

    async with live(calling("waits", "releases"), settings(), tools=tools) as session:
        with trio.fail_after(5):
            await session.prompt("go")
        assert [result.output for result in results(session)] == ["thread", "task"]
    assert len(set(threads)) == 2
    assert threading.current_thread() in threads


@pytest.mark.covers("LOOP-03")
async def test_the_calls_of_a_step_run_side_by_side_with_their_results_in_call_order(
    live, tools, autojump_clock
) -> None:
    @tools.register("sleeps")
    async def sleeps(name: str, seconds: float = 0.2) -> str:
        await trio.sleep(seconds)
        return name

    provider = ScriptedProvider().calls(("sleeps", {"name": "one"}), ("sleeps", {"name": "two"})).text("x")
    async with live(provider, settings(), tools=tools) as session:
        started = trio.current_time()
        await session.prompt("go")
        assert trio.current_time() - started < 0.35
        assert [result.output for result in results(session)] == ["one", "two"]


async def test_a_call_that_is_done_early_says_so_to_readers_while_it_waits(
    live, tools, watched, autojump_clock
) -> None:
    @tools.register("sleeps")
    async def sleeps(seconds: float) -> str:
        await trio.sleep(seconds)
        return ""

    provider = ScriptedProvider().calls(("sleeps", {"seconds": 2}), ("sleeps", {"seconds": 1})).text("x")
    async with live(provider, settings(), tools=tools) as session:
        events = await watched(session, "go")
    hints = [event for event in events if isinstance(event, ToolOutput)]
    assert [(hint.tool_call_id, hint.finished) for hint in hints] == [("call_2", True)]
    first = next(event for event in events if isinstance(event, ToolResult))
    assert events.index(hints[0]) < events.index(first)


async def test_eight_calls_of_a_step_run_at_once_and_start_in_call_order(live, tools, autojump_clock) -> None:
    started: list[int] = []
    running: list[int] = []
    most = 0

    @tools.register("sleeps")
    async def sleeps(number: int) -> str:
        nonlocal most
        started.append(number)
        running.append(number)
        most = max(most, len(running))
        await trio.sleep(1)
        running.remove(number)
        return str(number)

    provider = ScriptedProvider().calls(*(("sleeps", {"number": n}) for n in range(20))).text("x")
    async with live(provider, settings(), tools=tools) as session:
        await session.prompt("go")
        assert [result.output for result in results(session)] == [str(n) for n in range(20)]
    assert most == MAX_AT_ONCE
    assert set(started[:MAX_AT_ONCE]) == set(range(MAX_AT_ONCE))


async def test_calls_beyond_the_most_that_one_answer_may_make_are_refused(live, tools, autojump_clock) -> None:
    ran: list[int] = []

    @tools.register("counts", execution="sequential")
    async def counts(number: int) -> str:
        ran.append(number)
        return str(number)

    provider = ScriptedProvider().calls(*(("counts", {"number": n}) for n in range(MAX_CALLS + 2))).text("x")
    async with live(provider, settings(), tools=tools) as session:
        await session.prompt("go")
        answers = [(result.output, result.is_error) for result in results(session)]
    refusal = "Error [blocked]: only 128 calls of one answer are run; make this one again if it is needed"
    assert answers == [*((str(n), False) for n in range(MAX_CALLS)), *[(refusal, True)] * 2]
    assert ran == list(range(MAX_CALLS))


async def test_a_sequential_tool_runs_alone(live, tools, autojump_clock) -> None:
    running: list[str] = []

    def sleeper(name: str):
        async def run() -> str:
            running.append(f"+{name}")
            await trio.sleep(1)
            running.append(f"-{name}")
            return ""

        return run

    tools.register("a")(sleeper("a"))
    tools.register("b")(sleeper("b"))
    tools.register("alone", execution="sequential")(sleeper("alone"))
    async with live(calling("a", "b", "alone", "a", "b"), settings(), tools=tools) as session:
        await session.prompt("go")
    assert sorted(running[:4]) == ["+a", "+b", "-a", "-b"]
    assert running[4:6] == ["+alone", "-alone"]
    assert sorted(running[6:]) == ["+a", "+b", "-a", "-b"]


@pytest.mark.covers("AURA-78")
async def test_two_calls_side_by_side_and_two_alone_take_three_times_as_long_as_one(
    live, tools, autojump_clock
) -> None:
    async def second() -> str:
        await trio.sleep(1)
        return ""

    tools.register("beside")(second)
    tools.register("alone", execution="sequential")(second)
    async with live(calling("beside", "beside", "alone", "alone"), settings(), tools=tools) as session:
        started = trio.current_time()
        await session.prompt("go")
        assert 3 <= trio.current_time() - started < 3.1


@pytest.mark.covers("TOOL-06")
@pytest.mark.parametrize("kind", ["task", "thread"])
async def test_a_tool_that_takes_too_long_is_left(live, tools, kind) -> None:
    done = threading.Event()

    @tools.register("task")
    async def task() -> None:
        await trio.sleep_forever()

    @tools.register("thread")
    def thread() -> None:
        done.wait(10)

    config = settings(tools=ToolConfig(enabled_builtins=[], command_timeout=1))
    try:
        async with live(calling(kind), config, tools=tools) as session:
            await session.prompt("go")
            (result,) = results(session)
            assert result.output == f"Error [timeout]: tool '{kind}' timed out after 1s"
            assert 1000 <= result.duration_ms < 3000
    finally:
        done.set()


async def test_what_a_tool_had_said_before_its_time_was_up_is_kept(live, tools, autojump_clock) -> None:
    @tools.register("talks")
    async def talks(ctx: ToolContext) -> None:
        ctx.report("step 1\n")
        await trio.sleep(1)
        ctx.report("step 2\n")
        await trio.sleep_forever()

    config = settings(tools=ToolConfig(enabled_builtins=[], command_timeout=3))
    async with live(calling("talks"), config, tools=tools) as session:
        await session.prompt("go")
        assert results(session)[0].output == "Error [timeout]: tool 'talks' timed out after 3s\nstep 1\nstep 2\n"


@pytest.mark.covers("TOOL-07")
async def test_a_limit_of_zero_is_no_limit(live, tools, autojump_clock) -> None:
    @tools.register("sleeps")
    async def sleeps() -> str:
        await trio.sleep(86_400)
        return "woke"

    config = settings(tools=ToolConfig(enabled_builtins=[], command_timeout=0))
    async with live(calling("sleeps"), config, tools=tools) as session:
        await session.prompt("go")
        assert results(session)[0].output == "woke"


@pytest.mark.covers("TOOL-08", "TOOL-09", "TOOL-10")
async def test_results_are_texts_of_a_bounded_length(live, tools) -> None:
    tools.register("number")(lambda: 3)
    tools.register("nothing")(lambda: None)
    tools.register("long")(lambda: "x" * 101)
    tools.register("just")(lambda: "x" * 100)
    config = settings(tools=ToolConfig(enabled_builtins=[], max_output_chars=100))
    async with live(calling("number", "nothing", "long", "just"), config, tools=tools) as session:
        await session.prompt("go")
        assert [result.output for result in results(session)] == [
            "3",
            "None",
            "x" * 100 + "\n... (truncated)",
            "x" * 100,
        ]
        assert all(result.duration_ms > 0 for result in results(session))


async def test_what_a_tool_reports_is_seen_as_it_comes(live, tools, watched, autojump_clock) -> None:
    @tools.register("talks")
    async def talks(ctx: ToolContext) -> str:
        for number in range(100):
            ctx.report(f"{number} ")
            await trio.sleep(0.01)
        return "result"

    async with live(calling("talks"), settings(), tools=tools) as session:
        events = await watched(session, "go")
    pieces = [event.text for event in events if isinstance(event, ToolOutput)]
    assert " ".join(map(str, range(90))) in "".join(pieces)
    assert 20 < len(pieces) < 40  # merged to about one per 30 ms


async def test_a_thread_may_report_as_well(live, tools) -> None:
    is_seen = threading.Event()

    @tools.register("talks")
    def talks(ctx: ToolContext) -> str:
        ctx.report("from a thread")
        assert is_seen.wait(10)  # what is not shown when the result is there need not be shown any more
        return "result"

    said = []
    async with live(calling("talks"), settings(), tools=tools) as session, trio.open_nursery() as nursery:
        with session.follow(after=session.seq, pace=100) as records:
            nursery.start_soon(session.prompt, "go")
            async for record in records:
                if isinstance(record.event, ToolOutput):
                    said.append(record.event.text)
                    is_seen.set()
                if isinstance(record.event, TurnEnded):
                    break
        assert results(session)[0].output == "result"
    assert said == ["from a thread"]


async def test_a_tool_that_talks_without_end_fills_no_memory(live, tools, watched) -> None:
    @tools.register("floods")
    async def floods(ctx: ToolContext) -> str:
        for _ in range(1000):
            ctx.report("x" * 1000)
            await trio.lowlevel.checkpoint()
        return "result"

    config = settings(tools=ToolConfig(enabled_builtins=[], max_output_chars=5000))
    async with live(calling("floods"), config, tools=tools) as session:
        events = await watched(session, "go")
    assert sum(len(event.text) for event in events if isinstance(event, ToolOutput)) <= 5000


async def test_nothing_with_an_effect_starts_before_its_start_is_on_the_disk(live, tools) -> None:
    syncs = []

    @tools.register("reads", side_effects=["read"])
    def reads() -> str:
        syncs.append(started("call_1"))
        return ""

    @tools.register("writes", side_effects=["write"])
    async def writes() -> str:
        syncs.append(started("call_2"))
        return ""

    def started(call_id: str) -> bool:
        return any(isinstance(event, ToolStarted) and event.tool_call_id == call_id for event in facts_of(session))

    config = settings(safety={"require_approval_for_writes": False})
    provider = ScriptedProvider().call("reads").call("writes").text("x")
    async with live(provider, config, tools=tools, store=MemoryStore()) as session:
        await session.prompt("go")
        assert syncs == [True, True]
        counts = session._journal._log.statistics()
        assert counts.syncs == 2  # before the write, and at the end of the turn


def appends_of(session) -> int:
    return session._journal._log.statistics().appends


async def test_a_step_with_a_call_is_two_writes(live, tools) -> None:
    tools.register("echo")(echoed)
    provider = ScriptedProvider()
    for number in range(10):
        provider.call("echo", text=str(number))
    async with live(provider.text("done"), settings(), tools=tools) as session:
        before = appends_of(session)
        await session.prompt("go")
        assert appends_of(session) - before == 10 * 2 + len(["the prompt", "the last answer", "the end of the turn"])


async def test_results_that_waited_for_an_earlier_one_are_one_write_with_it(live, tools) -> None:
    gate = trio.Event()

    @tools.register("last")
    async def last() -> str:
        await gate.wait()
        return "last"

    tools.register("echo")(echoed)
    echoes = [("echo", {"text": str(number)}) for number in range(MAX_AT_ONCE - 1)]
    provider = ScriptedProvider().calls(("last", {}), *echoes).text("done")
    async with live(provider, settings(), tools=tools) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "go")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert results(session) == []
        before = appends_of(session)
        gate.set()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert appends_of(session) - before == len(["all results", "the last answer", "the end of the turn"])
        assert [result.output for result in results(session)] == ["last", *map(str, range(MAX_AT_ONCE - 1))]


async def echoed(text: str) -> str:
    return text


async def test_a_tool_and_a_hook_find_on_record_what_led_to_them(live, tools) -> None:
    seen = []

    def look(what: str) -> None:
        kinds = [event.type for event in facts_of(session)]
        seen.append((what, kinds[kinds.index("user_message") + 1 :]))

    @tools.register("look")
    async def tool() -> str:
        look("tool")
        return ""

    async def hook(call):
        look("hook")

    answer = ["provider_meta", "tool_call", "assistant_message"]
    for hooks in (Hooks(), Hooks(before_tool_call=(hook,))):
        async with live(ScriptedProvider().call("look").text("x"), settings(), tools=tools, hooks=hooks) as session:
            await session.prompt("go")
    assert seen == [
        ("tool", [*answer, "tool_started"]),
        ("hook", answer),
        ("tool", [*answer, "tool_started"]),
    ]


async def test_the_model_is_asked_again_when_all_results_are_on_record(live, tools) -> None:
    tools.register("echo")(echoed)
    stored = []

    def answer(request):
        stored.append([event.type for event in facts_of(session)][-1])
        return "done"

    provider = ScriptedProvider().calls(("echo", {"text": "a"}), ("echo", {"text": "b"})).reply(answer)
    async with live(provider, settings(), tools=tools) as session:
        await session.prompt("go")
    assert stored == ["tool_result"]


@pytest.mark.covers("TOOL-41")
async def test_each_session_works_in_its_own_folder(live, tmp_path) -> None:
    def ask(request):
        if request.messages[-1]["role"] == "user" and isinstance(request.messages[-1]["content"], str):
            return ScriptedAnswer(
                calls=(("read_file", {"path": "name.txt"}), ("bash", {"command": "pwd; cat name.txt"}))
            )
        return "done"

    config = AgentConfig(safety={"require_approval_for_execute": False, "allowed_paths": []})
    async with open_test_runtime(ScriptedProvider().reply(ask).forever(), config, home=tmp_path / "home") as runtime:
        seen = {}

        async def work(name: str) -> None:
            folder = tmp_path / name
            folder.mkdir()
            (folder / "name.txt").write_text(f"I am {name}\n")
            session = await runtime.sessions.open(str(folder))
            await session.prompt("who are you?")
            seen[name] = [result.output for result in results(session)]

        async with trio.open_nursery() as nursery:
            for name in ("one", "two"):
                nursery.start_soon(work, name)
    for name, (read, ran) in seen.items():
        assert f"I am {name}" in read
        assert ran == f"{tmp_path / name}\nI am {name}\n"


@pytest.mark.covers("AURA-67")
async def test_a_tool_knows_the_session_that_it_works_for(live, tools, tmp_path) -> None:
    seen = []

    @tools.register("look")
    async def look(ctx: ToolContext) -> str:
        seen.append((ctx.cwd, ctx.session_id, ctx.tool_call_id, ctx.config.max_output_chars))
        return ""

    config = settings(tools=ToolConfig(enabled_builtins=[], max_output_chars=7))
    async with live(calling("look"), config, tools=tools) as session:
        await session.prompt("go")
        assert seen == [(str(tmp_path / "project"), session.session_id, "call_1", 7)]


# --- hooks ------------------------------------------------------------------------------------


def echo_tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo", input_schema={"type": "object", "properties": {"text": {"type": "string"}}})(
        lambda text="": text
    )
    return registry


async def test_hooks_change_a_call_and_its_outcome_one_after_the_other(live) -> None:
    async def louder(call):
        return call.model_copy(update={"arguments": {"text": call.arguments["text"].upper()}})

    async def look(call):
        return None

    async def twice(call, outcome):
        return ToolOutcome(outcome.output * 2)

    async def frame(call, outcome):
        return ToolOutcome(f"<{outcome.output}>")

    hooks = Hooks(before_tool_call=(look, louder), after_tool_call=(twice, frame))
    async with live(calling("echo", text="a"), settings(), tools=echo_tools(), hooks=hooks) as session:
        await session.prompt("go")
        assert results(session)[0].output == "<AA>"


async def test_a_hook_blocks_one_call_and_the_others_go_on(live) -> None:
    async def guard(call):
        return Block("not this one") if call.arguments["text"] == "a" else None

    provider = ScriptedProvider().calls(("echo", {"text": "a"}), ("echo", {"text": "b"})).text("x")
    async with live(provider, settings(), tools=echo_tools(), hooks=Hooks(before_tool_call=(guard,))) as session:
        await session.prompt("go")
        assert [result.output for result in results(session)] == ["Error [blocked]: not this one", "b"]


@pytest.mark.parametrize("how", ["raises", "hangs"])
async def test_a_guard_that_does_not_work_blocks(live, autojump_clock, how) -> None:
    async def guard(call):
        if how == "hangs":
            await trio.sleep_forever()
        raise ValueError("broken")

    hooks = Hooks(before_tool_call=(guard,), time_limit=3)
    async with live(calling("echo", text="a"), settings(), tools=echo_tools(), hooks=hooks) as session:
        await session.prompt("go")
        why = {"raises": "ValueError: broken", "hangs": "TooSlowError"}[how]
        assert results(session)[0].output == f"Error [blocked]: a check before this call failed ({why})"
        assert not any(isinstance(event, ToolStarted) for event in facts_of(session))


@pytest.mark.parametrize("how", ["raises", "hangs"])
async def test_other_hooks_that_do_not_work_are_told_and_skipped(live, autojump_clock, how, caplog) -> None:
    async def broken(*_):
        if how == "hangs":
            await trio.sleep_forever()
        raise ValueError("broken")

    hooks = Hooks(
        before_provider_call=(broken,), after_provider_call=(broken,), after_tool_call=(broken,), time_limit=3
    )
    with caplog.at_level(logging.CRITICAL):
        async with live(calling("echo", text="a"), settings(), tools=echo_tools(), hooks=hooks) as session:
            assert (await session.prompt("go")).stop == "end_turn"
            assert results(session)[0].output == "a"
            notices = [event for event in facts_of(session) if isinstance(event, Notice)]
            assert {notice.kind for notice in notices} == {"hook_failed"}
            points = ("before_provider_call", "after_provider_call", "after_tool_call")
            assert [sum(point in notice.text for notice in notices) for point in points] == [2, 2, 1]


async def test_a_hook_of_the_wrong_shape_is_told_and_skipped(live, caplog) -> None:
    async def wrong():
        return None

    hooks = Hooks(before_provider_call=(wrong,), after_provider_call=(wrong,))
    async with live(ScriptedProvider().text("x"), settings(), hooks=hooks) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert [event.kind for event in facts_of(session) if isinstance(event, Notice)] == ["hook_failed"] * 2


async def test_a_hook_edits_what_the_model_is_asked(live) -> None:
    async def add(request):
        return replace(request, system=request.system + " Be kind.")

    provider = ScriptedProvider().text("x")
    async with live(provider, settings(system_prompt="Be brief."), hooks=Hooks(before_provider_call=(add,))) as session:
        await session.prompt("go")
    assert provider.requests[0].system == "Be brief. Be kind."


async def test_arguments_that_a_hook_breaks_do_not_reach_the_tool(live) -> None:
    async def breaks(call):
        return call.model_copy(update={"arguments": {"text": 3}})

    hooks = Hooks(before_tool_call=(breaks,))
    async with live(calling("echo", text="a"), settings(), tools=echo_tools(), hooks=hooks) as session:
        await session.prompt("go")
        assert results(session)[0].output.startswith("Error [invalid_arguments]: ")
