"""Agents and modes in a session: what the model gets, switching, files that change, and agents that take over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aar.client import SessionHandle
from aar.errors import ConfigError, ContentRefused, ProviderError, ProviderRateLimited, ProviderUnavailable
from aar.messages.events import ConfigChanged, ErrorEvent, Notice, ProviderSwitchEvent, ToolCall, ToolResult
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.roles import Places, Roles, roles_of_session
from aar.runtime import open_runtime
from aar.testing import ScriptedAnswer, ScriptedProvider, facts_of

PLAIN = AgentConfig.model_validate(
    {
        "provider": "plain",
        "providers": {name: {"name": "scripted", "model": name} for name in ("plain", "big", "small")},
        "max_retries": 1,
        "safety": {"require_approval_for_execute": False, "allowed_paths": []},
    }
)


class Models:
    """Scripted models: each says its name, or what it is told to; `requests` is what all of them were asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.requests: list[tuple[str, Any]] = []
        self.built: list[str] = []

    def __call__(self, config: ProviderConfig) -> ScriptedProvider:
        self.built.append(config.model)

        def reply(request: Any) -> Any:
            self.requests.append((config.model, request))
            told = self.answers.get(config.model, f"I am {config.model}")
            return told.pop(0) if isinstance(told, list) and told else told or "done"

        return ScriptedProvider(config).reply(reply).forever()

    @property
    def newest(self) -> tuple[str, list[str], str]:
        """Which model was asked last, with which tools, and the end of its prompt."""
        model, request = self.requests[-1]
        return model, sorted(tool.name for tool in request.tools or ()), request.system.rpartition("\n---\n")[2]


class World:
    def __init__(self, folder: Path, models: Models) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        self.models = models

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @asynccontextmanager
    async def session(self, config: AgentConfig = PLAIN) -> AsyncIterator[tuple[SessionHandle, Roles]]:
        async with open_runtime(config, home=self.home, build_provider=self.models) as runtime:
            handle = await runtime.sessions.open(str(self.project))
            yield handle, Roles(config, Places(self.home, str(self.project)))


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture
def world(tmp_path: Path, models: Models) -> World:
    return World(tmp_path, models)


READER = """---
provider: small
tools: {only: [read_file, grep]}
safety: {read_only: true}
---
You read {{ tools | join(' ') }}.
"""
CODER = "---\nprovider: big\nmax_steps: 9\n---\nYou code."


@pytest.mark.covers("AURA-14")
async def test_another_agent_brings_model_tools_and_prompt_in_one_change_and_the_conversation_stays(world, models):
    world.write("agents/reader.md", READER)
    world.write("agents/coder.md", CODER)
    async with world.session() as (session, roles):
        await roles.begin(session, "coder")
        await session.prompt("one")
        assert models.newest[0] == "big"
        assert "bash" in models.newest[1]
        assert models.newest[2] == "You code."
        before = len(facts_of(session))
        change = await roles.switch(session, "agent", "READER")
        assert [type(fact) for fact in facts_of(session)[before:]] == [ConfigChanged, ProviderSwitchEvent]
        await session.prompt("two")
        assert models.newest == ("small", ["grep", "read_file"], "You read grep read_file.")
        said = [message["content"] for message in models.requests[-1][1].messages]
        assert said == ["one", "I am big", "two"]
        assert (change.config.agent, change.config.max_steps, change.config.safety.read_only) == ("reader", 50, True)
        await roles.switch(session, "agent", "none")
        await session.prompt("three")
        assert models.newest[0] == "plain"
        assert "bash" in models.newest[1]
        assert roles.in_force(session) == ("", "")


@pytest.mark.covers("AURA-115")
async def test_names_of_agents_and_modes_may_be_typed_in_any_case(world):
    world.write("agents/High.md", CODER)
    world.write("modes/plan.md", "Plan.")
    async with world.session() as (session, roles):
        assert (await roles.switch(session, "agent", "hIGH")).config.agent == "High"
        assert (await roles.switch(session, "mode", "PLAN")).config.mode == "plan"
        assert await roles_of_session(roles, session, "agent") == (("*", "High", ""),)


async def test_a_mode_changes_tools_rules_and_prompt_and_leaves_the_model_that_was_chosen(world, models):
    world.write("agents/coder.md", CODER)
    world.write("modes/plan.md", "---\ntools: {without: [bash, '*_file']}\n---\nOnly plan.")
    async with world.session() as (session, roles):
        await roles.begin(session, "coder")
        await session.configure({"provider": "small"})
        await roles.switch(session, "mode", "plan")
        await session.prompt("hi")
        assert models.newest == ("small", ["find_files", "grep", "list_directory"], "Only plan.")
        await roles.switch(session, "mode", "none")
        await session.prompt("hi")
        assert models.newest[0] == "small"
        assert "bash" in models.newest[1]


async def test_the_first_mode_of_a_session_leaves_the_model_that_was_chosen_too(world, models):
    world.write("modes/plan.md", "Only plan.")
    async with world.session() as (session, roles):
        await session.configure({"provider": "small", "max_steps": 9})
        config = (await roles.switch(session, "mode", "plan")).config
        assert (config.resolve_provider().model, config.max_steps) == ("small", 9)
        other = Roles(PLAIN, roles.places)
        config = (await other.switch(session, "mode", "none")).config
        assert (config.resolve_provider().model, config.max_steps, config.prompts) == ("small", 9, {})


@pytest.mark.covers("AURA-06")
async def test_another_mode_rebuilds_what_follows_from_settings_and_nothing_else(world, models):
    world.write("modes/plan.md", "---\ntools: {without: [bash]}\n---\nOnly plan.")
    async with world.session() as (session, roles):
        await session.prompt("one")
        config, status = await session.configure({}), await session.status()
        fold, records = session._journal.session, session.records()
        changed = (await roles.switch(session, "mode", "plan")).config
        after = await session.status()
        assert changed is not config
        assert changed.safety == config.safety
        kept = ("session_id", "state", "step_count", "input_tokens", "output_tokens", "cost", "queue_length")
        assert [getattr(after, name) for name in kept] == [getattr(status, name) for name in kept]
        await session.prompt("two")
        assert models.built == ["plain"]  # the model that was open stays open
        assert session._journal.session is fold
        assert all(now is then for now, then in zip(session.records(), records, strict=False))
        assert models.newest[2] == "Only plan."


async def test_an_agent_may_begin_in_a_mode_of_its_own(world, models):
    world.write("agents/planner.md", "---\nmode: plan\n---\nPlanner.")
    world.write("agents/coder.md", CODER)
    world.write("modes/plan.md", "Only plan.")
    async with world.session() as (session, roles):
        await roles.begin(session, "planner")
        assert roles.in_force(session) == ("planner", "plan")
        await roles.switch(session, "agent", "coder")
        assert roles.in_force(session) == ("coder", "plan")
        await roles.begin(session, "planner", "")
        assert roles.in_force(session) == ("planner", "")


async def test_a_tool_that_is_gone_is_unknown_also_to_a_model_that_calls_it(world, models):
    world.write("agents/reader.md", READER)
    models.answers["small"] = [
        ScriptedAnswer(calls=(ToolCall(tool_name="bash", arguments={"command": "touch x"}),)),
        "ok",
    ]
    async with world.session() as (session, roles):
        await roles.begin(session, "reader")
        await session.prompt("go")
        [result] = [fact for fact in facts_of(session) if isinstance(fact, ToolResult)]
        assert result.is_error
        assert "unknown tool 'bash'" in result.output
    assert not (world.project / "x").exists()


@pytest.mark.covers("AURA-07")
async def test_a_file_that_was_edited_holds_from_the_next_turn_and_a_bad_one_changes_nothing(world, models):
    file = world.write("agents/coder.md", CODER)
    async with world.session() as (session, roles):
        await roles.begin(session, "coder")
        assert await roles.refresh(session) is None
        file.write_text("---\nprovider: small\n---\nYou code well.")
        change = await roles.refresh(session)
        assert change is not None
        assert change.config.max_steps == 50
        await session.prompt("one")
        assert (models.newest[0], models.newest[2]) == ("small", "You code well.")
        file.write_text("---\nprovidr: small\n---\n")
        with pytest.raises(ConfigError, match="Did you mean"):
            await roles.refresh(session)
        await session.prompt("two")
        assert (models.newest[0], models.newest[2]) == ("small", "You code well.")
        file.write_text("---\nprovider: small\n---\nYou code well again.")
        await roles.refresh(session)
        await session.prompt("three")
        assert models.newest[2] == "You code well again."


async def test_an_edit_leaves_what_was_changed_in_the_session(world, models):
    file = world.write("agents/coder.md", CODER)
    async with world.session() as (session, roles):
        await roles.begin(session, "coder")
        await session.configure({"provider": "small"})
        file.write_text(CODER + " Well.")
        await roles.refresh(session)
        await session.prompt("one")
        assert (models.newest[0], models.newest[2]) == ("small", "You code. Well.")


async def test_without_agents_nothing_is_read_before_a_turn(world):
    async with world.session() as (session, roles):
        world.write("agents/bad.md", "---\nnope: 1\n---\n")
        assert await roles.refresh(session) is None


async def test_a_file_of_a_project_that_changes_meanwhile_loosens_nothing(world):
    """Whoever is in the project can write there, and so can the model."""
    file = world.project / ".aar" / "agents" / "theirs.md"
    file.parent.mkdir(parents=True)
    file.write_text("Theirs.\n")
    async with world.session() as (session, roles):
        await roles.begin(session, "theirs")
        assert await roles.refresh(session) is None
        await session.configure({"safety": {"read_only": True}})
        file.write_text("---\nsafety: {deny: [grep]}\n---\nTheirs.\n")
        assert await roles.refresh(session) is not None
        safety = (await session.configure({})).safety
        assert (safety.read_only, safety.deny) == (True, ["grep"])
        file.write_text("Theirs.\n")
        await roles.refresh(session)
        assert (await session.configure({})).safety.read_only


# --- agents that take over ----------------------------------------------------------------------


def fallbacks(world: World) -> None:
    world.write("agents/first.md", "---\nprovider: big\nfallback: [second, Third]\n---\nFirst.")
    world.write("agents/second.md", "---\nprovider: small\ntools: {only: [grep]}\n---\nSecond.")
    world.write("agents/third.md", "Third.")


def failing(error: ProviderError) -> ScriptedAnswer:
    return ScriptedAnswer(error=error)


@pytest.mark.covers("AURA-15")
@pytest.mark.parametrize(
    "error",
    [
        ProviderUnavailable("overloaded", status=529),
        ProviderRateLimited("slow down", status=429),
        ProviderError("no credit", status=402),
        ProviderError("no such model", status=404),
    ],
    ids=["server", "rate", "credit", "model"],
)
async def test_the_next_agent_takes_over_with_all_it_brings_when_a_model_is_out_of_reach(world, models, error):
    fallbacks(world)
    models.answers["big"] = failing(error)
    async with world.session() as (session, roles):
        await roles.begin(session, "first")
        ended = await session.prompt("hi")
        assert ended.stop == "end_turn"
        assert models.newest == ("small", ["grep"], "Second.")
        assert roles.in_force(session)[0] == "second"
        [notice] = [fact for fact in facts_of(session) if isinstance(fact, Notice)]
        assert (notice.kind, notice.data) == ("fallback", {"agent": "second"})
        models.answers["small"] = failing(error)
        await session.prompt("again")
        assert (models.newest[0], models.newest[2]) == ("plain", "Third.")
        models.answers["plain"] = failing(error)
        assert (await session.prompt("again")).stop == "error"
        assert [model for model, _ in models.requests] == ["big", "small", "small", "plain", "plain"]


async def test_rules_never_become_looser_because_a_model_is_out_of_reach(world, models):
    fallbacks(world)
    world.write("agents/third.md", "---\nsafety: {read_only: false, deny: [grep], auto: [bash]}\n---\nThird.")
    for name in ("big", "small"):
        models.answers[name] = failing(ProviderUnavailable("overloaded", status=529))
    async with world.session() as (session, roles):
        await roles.begin(session, "first")
        config = await session.configure({"safety": {"read_only": True, "deny": ["bash:rm*"]}})
        assert (await session.prompt("hi")).stop == "end_turn"
        assert roles.in_force(session)[0] == "third"
        after = (await session.configure({})).safety
        assert (after.read_only, after.deny, after.auto) == (True, ["bash:rm*", "grep"], [])
        assert after.allowed_paths == config.safety.allowed_paths


@pytest.mark.covers("AURA-15")
async def test_what_a_model_refuses_stays_refused(world, models):
    fallbacks(world)
    models.answers["big"] = failing(ContentRefused("not that"))
    async with world.session() as (session, roles):
        await roles.begin(session, "first")
        assert (await session.prompt("hi")).stop == "refused"
        assert [model for model, _ in models.requests] == ["big"]
        assert any(isinstance(fact, ErrorEvent) for fact in facts_of(session))
        assert roles.in_force(session)[0] == "first"


async def test_a_fallback_that_is_not_there_is_told_at_once(world):
    world.write("agents/first.md", "---\nfallback: secnd\n---\n")
    world.write("agents/second.md", "")
    async with world.session() as (session, roles):
        with pytest.raises(ConfigError, match="Did you mean"):
            await roles.begin(session, "first")
        assert roles.in_force(session) == ("", "")


# --- tools with conditions ----------------------------------------------------------------------


SERVER = {"name": "generic", "base_url": "http://127.0.0.1:9/v1"}
WITH_CONDITIONS = PLAIN.patched(
    {
        "provider": "eyes",
        "providers": {
            "eyes": {**SERVER, "model": "eyes", "extra": {"supports_vision": True}},
            "blind": {**SERVER, "model": "blind"},
        },
        "tools": {"definitions": {"grep": {"condition": "model_has:vision"}, "read_file": {"condition": "turns_gt:1"}}},
    }
)


@pytest.mark.covers("AURA-69")
async def test_a_condition_brings_and_takes_a_tool_from_turn_to_turn(world, models):
    async with world.session(WITH_CONDITIONS) as (session, _):
        await session.prompt("with eyes")
        assert "grep" in models.newest[1]
        await session.configure({"provider": "blind"})
        await session.prompt("without")
        assert "grep" not in models.newest[1]
        await session.configure({"provider": "eyes"})
        await session.prompt("with eyes again")
        assert "grep" in models.newest[1]
        assert ["read_file" in [tool.name for tool in request.tools] for _, request in models.requests] == [
            False,
            False,
            True,  # more than one turn is over
        ]


async def test_a_condition_that_cannot_be_asked_is_told_when_the_session_or_the_agent_begins(world):
    for condition, told in (("bash:ls", "`bash:` cannot be asked here"), ("modl_has:x", "condition")):
        config = PLAIN.patched({"tools": {"definitions": {"grep": {"condition": condition}}}})
        with pytest.raises(ConfigError, match=told):
            async with world.session(config):
                pass
        world.write("agents/bad.md", f"---\ntools: {{definitions: {{grep: {{condition: '{condition}'}}}}}}\n---\n")
        async with world.session() as (session, roles):
            with pytest.raises(ConfigError, match=told):
                await roles.begin(session, "bad")


async def test_definitions_of_one_agent_are_gone_with_it(world, models):
    world.write("agents/one.md", "---\ntools: {definitions: {bash: {usage: Rarely.}, grep: {disabled: true}}}\n---\n")
    world.write("agents/two.md", "---\ninherit: one\ntools: {definitions: {bash: {parallel: false}}}\n---\n")
    world.write("agents/three.md", "---\ntools: {definitions: {find_files: {disabled: true}}}\n---\n")
    async with world.session() as (session, roles):
        config = await session.configure({})
        for name, expected in (
            ("one", {"bash": {"usage": "Rarely."}, "grep": {"disabled": True}}),
            ("two", {"bash": {"usage": "Rarely.", "parallel": False}, "grep": {"disabled": True}}),
            ("three", {"find_files": {"disabled": True}}),
            ("none", {}),
        ):
            config = (await roles.switch(session, "agent", name)).config
            assert config.tools.definitions == expected
        assert config == PLAIN.model_copy(update={"provider": PLAIN.resolve_provider()})
