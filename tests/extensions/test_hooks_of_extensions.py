"""What extensions see of a session, and what they may change of it."""

from __future__ import annotations

import logging

import pytest
import trio

from aar.messages.events import ErrorEvent, Notice, ToolResult, UserMessage
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry

RECORDER = """
    from pathlib import Path

    EVENTS = [
        "session_start", "session_end", "before_turn", "after_turn", "user_message",
        "tool_call", "tool_result", "assistant_message", "stream_chunk", "error",
    ]

    def register(api):
        for event in EVENTS:
            @api.on(event)
            def note(payload, ctx, event=event):
                with (Path(ctx.cwd).parent / "notes").open("a") as file:
                    file.write(f"{event} {type(payload).__name__}\\n")
"""


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text="": text)
    return registry


def bare(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, **fields})


def results(session) -> list[tuple[str, bool]]:
    return [(fact.output, fact.is_error) for fact in facts_of(session) if isinstance(fact, ToolResult)]


@pytest.mark.covers("EXT-07")
async def test_a_recorder_sees_each_of_the_ten_events(world, tools, notes) -> None:
    world.user("recorder.py", RECORDER)
    provider = ScriptedProvider().call("echo", text="1").text("done").text("again").stop("refusal")
    async with world.session(provider, bare(streaming=True), tools=tools) as session:
        await session.prompt("go")
        await session.prompt("once more")
    seen = notes()
    assert set(seen) == {
        "session_start SessionEvent",
        "session_end SessionEvent",
        "before_turn list",
        "after_turn ProviderResponse",
        "user_message str",
        "tool_call ToolCall",
        "tool_result ToolResult",
        "assistant_message AssistantMessage",
        "stream_chunk StreamChunk",
        "error ErrorEvent",
    }
    assert seen.count("session_start SessionEvent") == 1  # of an opened session, and not of each turn
    assert seen[-1] == "session_end SessionEvent"
    in_turns = [one.split()[0] for one in seen if one.split()[0] in ("user_message", "before_turn", "after_turn")]
    assert in_turns == ["user_message", *["before_turn", "after_turn"] * 2, "user_message", "before_turn", "after_turn"]


@pytest.mark.covers("EXT-08", "EXT-09")
async def test_a_blocked_call_is_an_error_with_the_reason_and_the_other_call_runs(world, tools) -> None:
    world.user(
        "guard.py",
        """
        def register(api):
            @api.on("tool_call")
            def guard(call, ctx):
                if call.arguments["text"] == "bad":
                    return api.block("not this one")

            @api.on("tool_call")
            async def second(call, ctx):
                assert call.arguments["text"] != "bad", "the first one that blocks wins"
        """,
    )
    provider = ScriptedProvider().calls(("echo", {"text": "bad"}), ("echo", {"text": "good"})).text("done")
    async with world.session(provider, bare(), tools=tools) as session:
        await session.prompt("go")
        assert results(session) == [("Error [blocked]: not this one", True), ("good", False)]


async def test_a_guard_that_fails_blocks_the_call_and_is_named(world, tools) -> None:
    world.user(
        "guard.py",
        """
        def register(api):
            @api.on("tool_call")
            def guard(call, ctx):
                raise KeyError("oops")
        """,
    )
    provider = ScriptedProvider().call("echo", text="1").text("done")
    async with world.session(provider, bare(), tools=tools) as session:
        await session.prompt("go")
        [(output, is_error)] = results(session)
        assert is_error
        assert output == (
            "Error [blocked]: a check before this call failed (extension 'guard', tool_call: KeyError: 'oops')"
        )


@pytest.mark.covers("EXT-10")
async def test_replacements_of_a_result_go_through_all_extensions_in_order(world, tools) -> None:
    code = """
        def register(api):
            @api.on("tool_result")
            def add(result, ctx):
                return f"{result.output}+%s"

            @api.on("tool_result")
            async def look(result, ctx):
                assert result.output.endswith("%s") and result.tool_name == "echo"
    """
    world.user("a.py", code % ("a", "a"))
    world.user("b.py", code % ("b", "b"))
    provider = ScriptedProvider().call("echo", text="1").text("done")
    async with world.session(provider, bare(), tools=tools) as session:
        await session.prompt("go")
        assert results(session) == [("1+a+b", False)]
        assert not [fact for fact in facts_of(session) if isinstance(fact, Notice)]


@pytest.mark.covers("EXT-11")
async def test_the_model_sees_what_a_user_message_handler_makes_of_it(world) -> None:
    world.user(
        "shout.py",
        """
        def register(api):
            @api.on("user_message")
            def upper(text, ctx):
                return text.upper()

            @api.on("user_message")
            async def polite(text, ctx):
                return f"{text}, please"
        """,
    )
    provider = ScriptedProvider().text("ok")
    async with world.session(provider, bare()) as session:
        await session.prompt("go")
        assert list(provider.requests[0].messages) == [{"role": "user", "content": "GO, please"}]
        [first, *_] = [fact for fact in facts_of(session) if isinstance(fact, UserMessage)]
        assert (first.content, first.data["said"]) == ("GO, please", "go")


@pytest.mark.covers("EXT-12")
async def test_a_before_turn_handler_may_send_other_messages(world) -> None:
    world.user(
        "forgetful.py",
        """
        def register(api):
            @api.on("before_turn")
            def only_the_last(messages, ctx):
                messages[0]["content"] = "changing the copy changes nothing"
                return [{"role": "user", "content": "a word before"}, messages[-1]]
        """,
    )
    provider = ScriptedProvider().text("one").text("two")
    async with world.session(provider, bare()) as session:
        await session.prompt("first")
        await session.prompt("second")
        assert [message["content"] for message in provider.requests[1].messages] == ["a word before", "second"]
        said = [message["content"] for message in session.snapshot().to_messages()]
        assert said == ["first", "one", "second", "two"]


@pytest.mark.parametrize("given", ["'no list'", "[1]", "[{'role': 'nobody', 'content': 'x'}]"])
async def test_messages_that_make_no_sense_are_not_sent_and_the_turn_goes_on(world, given) -> None:
    world.user("odd.py", f"def register(api):\n    api.on('before_turn')(lambda messages, ctx: {given})\n")
    provider = ScriptedProvider().text("one")
    async with world.session(provider, bare()) as session:
        assert (await session.prompt("hi")).stop == "end_turn"
        assert list(provider.requests[0].messages) == [{"role": "user", "content": "hi"}]
        [notice] = [fact for fact in facts_of(session) if isinstance(fact, Notice)]
        assert "extension 'odd', before_turn" in notice.text


async def test_a_handler_that_hangs_is_given_up_after_its_time(world, autojump_clock) -> None:
    world.user(
        "slow.py",
        """
        import trio

        def register(api):
            @api.on("user_message")
            async def wait(text, ctx):
                await trio.sleep_forever()
        """,
    )
    async with world.session(ScriptedProvider().text("ok"), bare()) as session:
        assert (await session.prompt("hi")).stop == "end_turn"
        [notice] = [fact for fact in facts_of(session) if isinstance(fact, Notice)]
        assert "extension 'slow', user_message: took longer than 9 s" in notice.text


async def test_a_prompt_is_cancelled_while_a_handler_looks_at_it(world) -> None:
    world.user(
        "slow.py",
        """
        import trio

        LOOKING = trio.Event()

        def register(api):
            @api.on("user_message")
            async def wait(text, ctx):
                LOOKING.set()
                await trio.sleep_forever()

            @api.command("looking")
            async def looking(args, ctx):
                await LOOKING.wait()
        """,
    )
    async with world.session(ScriptedProvider().text("ok"), bare()) as session, trio.open_nursery() as nursery:

        async def cancel() -> None:
            await session.run_command("looking")
            await session.cancel()

        nursery.start_soon(cancel)
        with trio.fail_after(5):
            assert (await session.prompt("hi")).stop == "cancelled"
        assert [fact.content for fact in facts_of(session) if isinstance(fact, UserMessage)] == ["hi"]


async def test_a_synchronous_handler_that_blocks_holds_no_session_up(world, monkeypatch) -> None:
    monkeypatch.setattr("aar.extensions.observing.LAST_WORDS", 0.2)
    world.user(
        "blocking.py",
        """
        import threading

        def register(api):
            @api.on("session_start")
            def block(event, ctx):
                while not ctx.signal.is_set():
                    threading.Event().wait(0.01)
                ctx.logger.error("let go")
        """,
    )
    async with world.runtime(ScriptedProvider().text("ok"), bare()) as runtime:
        session = await runtime.sessions.open(str(world.project))
        with trio.fail_after(5):
            assert (await session.prompt("hi")).stop == "end_turn"


async def test_errors_of_a_handler_that_only_looks_are_logged(world, caplog) -> None:
    world.user(
        "broken.py",
        """
        def register(api):
            @api.on("assistant_message")
            def fail(message, ctx):
                raise RuntimeError("no " + message.content)

            @api.on("error")
            async def leave(message, ctx):
                raise SystemExit
        """,
    )
    provider = ScriptedProvider().text("hello").text("x").stop("refusal")
    with caplog.at_level(logging.ERROR):
        async with world.session(provider, bare()) as session:
            await session.prompt("hi")
            await session.prompt("hi")
    texts = [record.getMessage() for record in caplog.records if record.name == "aar.ext.broken"]
    assert texts == [
        "extension 'broken', assistant_message: RuntimeError: no hello",
        "extension 'broken', assistant_message: RuntimeError: no x",
        "extension 'broken', error: it called sys.exit()",
    ]
    assert [fact for fact in facts_of(session) if isinstance(fact, ErrorEvent)]


async def test_a_fork_and_adopted_facts_are_no_news(world, notes) -> None:
    world.user("recorder.py", RECORDER)
    async with world.runtime(ScriptedProvider().text("hello"), bare()) as runtime:
        session = await runtime.sessions.open(str(world.project))
        await session.prompt("hi")
        await runtime.sessions.close(session.session_id)
        before = len(notes())
        await runtime.sessions.fork(session.session_id)
    assert notes()[before:] == ["session_start SessionEvent", "session_end SessionEvent"]
