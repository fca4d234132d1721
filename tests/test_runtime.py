"""The tree that runs: what it holds, how it ends, and what it lets through."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import aar
from aar.errors import ActorStopped, RestartLimit
from aar.journal.jsonl import JsonlStore
from aar.kernel import Child, Restart
from aar.messages.settings import AgentConfig, ProviderConfig, ToolConfig
from aar.runtime import open_runtime, reading_rule, session_store, toolbox_for
from aar.testing import ScriptedProvider, open_test_runtime
from aar.tools.registry import ToolRegistry


async def test_a_runtime_has_its_services_and_finds_them_by_name(tmp_path) -> None:
    async with open_test_runtime(home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        assert runtime.registry.names() == ["approvals", f"session:{session.session_id}", "sessions"]
        assert [entry.name for entry in runtime.statistics()] == ["approvals", "sessions"]
        assert runtime.config == AgentConfig()


async def test_nothing_is_left_when_a_runtime_has_been_left(tmp_path) -> None:
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with open_test_runtime(ScriptedProvider().text("x"), home=tmp_path) as runtime:
        session = await runtime.sessions.open("/")
        await session.prompt("go")
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert runtime.registry.names() == []
    for call in (session.status(), runtime.sessions.open("/"), session.decide("x", "allow")):
        with pytest.raises(ActorStopped):
            await call


async def test_an_error_of_the_block_leaves_it_as_it_is(tmp_path) -> None:
    async def fail() -> None:
        async with open_test_runtime(ScriptedProvider().hang(), home=tmp_path) as runtime:
            session = await runtime.sessions.open("/")
            async with session.running("go"):
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail()


async def test_a_cancelled_block_ends_all_turns_first(tmp_path, autojump_clock) -> None:
    store = JsonlStore(tmp_path / "s")
    with trio.move_on_after(5) as scope:
        async with open_test_runtime(ScriptedProvider().hang(), home=tmp_path, store=store) as runtime:
            session = await runtime.sessions.open("/", session_id="one")
            await session.run("go")
    assert scope.cancelled_caught
    assert (await store.load("one")).records[-1].event.stop == "cancelled"


async def test_services_of_ones_own_run_beside_and_may_use_sessions(tmp_path) -> None:
    answers = []
    async with open_test_runtime(ScriptedProvider().text("hello"), home=tmp_path) as runtime:

        async def greeter(mailbox) -> None:
            async for envelope in mailbox:
                session = await runtime.sessions.open("/")
                await session.prompt(envelope.message)
                answers.append(session.snapshot().last_text())

        ref = runtime.supervisor.start(Child("greeter", greeter))
        await ref.tell("hi")
        await trio.testing.wait_all_tasks_blocked(0.01)
        while not answers:
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert answers == ["hello"]


async def test_a_service_that_fails_for_good_ends_the_runtime_with_its_story(tmp_path) -> None:
    async def broken(mailbox) -> None:
        raise ValueError("at once")

    async def run() -> None:
        async with open_test_runtime(home=tmp_path) as runtime:
            runtime.supervisor.start(Child("broken", broken, restart=Restart.PERMANENT))
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await run()
    limits, rest = caught.value.split(RestartLimit)
    assert rest is None
    (limit,) = _leaves(limits)
    assert str(limit) == "broken failed 4 times within 5 s"
    assert isinstance(limit.__cause__, ValueError)


def _leaves(group) -> list:
    found = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


async def test_two_runtimes_in_one_process_do_not_know_each_other(tmp_path) -> None:
    async with (
        open_test_runtime(ScriptedProvider().text("one"), home=tmp_path) as first,
        open_test_runtime(ScriptedProvider().text("two"), home=tmp_path) as second,
    ):
        one = await first.sessions.open("/", session_id="same")
        two = await second.sessions.open("/", session_id="same")
        await one.prompt("go")
        await two.prompt("go")
        assert (one.snapshot().last_text(), two.snapshot().last_text()) == ("one", "two")


async def test_without_a_store_nothing_is_written(tmp_path) -> None:
    async with open_runtime(provider=ScriptedProvider().text("x"), home=tmp_path / "home") as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt("go")
    assert list(tmp_path.iterdir()) == []


# --- what transports ask ----------------------------------------------------------------------


@pytest.mark.covers("CFG-15")
def test_the_toolbox_has_the_enabled_builtins_and_what_was_brought_on_top() -> None:
    mine = ToolRegistry()
    mine.register("bash")(lambda: "mine")
    mine.register("extra")(lambda: "")
    toolbox = toolbox_for(AgentConfig(tools=ToolConfig(enabled_builtins=["read_file", "bash"])), mine)
    assert sorted(toolbox.names()) == ["bash", "extra", "read_file"]
    assert toolbox.get("bash") is mine.get("bash")
    assert toolbox_for(AgentConfig(tools=ToolConfig(enabled_builtins=[])), None).names() == []


async def test_sessions_are_stored_where_the_settings_say(tmp_path) -> None:
    home, cwd = tmp_path / "home", str(tmp_path / "project")
    for directory, folder in (
        (AgentConfig().session_dir, home / "sessions"),
        ("kept", tmp_path / "project" / "kept"),
        (str(tmp_path / "there"), tmp_path / "there"),
    ):
        store = session_store(AgentConfig(session_dir=directory), home=home, cwd=cwd)
        async with open_test_runtime(home=home, store=store) as runtime:
            await runtime.sessions.open("/", session_id="one")
        assert (folder / "one.jsonl").is_file()


def test_what_people_attach_may_lie_anywhere_but_in_a_denied_place(tmp_path) -> None:
    rule = reading_rule(AgentConfig(), str(tmp_path))
    assert rule("/somewhere/else.txt") is None
    assert rule(str(tmp_path / ".env"))


async def test_work_beside_the_services_is_done_once_and_its_error_ends_nothing_else() -> None:
    done: list[str] = []

    async def fail() -> None:
        done.append("failed")
        raise KeyError("x")

    async def work() -> None:
        done.append("worked")

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            done.append("ended")

    async with open_test_runtime() as runtime:
        runtime.start("fails", fail)
        runtime.start("waits", wait)
        await trio.testing.wait_all_tasks_blocked()
        runtime.start("works", work)
        await trio.testing.wait_all_tasks_blocked()
        assert [one.name for one in runtime.statistics()] == ["approvals", "sessions", "waits"]
    assert done == ["failed", "worked", "ended"]


async def test_settings_models_and_tools_of_a_wrong_kind_are_refused_with_what_is_wanted(tmp_path) -> None:
    for wrong, wanted in (
        ({"config": {"max_steps": 2}}, r"config must be an AgentConfig\(\.\.\.\), not something of type dict$"),
        ({"provider": "anthropic"}, r"to choose one by its settings, say AgentConfig\(provider=ProviderConfig\(name="),
        ({"provider": ProviderConfig()}, "provider must be an open provider"),
        ({"tools": [print]}, "tools must come in a ToolRegistry"),
    ):
        with pytest.raises(TypeError, match=wanted):
            async with open_runtime(**wrong, home=tmp_path):
                pass
        named = {"registry" if name == "tools" else name: value for name, value in wrong.items()}
        for embed in (aar.Agent, aar.WebTransport, aar.create_asgi_app, aar.create_acp_asgi_app):
            with pytest.raises(TypeError, match=wanted):
                embed(**named)
    for embed in (aar.Agent, aar.WebTransport, aar.create_asgi_app, aar.create_acp_asgi_app):
        with pytest.raises(TypeError, match="approval_callback must be a function, not 5"):
            embed(approval_callback=5)
    with pytest.raises(TypeError, match="a prompt is text or a list of content blocks, not 5"):
        await aar.Agent(provider=ScriptedProvider(), home=tmp_path).run(5)
