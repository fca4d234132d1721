"""Tools, commands, prompts, the context and the bus: what extensions bring."""

from __future__ import annotations

import logging

import pytest
import trio

from aar.client import opening_problems
from aar.errors import ExtensionError
from aar.messages.events import ToolResult
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of


def bare(**fields) -> AgentConfig:
    return AgentConfig.model_validate({"tools": {"enabled_builtins": []}, **fields})


def outputs(session) -> list[str]:
    return [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult)]


# --- tools ------------------------------------------------------------------------------------


@pytest.mark.covers("EXT-13", "EXT-14")
async def test_the_model_calls_tools_of_extensions_and_sees_nothing_of_their_context(world) -> None:
    world.user(
        "tools.py",
        """
        import aar

        COUNT = {
            "type": "object",
            "properties": {"text": {"type": "string"}, "ctx": {"type": "string"}},
            "required": ["text", "ctx"],
        }

        def register(api):
            @api.tool("count", "Count words.", COUNT)
            def count(text, ctx):
                ctx.call.report("counting")
                return f"{len(text.split())} in {len(ctx.session.events) > 3}"

            @api.tool("add")
            async def add(a: int, b: int = 1, *, ctx):
                "Add two numbers."
                return a + b + (ctx.signal is None)

            @aar.tool
            def where(ctx: aar.ToolContext) -> str:
                "Say where."
                return ctx.cwd

            api.register_tool(where)
        """,
    )
    provider = ScriptedProvider()
    provider.calls(("count", {"text": "a b c"}), ("add", {"a": 2}), ("where", {}), ("add", {"a": "x"})).text("done")
    async with world.session(provider, bare()) as session:
        await session.prompt("go")
        assert outputs(session)[:3] == ["3 in True", "3", str(world.project)]
        assert outputs(session)[3].startswith("Error [invalid_arguments]")
    schemas = {tool.name: tool.input_schema for tool in provider.requests[0].tools}
    assert schemas["count"] == {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    assert list(schemas["add"]["properties"]) == ["a", "b"]
    assert schemas["where"]["properties"] == {}


async def test_tools_of_extensions_are_asked_about_like_others(world) -> None:
    world.user(
        "tools.py",
        """
        def register(api):
            @api.tool("deploy", "Deploy.", side_effects=["execute"])
            def deploy():
                return "gone"
        """,
    )
    async with world.session(ScriptedProvider().call("deploy").text("done"), bare()) as session:
        await session.prompt("go")
        assert "nobody is there" in outputs(session)[0]
        assert [(tool.name, tool.side_effects) for tool in await session.tools()] == [("deploy", ("execute",))]


async def test_a_tool_takes_the_place_of_another_only_where_the_settings_say_so(world) -> None:
    world.user("mine.py", "def register(api):\n    api.tool('read_file', 'Mine.')(lambda: 'mine')\n")
    provider = ScriptedProvider().call("read_file").text("done")
    async with world.session(provider) as session:
        [problem] = opening_problems(session)
        assert problem.startswith("A tool 'read_file' of an extension was left out")
        assert "Mine." not in [tool.description for tool in await session.tools()]
    allowed = AgentConfig.model_validate({"extensions": {"replace_tools": ["read_file"]}})
    async with world.session(provider, allowed) as session:
        assert opening_problems(session) == []
        await session.prompt("go")
        assert outputs(session) == ["mine"]


# --- the system prompt ------------------------------------------------------------------------


@pytest.mark.covers("EXT-17", "PRM-07")
async def test_the_system_prompt_has_the_parts_and_the_tools_of_extensions(world) -> None:
    world.user(
        "words.py",
        """
        def register(api):
            api.append_system_prompt("Speak like a sailor.")
            api.append_system_prompt("Never swear.")
            api.tool("sail", "Sail.", prompt_snippet="sails away", prompt_guidelines=["Mind the wind."])(lambda: "")
        """,
    )
    provider = ScriptedProvider().text("aye")
    async with world.session(provider, bare()) as session:
        await session.prompt("go")
    prompt = provider.requests[0].system
    assert prompt.endswith("\n---\nSpeak like a sailor.\nNever swear.")
    assert "- sail: sails away\n" in prompt
    assert "- Mind the wind.\n" in prompt


# --- commands ---------------------------------------------------------------------------------


@pytest.mark.covers("EXT-16")
async def test_commands_are_functions_or_coroutine_functions_by_lower_case_names(world) -> None:
    world.user(
        "commands.py",
        """
        import trio

        def register(api):
            @api.command("Hello", description="Say hello.")
            def hello(args, ctx):
                return f"hello {args!r}"

            @api.command("/later")
            async def later(args, ctx):
                await trio.sleep(0.001)
                return 7

            @api.command("quiet")
            def quiet(args, ctx):
                pass
        """,
    )
    async with world.session() as session:
        listed = [(one.name, one.description) for one in await session.commands()]
        assert listed == [("hello", "Say hello."), ("later", ""), ("quiet", "")]
        said = [await session.run_command(*words) for words in (("HELLO", " a  b "), ("later", "x"), ("quiet", ""))]
        assert said == ["hello 'a  b'", "7", None]


async def test_a_command_that_fails_says_so_and_ends_nothing(world) -> None:
    world.user(
        "commands.py",
        """
        import sys

        class Odd:
            def __str__(self):
                raise ValueError("no text")

        def register(api):
            api.command("fails")(lambda args, ctx: 1 / 0)
            api.command("leaves")(lambda args, ctx: sys.exit(1))
            api.command("odd")(lambda args, ctx: Odd())
            api.command("much")(lambda args, ctx: "x" * 1_000_000)
        """,
    )
    async with world.session(ScriptedProvider().text("alive")) as session:
        for name, text in [
            ("fails", "Extension command error: division by zero"),
            ("leaves", "Extension command error: it called sys.exit()"),
            ("odd", "Extension command error: no text"),
            ("nosuch", "there is no command /nosuch in this session"),
        ]:
            with pytest.raises(ExtensionError) as caught:
                await session.run_command(name)
            assert str(caught.value) == text
        assert len(await session.run_command("much")) == 100_000
        assert (await session.prompt("hi")).stop == "end_turn"


async def test_a_command_is_cancelled_when_its_asker_leaves(world) -> None:
    world.user(
        "commands.py",
        """
        import trio

        BEGUN, ENDED = trio.Event(), trio.Event()

        def register(api):
            @api.command("wait")
            async def wait(args, ctx):
                BEGUN.set()
                try:
                    await trio.sleep_forever()
                finally:
                    ENDED.set()

            @api.command("begun")
            async def begun(args, ctx):
                await BEGUN.wait()

            @api.command("ended")
            async def ended(args, ctx):
                await ENDED.wait()
                return "ended"
        """,
    )
    async with world.session() as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.run_command, "wait")
        await session.run_command("begun")
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True), trio.fail_after(5):
            assert await session.run_command("ended") == "ended"


async def test_only_so_many_commands_run_at_once(world) -> None:
    world.user(
        "waiting.py",
        """
        import trio

        def register(api):
            @api.command("w")
            async def wait(args, ctx):
                await trio.sleep_forever()
        """,
    )
    async with world.session() as session, trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(session.run_command, "w")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Exception, match="8 commands run already"):
            await session.run_command("w")
        nursery.cancel_scope.cancel()


# --- the context ------------------------------------------------------------------------------


@pytest.mark.covers("EXT-19", "EXT-20")
async def test_the_context_is_current_and_cannot_be_changed(world, caplog) -> None:
    world.user(
        "look.py",
        """
        def register(api):
            @api.command("count")
            def count(args, ctx):
                ctx.logger.warning("counting")
                ctx.session.events.clear()
                return f"{len(ctx.session.events)} {ctx.config.max_steps} {ctx.cwd}"

            @api.command("change")
            async def change(args, ctx):
                failures = []
                for name in ("session", "config", "signal", "logger"):
                    try:
                        setattr(ctx, name, None)
                    except AttributeError:
                        failures.append(name)
                return " ".join(failures)
        """,
    )
    async with world.session(ScriptedProvider().text("ok")) as session:
        assert await session.run_command("count") == f"1 50 {world.project}"
        await session.prompt("hi")
        await session.configure({"max_steps": 7})
        seq = session.seq
        assert await session.run_command("count") == f"{seq} 7 {world.project}"
        assert await session.run_command("change") == "session config signal logger"
    assert {record.name for record in caplog.records if record.getMessage() == "counting"} == {"aar.ext.look"}


# --- the bus ----------------------------------------------------------------------------------


@pytest.mark.covers("EXT-18")
async def test_the_bus_calls_listeners_at_once_or_soon_or_waits_for_them_and_logs_errors(world, caplog) -> None:
    world.user(
        "bus.py",
        """
        import trio

        SAID, CAME = [], trio.Event()

        def register(api):
            @api.events.on("news")
            def fails(payload):
                raise RuntimeError("listener")

            @api.events.on("news")
            def at_once(payload):
                SAID.append(f"sync {payload}")

            @api.events.on("news")
            async def soon(payload):
                await trio.sleep(0)
                SAID.append(f"async {payload}")
                CAME.set()

            @api.command("emit")
            def emit(args, ctx):
                api.events.emit("news", args)
                return " ".join(SAID[:1])

            @api.command("wait")
            async def wait(args, ctx):
                await CAME.wait()
                SAID.clear()
                await api.events.emit_async("news", "2")
                api.events.emit("nobody listens")
                return ", ".join(SAID)
        """,
    )
    with caplog.at_level(logging.ERROR), trio.fail_after(5):
        async with world.session() as session:
            assert await session.run_command("emit", "1") == "sync 1"
            assert await session.run_command("wait") == "sync 2, async 2"
    texts = [record.getMessage() for record in caplog.records if record.name == "aar.ext.bus"]
    assert texts == ["a listener to 'news' failed", "a listener to 'news': RuntimeError: listener"]


async def test_the_bus_hears_of_each_event_behind_the_handlers_and_only_its_own_extension(world, notes) -> None:
    code = """
        from pathlib import Path

        def register(api):
            @api.events.on("user_message")
            def heard(text):
                with Path(__file__).parents[2].joinpath("notes").open("a") as file:
                    file.write(f"%s {text}\\n")

            @api.events.on("tool_result")
            async def result(result):
                heard(result.output)

            @api.events.on("session_end")
            async def over(event):
                heard(event.action)
    """
    world.user("a.py", (code % "a") + "\n            api.on('user_message')(lambda text, ctx: text + '!')\n")
    world.user("b.py", code % "b")
    provider = ScriptedProvider().call("nosuch").text("ok")
    async with world.session(provider, bare()) as session:
        await session.prompt("hi")
    seen = notes()
    assert seen[:2] == ["a hi!", "b hi!"]
    assert [one[:2] for one in seen[2:]] in (["a ", "b "] * 2, ["a ", "b ", "b ", "a "])


async def test_a_flood_of_events_is_dropped_and_said(world, caplog) -> None:
    world.user(
        "flood.py",
        """
        import trio

        def register(api):
            @api.events.on("drop")
            async def slow(payload):
                await trio.sleep_forever()

            @api.command("flood")
            async def flood(args, ctx):
                for number in range(1000):
                    api.events.emit("drop", number)
                return "done"
        """,
    )
    with caplog.at_level(logging.WARNING):
        async with world.session() as session:
            assert await session.run_command("flood") == "done"
    assert "256 events wait already: 'drop' was dropped" in caplog.messages


async def test_of_two_extensions_with_one_name_for_a_tool_or_command_the_later_wins_and_that_is_logged(world, caplog):
    code = "def register(api):\n    api.tool('same')(lambda: '{0}')\n    api.command('same')(lambda args, ctx: '{0}')\n"
    world.user("a.py", code.format("a"))
    world.user("b.py", code.format("b"))
    async with world.session(ScriptedProvider().call("same").text("ok"), bare()) as session:
        assert await session.run_command("same") == "b"
        await session.prompt("go")
        assert outputs(session) == ["b"]
    assert caplog.messages.count("'same' of extension b takes the place of another extension's") == 2


# --- panels -----------------------------------------------------------------------------------


async def test_panels_are_drawn_from_the_session_and_are_no_commands(world) -> None:
    world.user(
        "panels.py",
        """
        import trio

        def register(api):
            @api.panel("Steps")
            def steps(ctx):
                return f"{ctx.session.step_count} so far"

            async def nothing(ctx):
                await trio.sleep(0)

            api.register_panel("nothing", nothing)

            @api.panel("broken")
            def broken(ctx):
                raise ValueError("no such thing")
        """,
    )
    async with world.session(ScriptedProvider().text("Hi.")) as session:
        await session.prompt("go")
        assert await session.panels() == {"steps": "1 so far", "broken": "Extension command error: no such thing"}
        assert await session.commands() == ()


async def test_a_panel_needs_a_name(world) -> None:
    world.user("panels.py", "def register(api):\n    api.register_panel('a b', print)\n")
    async with world.session(ScriptedProvider()) as session:
        [problem] = opening_problems(session)
        assert "'a b' is no name for a panel" in problem
