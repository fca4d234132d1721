"""`Agent`: the whole of Aar behind one object."""

from __future__ import annotations

import logging
import os

import pytest
import trio
import trio.testing

import aar
from aar.errors import InvalidMessage, StoreUnavailable
from aar.messages.events import AgentState, ErrorEvent, ProviderSwitchEvent, ToolCall, ToolResult, UserMessage
from aar.messages.settings import AgentConfig, ProviderConfig, SafetyConfig
from aar.testing import Fault, MemoryStore, ScriptedProvider
from aar.tools.registry import ToolRegistry

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, **fields})


@pytest.fixture
def agent_with(tmp_path):
    """An agent that works in a folder of its own and knows no files of the user's."""

    def make(provider: ScriptedProvider, config: AgentConfig | None = None, **named) -> aar.Agent:
        return aar.Agent(config or settings(), provider, home=tmp_path / "home", **{"cwd": tmp_path, **named})

    return make


# --- running ----------------------------------------------------------------------------------


@pytest.mark.covers("PKG-06", "LOOP-01")
async def test_an_agent_runs_without_leaving_a_file(agent_with, tmp_path) -> None:
    before = set(os.listdir(tmp_path))
    session = await agent_with(ScriptedProvider().text("hello")).run("hi")
    assert session.last_text() == "hello"
    assert session.state is AgentState.COMPLETED
    assert session.step_count == 1
    assert session.to_messages() == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    assert set(os.listdir(tmp_path)) == before


async def test_the_same_session_is_extended_and_returned(agent_with) -> None:
    provider = ScriptedProvider().text("one").text("two").text("three")
    agent = agent_with(provider)
    session = await agent.run("a")
    first = session.run_id
    assert await agent.run("b", session) is session
    assert session.run_id != first
    assert [message["content"] for message in provider.requests[1].messages] == ["a", "one", "b"]
    async with agent:
        await agent.run("c", session)
    assert [message["content"] for message in provider.requests[2].messages] == ["a", "one", "b", "two", "c"]
    assert session.step_count == 3


async def test_what_the_caller_adds_to_a_session_is_part_of_the_conversation(agent_with) -> None:
    provider = ScriptedProvider().text("Ada").text("of course")
    session = aar.Session()
    session.add_user_message("I am Ada")
    session.add_assistant_message("Hello Ada")
    async with agent_with(provider) as agent:
        await agent.run("who am I?", session)
        session.add_user_message("(a note)")
        await agent.run("sure?", session)
    assert [message["content"] for message in provider.requests[1].messages] == [
        "I am Ada",
        "Hello Ada",
        "who am I?",
        "Ada",
        "(a note)",
        "sure?",
    ]
    assert [event.id for event in session.events] == list(dict.fromkeys(event.id for event in session.events))


@pytest.mark.covers("LOOP-44")
async def test_chat_gives_the_last_text_or_none(agent_with) -> None:
    agent = agent_with(ScriptedProvider().text("hello").text("").error(ValueError("down")))
    assert await agent.chat("hi") == "hello"
    assert await agent.chat("hi") == ""
    assert await agent.chat("hi") == ""


def test_programs_without_trio_use_it_too(agent_with) -> None:
    assert agent_with(ScriptedProvider().text("hello")).run_sync("hi").last_text() == "hello"


def test_without_trio_the_error_says_what_to_do_instead(agent_with) -> None:
    agent = agent_with(ScriptedProvider().text("hello"))
    for begun in (agent.run("hi"), agent.chat("hi"), agent.__aenter__()):
        with pytest.raises(RuntimeError, match=r"asyncio.to_thread\(agent.run_sync, prompt\)"):
            begun.send(None)  # as asyncio does


@pytest.mark.parametrize("nothing", ["", " ", [], [{"type": "text", "text": ""}]])
async def test_a_prompt_that_says_nothing_is_refused(agent_with, nothing) -> None:
    with pytest.raises(InvalidMessage, match="the prompt is empty: say what is to be done"):
        await agent_with(ScriptedProvider().text("hello")).run(nothing)


async def test_run_sync_inside_trio_says_what_to_do_instead(agent_with) -> None:
    with pytest.raises(RuntimeError, match=r"await agent.run\(prompt\)"):
        agent_with(ScriptedProvider().text("hello")).run_sync("hi")


@pytest.mark.covers("MM-10", "MM-11", "SES-08")
async def test_a_prompt_may_be_a_list_of_parts_and_later_turns_keep_them(agent_with) -> None:
    provider = ScriptedProvider().text("a cat").text("black")
    agent = agent_with(provider)
    session = await agent.run([IMAGE, {"type": "text", "text": "what?"}])
    await agent.run("which colour?", session)
    parts = [IMAGE, {"type": "text", "text": "what?"}]
    assert provider.requests[0].messages[0] == {"role": "user", "content": parts}
    assert provider.requests[1].messages[0] == {"role": "user", "content": parts}
    assert next(event for event in session.events if isinstance(event, UserMessage)).content == "what?"


async def test_parts_that_are_none_are_refused(agent_with) -> None:
    with pytest.raises(ValueError, match="hologram"):
        await agent_with(ScriptedProvider()).run([{"type": "hologram"}])


async def test_many_runs_of_one_agent_at_once_do_not_mix(agent_with) -> None:
    provider = ScriptedProvider().reply(lambda request: f"echo {request.messages[-1]['content']}").forever()
    answers = {}
    async with agent_with(provider) as agent, trio.open_nursery() as nursery:

        async def ask(number: int) -> None:
            answers[number] = await agent.chat(str(number))

        for number in range(20):
            nursery.start_soon(ask, number)
    assert answers == {number: f"echo {number}" for number in range(20)}


async def test_a_store_keeps_what_is_run(agent_with, tmp_path) -> None:
    store = aar.SessionStore(tmp_path / "sessions")
    provider = ScriptedProvider().text("one").text("two")
    session = await agent_with(provider, store=store).run("a")
    loaded = aar.Session.of(await store.load(session.session_id))
    assert loaded.to_messages() == session.to_messages()
    await agent_with(provider, store=store).run("b", loaded)
    again = aar.Session.of(await store.load(session.session_id))
    assert [message["content"] for message in again.to_messages()] == ["a", "one", "b", "two"]
    assert again.trace_id == session.trace_id


async def test_a_store_that_fails_is_an_error_of_the_run(agent_with) -> None:
    store = MemoryStore(faults={2: Fault(error=StoreUnavailable("disk full"))})
    with pytest.raises(StoreUnavailable, match="disk full"):
        await agent_with(ScriptedProvider().text("x"), store=store).run("go")


async def test_a_failing_model_is_an_event_and_no_exception(agent_with) -> None:
    session = await agent_with(ScriptedProvider().error(RuntimeError("what"))).run("go")
    assert session.state is AgentState.ERROR
    assert [event.message for event in session.events if isinstance(event, ErrorEvent)] == [
        "Provider error (RuntimeError): what"
    ]


# --- cancelling -------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-08")
async def test_an_event_that_is_set_beforehand_asks_no_model(agent_with) -> None:
    provider = ScriptedProvider()
    for _ in range(20):
        event = trio.Event()
        event.set()
        session = await agent_with(provider).run("go", cancel_event=event)
        assert session.state is AgentState.CANCELLED
        assert [e.message for e in session.events if isinstance(e, ErrorEvent)] == ["Agent cancelled"]
    assert provider.requests == []


@pytest.mark.covers("LOOP-09")
async def test_an_event_that_is_set_during_a_step_prevents_the_next(agent_with) -> None:
    event = trio.Event()
    tools = ToolRegistry()

    @tools.register("stop")
    async def stop() -> str:
        event.set()
        await trio.testing.wait_all_tasks_blocked()
        return "stopped"

    provider = ScriptedProvider().call("stop")
    session = await agent_with(provider, registry=tools).run("go", cancel_event=event)
    assert session.state is AgentState.CANCELLED
    assert [e.output for e in session.events if isinstance(e, ToolResult)] == ["stopped"]
    assert len(provider.requests) == 1


@pytest.mark.covers("LOOP-10")
async def test_cancelling_the_caller_cancels_the_turn_and_the_session_has_it_all(agent_with) -> None:
    provider = ScriptedProvider().hang("half")
    session = aar.Session()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent_with(provider, settings(streaming=True)).run, "go", session)
            await provider.reached(1)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert session.state is AgentState.CANCELLED
    assert session.last_text() == "half"
    assert session.events[-2].message == "Agent cancelled"
    assert provider.streaming_now == 0


async def test_a_session_that_was_cancelled_goes_on(agent_with, problems_of) -> None:
    provider = ScriptedProvider().calls(("stuck", {}), ("stuck", {})).text("here")
    tools = ToolRegistry()
    started = trio.Event()

    @tools.register("stuck")
    async def stuck() -> None:
        started.set()
        await trio.sleep_forever()

    session = aar.Session()
    agent = agent_with(provider, registry=tools)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.run, "go", session)
            await started.wait()
            scope.cancel()
    await agent.run("are you there?", session)
    assert problems_of(list(provider.requests[1].messages)) == []
    assert session.state is AgentState.COMPLETED


# --- events -----------------------------------------------------------------------------------


@pytest.mark.covers("EV-11")
async def test_subscribers_get_every_event_until_they_leave(agent_with) -> None:
    seen: list[str] = []

    def note(event) -> None:
        seen.append(event.type)

    agent = agent_with(ScriptedProvider().text("x").text("y"))
    agent.on_event(note)
    session = await agent.run("go")
    assert seen == [event.type for event in session.events]
    agent.off_event(note)
    agent.off_event(note)
    await agent.run("go", session)
    assert len(seen) < len(session.events)


@pytest.mark.covers("EV-12", "EV-13")
async def test_subscribers_are_called_in_order_and_a_broken_one_harms_nobody(agent_with, caplog) -> None:
    seen: list[tuple[int, str]] = []

    def broken(event) -> None:
        seen.append((1, event.id))
        raise ValueError("broken")

    agent = agent_with(ScriptedProvider().text("x"))
    agent.on_event(broken)
    agent.on_event(lambda event: seen.append((2, event.id)))
    session = await agent.run("go")
    assert seen == [(number, event.id) for event in session.events for number in (1, 2)]
    assert session.state is AgentState.COMPLETED
    assert "an event subscriber failed" in caplog.text


@pytest.mark.covers("EV-14")
async def test_coroutine_subscribers_have_seen_everything_when_run_returns(agent_with, autojump_clock) -> None:
    seen: list[str] = []

    async def slow(event) -> None:
        await trio.sleep(0.5)
        seen.append(event.type)

    agent = agent_with(ScriptedProvider().text("a longer answer", chunks=5, delay=0.1), settings(streaming=True))
    agent.on_event(slow)
    session = await agent.run("go")
    assert [kind for kind in seen if kind != "stream_chunk"] == [event.type for event in session.events]
    assert seen.count("stream_chunk") >= 2


@pytest.mark.covers("EV-22")
async def test_subscribers_see_the_prompt(agent_with) -> None:
    prompts: list[str] = []
    agent = agent_with(ScriptedProvider().text("x"))
    agent.on_event(lambda event: prompts.append(event.content) if isinstance(event, UserMessage) else None)
    await agent.run("hello there")
    assert prompts == ["hello there"]


async def test_a_subscriber_that_hangs_can_be_cancelled_with_the_run(agent_with, autojump_clock) -> None:
    async def hang(event) -> None:
        await trio.sleep_forever()

    agent = agent_with(ScriptedProvider().text("x"))
    agent.on_event(hang)
    session = aar.Session()
    with trio.move_on_after(5) as scope:
        await agent.run("go", session)
    assert scope.cancelled_caught
    assert session.events[-1].type == "turn_ended"


# --- approvals --------------------------------------------------------------------------------


@pytest.mark.covers("SAFE-14")
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("answer", "asked", "ran"),
    [
        ("approved", 2, True),
        (aar.ApprovalResult.APPROVED_ALWAYS, 1, True),
        (aar.ApprovalResult.DENIED, 2, False),
        ("nonsense", 2, False),
    ],
)
async def test_an_approval_callback_decides(agent_with, answer, asked, ran, is_async) -> None:
    questions = []

    def decide(spec, call):
        questions.append((spec.name, call.arguments))
        return answer

    async def decide_later(spec, call):
        await trio.lowlevel.checkpoint()
        return decide(spec, call)

    provider = ScriptedProvider().call("bash", command="echo hi").call("bash", command="echo hi").text("x")
    callback = decide_later if is_async else decide
    session = await agent_with(provider, AgentConfig(), approval_callback=callback).run("go")
    assert questions == [("bash", {"command": "echo hi"})] * asked
    outputs = [event.output for event in session.events if isinstance(event, ToolResult)]
    assert outputs == ["hi\n" if ran else "Error [denied]: tool call denied by user"] * 2


@pytest.mark.covers("SAFE-18")
async def test_without_a_callback_every_question_is_denied(agent_with) -> None:
    provider = ScriptedProvider().call("bash", command="echo hi").text("x")
    session = await agent_with(provider, AgentConfig()).run("go")
    (result,) = [event for event in session.events if isinstance(event, ToolResult)]
    assert result.output.startswith("Error [denied]: ")


async def test_a_callback_that_fails_is_a_no(agent_with, caplog) -> None:
    def broken(spec, call):
        raise KeyError("what")

    provider = ScriptedProvider().call("bash", command="echo hi").text("x")
    session = await agent_with(provider, AgentConfig(), approval_callback=broken).run("go")
    (result,) = [event for event in session.events if isinstance(event, ToolResult)]
    assert result.output == "Error [denied]: tool call denied by user"
    assert "the approval callback failed" in caplog.text


async def test_always_holds_for_later_runs_of_a_session(agent_with) -> None:
    questions = []

    def always(spec, call):
        questions.append(call.tool_name)
        return "approved_always"

    provider = ScriptedProvider()
    for _ in range(3):
        provider.call("bash", command="echo hi").text("x")
    agent = agent_with(provider, AgentConfig(), approval_callback=always)
    session = await agent.run("go")
    await agent.run("go", session)
    async with agent:
        await agent.run("go", session)
    assert questions == ["bash"]


# --- tools and folders ------------------------------------------------------------------------


async def test_files_of_its_folder_are_allowed_and_others_are_not(agent_with, tmp_path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "a.txt").write_text("inside\n")
    (tmp_path / "b.txt").write_text("outside\n")
    provider = ScriptedProvider()
    for path in ("a.txt", str(folder / "a.txt"), str(tmp_path / "b.txt"), "../b.txt"):
        provider.call("read_file", path=path)
    session = await agent_with(provider.text("x"), AgentConfig(), cwd=folder).run("go")
    outputs = [event.output for event in session.events if isinstance(event, ToolResult)]
    assert ["inside" in output for output in outputs] == [True, True, False, False]
    assert [output.startswith("Error [blocked]: ") for output in outputs] == [False, False, True, True]


@pytest.mark.covers("CFG-15", "TOOL-12")
async def test_an_agent_has_the_builtins_that_are_enabled_and_all_that_are_brought(agent_with) -> None:
    tools = ToolRegistry()
    tools.register("mine")(lambda: "x")
    agent = agent_with(ScriptedProvider(), AgentConfig(tools={"enabled_builtins": ["bash"]}), registry=tools)
    assert agent.registry.names() == ["bash", "mine"]
    assert tools.names() == ["mine"]


@pytest.mark.covers("CFG-16")
async def test_a_system_prompt_of_ones_own_is_used_as_it_is(agent_with) -> None:
    provider = ScriptedProvider().text("x")
    await agent_with(provider, AgentConfig(system_prompt="You are a pirate.")).run("go")
    assert provider.requests[0].system == "You are a pirate."


async def test_an_agent_stays_where_it_was_made(agent_with, tmp_path, monkeypatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    provider = ScriptedProvider().call("bash", command="pwd").text("x")
    config = AgentConfig(safety=SafetyConfig(require_approval_for_execute=False, allowed_paths=[]))
    agent = agent_with(provider, config)
    monkeypatch.chdir(tmp_path / "elsewhere")
    session = await agent.run("go")
    assert [event.output for event in session.events if isinstance(event, ToolResult)] == [f"{tmp_path}\n"]


# --- models -----------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-45", "EV-21")
async def test_another_model_is_chosen_by_profile_or_name(agent_with) -> None:
    profiles = {
        "fast": ProviderConfig(name="generic", model="tiny"),
        "a/b": ProviderConfig(name="generic", model="gpt"),
    }
    agent = agent_with(ScriptedProvider(), settings(providers=profiles))
    session = aar.Session()
    assert agent.switch_provider("fast", session) == "generic/tiny"
    assert agent.switch_provider("a/b", session) == "generic/gpt"
    assert agent.switch_provider("generic/org/model", session) == "generic/org/model"
    assert agent.switch_provider(ProviderConfig(name="gemini", model="pro")) == "gemini/pro"
    assert agent.config.resolve_provider().label == "gemini/pro"
    switches = [
        (event.from_provider, event.from_model, event.to_provider, event.to_model)
        for event in session.events
        if isinstance(event, ProviderSwitchEvent)
    ]
    assert switches == [
        ("anthropic", "claude-sonnet-4-6", "generic", "tiny"),
        ("generic", "tiny", "generic", "gpt"),
        ("generic", "gpt", "generic", "org/model"),
    ]


@pytest.mark.covers("LOOP-45")
@pytest.mark.parametrize(
    ("profiles", "available"), [({}, "(none)"), ({"b": ProviderConfig(), "a": ProviderConfig()}, "a, b")]
)
async def test_a_model_nobody_knows_is_refused_with_those_there_are(agent_with, profiles, available) -> None:
    agent = agent_with(ScriptedProvider(), settings(providers=profiles))
    for choice in ("unknown", "/x", "x/", ""):
        with pytest.raises(ValueError, match=rf"{available.replace('(', '[(]').replace(')', '[)]')}$"):
            agent.switch_provider(choice)
    with pytest.raises(ValueError, match="Unknown provider: 'nobody'"):
        agent.switch_provider("nobody/model")
    assert agent.config.resolve_provider().label == "anthropic/claude-sonnet-4-6"


@pytest.mark.covers("LOOP-46")
async def test_a_model_that_lacks_what_the_conversation_has_is_warned_of(agent_with, caplog) -> None:
    poor = ProviderConfig(name="generic", model="tiny", extra={"supports_tools": False})
    agent = agent_with(ScriptedProvider())
    plain, rich = aar.Session(), aar.Session()
    rich.append(ToolCall(tool_name="x"))
    rich.add_user_message([IMAGE])
    with caplog.at_level(logging.WARNING):
        agent.switch_provider(poor, plain)
        assert caplog.records == []
        agent.switch_provider(poor, rich)
    assert [record.getMessage() for record in caplog.records] == [
        "generic/tiny has no tools, and the conversation has tool calls",
        "generic/tiny sees no images, and the conversation has some",
    ]


def test_a_provider_nobody_knows_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(ValueError, match=r"Unknown provider: 'nobody'\. Available: anthropic, gemini"):
        aar.Agent(AgentConfig(provider=ProviderConfig(name="nobody")))


@pytest.mark.covers("LOOP-49")
async def test_a_provider_that_was_passed_in_is_closed_once_with_the_agent_and_never_by_a_bare_run(agent_with) -> None:
    provider = ScriptedProvider().text("x").forever()
    agent = agent_with(provider)
    await agent.run("go")
    assert provider.closed == 0
    async with agent:
        await agent.run("go")
        await agent.run("go")
        assert provider.closed == 0
    assert provider.closed == 1


async def test_an_error_in_the_block_of_an_agent_leaves_it_as_it_is(agent_with) -> None:
    async def fail() -> None:
        async with agent_with(ScriptedProvider().text("x")) as agent:
            await agent.run("go")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail()


# --- the package ------------------------------------------------------------------------------


NAMES = """Agent AgentConfig AgentState AssistantMessage ErrorEvent Event EventType GuardrailsConfig ProviderConfig
ProviderMeta ReasoningBlock SafetyConfig Session SessionEvent StopReason ToolCall ToolConfig ToolResult UserMessage
__version__"""


@pytest.mark.covers("PKG-02")
def test_the_package_offers_what_programs_need() -> None:
    names = set(NAMES.split())
    assert [name for name in names if not hasattr(aar, name)] == []
    assert names <= set(aar.__all__)
