"""Modes, options and the choice of a model: in memory, told from every side, in force from the next call on."""

from __future__ import annotations

import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.settings import AgentConfig, merge_settings
from aar.transports.acp.modes import mode_of, option_patch, options_of

BOOLEANS = {"session": {"configOptions": {"boolean": {}}}}


def current(options):
    return {option["id"]: option["currentValue"] for option in options}


@pytest.mark.covers("ACP-20")
@pytest.mark.parametrize(
    ("read_only", "writes", "execute", "expected"),
    [
        (True, False, False, ("read-only", False, False, True)),
        (True, True, True, ("read-only", False, False, True)),
        (False, True, True, ("review", False, False, False)),
        (False, False, False, ("auto", True, True, False)),
        (False, False, True, ("review", True, False, False)),
        (False, True, False, ("review", False, True, False)),
    ],
)
def test_settings_amount_to_a_mode_and_three_switches(read_only, writes, execute, expected):
    safety = {
        "read_only": read_only,
        "require_approval_for_writes": writes,
        "require_approval_for_execute": execute,
    }
    config = AgentConfig.model_validate({"safety": safety})
    assert mode_of(config.safety) == expected[0]
    values = current(options_of(config, config, booleans=True))
    assert (values["auto_approve_writes"], values["auto_approve_execute"], values["read_only"]) == expected[1:]


@pytest.mark.covers("ACP-16", "ACP-17", "ACP-21")
async def test_a_mode_changes_settings_in_memory_alone_and_is_told_in_both_ways(editor, place):
    place.configure(safety={"require_approval_for_writes": False, "require_approval_for_execute": False})
    before = (place.home / "config.json").read_text()
    async with editor() as client:
        session = await client.new(place.project)
        for mode in ("read-only", "review", "auto", "read-only"):
            at = len(client.frames)
            assert await client.ask("session/set_mode", sessionId=session, modeId=mode) == {}
            assert client.kinds(session, after=at) == ["current_mode_update", "config_option_update"]
            first, second = client.updates(session, after=at)
            assert first["currentModeId"] == mode
            assert current(second["configOptions"])["mode"] == mode
        refused = await client.refusal("session/set_mode", sessionId=session, modeId="yolo")
        assert refused.code == -32602
        assert refused.message.startswith("Unknown session mode: 'yolo'")
        assert (await client.refusal("session/set_mode", sessionId=session)).code == -32602
        other = await client.ask("session/new", cwd=str(place.project), mcpServers=[])
        assert other["modes"]["currentModeId"] == "auto"
        again = await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert again["modes"]["currentModeId"] == "read-only"
    assert (place.home / "config.json").read_text() == before
    async with editor() as client:
        fresh = await client.ask("session/resume", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert fresh["modes"]["currentModeId"] == "auto"


@pytest.mark.covers("ACP-18")
async def test_a_client_that_knows_switches_gets_three_of_them(editor, place):
    async with editor(**BOOLEANS) as client:
        answer = await client.ask("session/new", cwd=str(place.project), mcpServers=[])
        session = answer["sessionId"]
        assert [(one["id"], one["type"]) for one in answer["configOptions"]] == [
            ("model", "select"),
            ("mode", "select"),
            ("auto_approve_writes", "boolean"),
            ("auto_approve_execute", "boolean"),
            ("read_only", "boolean"),
        ]

        async def switch(option: str, value: bool) -> dict[str, object]:
            params = {"sessionId": session, "configId": option, "type": "boolean", "value": value}
            return current((await client.ask("session/set_config_option", **params))["configOptions"])

        off = {"model": "generic/tiny", "auto_approve_writes": False, "auto_approve_execute": False, "read_only": False}
        assert await switch("auto_approve_writes", True) == {**off, "mode": "review", "auto_approve_writes": True}
        on = {"auto_approve_writes": True, "auto_approve_execute": True}
        assert await switch("auto_approve_execute", True) == {**off, **on, "mode": "auto"}
        assert await switch("read_only", True) == {**off, "mode": "read-only", "read_only": True}
        assert await switch("read_only", False) == {**off, **on, "mode": "auto"}
        wrong = {"sessionId": session, "configId": "read_only", "value": "yes"}
        assert (await client.refusal("session/set_config_option", **wrong)).code == -32602


@pytest.mark.covers("ACP-19", "ACP-24")
async def test_a_model_is_chosen_by_its_profile_and_asked_from_then_on(editor, place, model):
    fast = {"name": "generic", "model": "mini", "base_url": model.url, "api_key": "sk-of-the-profile"}
    place.configure(providers={"fast": fast})
    model.says("Tiny.").says("Mini.").says("Tiny again.")
    async with editor("--api-key", "sk-of-the-flag") as client:
        answer = await client.ask("session/new", cwd=str(place.project), mcpServers=[])
        session, option = answer["sessionId"], answer["configOptions"][0]
        assert (option["id"], option["category"], option["type"]) == ("model", "model", "select")
        assert option["currentValue"] == "generic/tiny"
        assert option["options"] == [
            {"value": "generic/tiny", "name": "generic/tiny"},
            {"value": "fast", "name": "generic/mini"},
        ]

        async def choose(value: object) -> list[dict[str, object]]:
            params = {"sessionId": session, "configId": "model", "value": value}
            return (await client.ask("session/set_config_option", **params))["configOptions"]

        await client.prompt(session, "one")
        options = await choose("fast")
        assert [one["id"] for one in options] == ["model", "mode"]
        assert options[0]["currentValue"] == "fast"
        await client.prompt(session, "two")
        assert (await choose("generic/tiny"))[0]["currentValue"] == "generic/tiny"
        await client.prompt(session, "three")
        assert [one["model"] for one in model.requests] == ["tiny", "mini", "tiny"]
        keys = [one["authorization"] for one in model.headers]
        assert keys == ["bearer sk-of-the-flag", "bearer sk-of-the-profile", "bearer sk-of-the-flag"]
        for value in (7, "", None):
            wrong = {"sessionId": session, "configId": "model", "value": value}
            assert (await client.refusal("session/set_config_option", **wrong)).code == -32602
        wrong = {"sessionId": session, "configId": "colour", "value": "red"}
        assert (await client.refusal("session/set_config_option", **wrong)).message == "Unknown config option: 'colour'"
        everything = json.dumps(client.frames)
        assert "sk-of-the" not in everything


@pytest.mark.covers("ACP-23")
@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("claude-x", "anthropic/claude-x"),
        ("gpt-x", "openai/gpt-x"),
        ("o1-x", "openai/o1-x"),
        ("o3-x", "openai/o3-x"),
        ("o4-x", "openai/o4-x"),
        ("chatgpt-x", "openai/chatgpt-x"),
        ("gemini-x", "gemini/gemini-x"),
        ("llama-x", "ollama/llama-x"),
        ("gemini/anything", "gemini/anything"),
        ("fast", "openai/o9"),
    ],
)
def test_a_model_that_is_no_profile_goes_to_the_provider_that_its_name_tells(name, label):
    config = AgentConfig.model_validate(
        {
            "provider": {"name": "anthropic", "model": "claude", "api_key": "sk-secret"},
            "providers": {"fast": {"name": "openai", "model": "o9"}},
        }
    )
    changed = config.patched(option_patch(config, config, "model", name)).resolve_provider()
    assert changed.label == label
    assert changed.api_key == ("sk-secret" if changed.name == "anthropic" else "")


PROVIDERS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["generic", "ollama"]),
        "model": st.sampled_from(["a", "b"]),
        "base_url": st.sampled_from(["", "http://other:1"]),
    }
)
KEYS = st.sampled_from(["fast", "generic/a", "ollama/b", "generic/a (no profile)", "a"])


@given(
    provider=PROVIDERS,
    providers=st.dictionaries(KEYS, PROVIDERS, max_size=3),
    name=st.sampled_from(["a", "b", "generic/a", "ollama/b", "fast", "generic/a (no profile)"]),
)
def test_whatever_profiles_are_called_each_value_of_the_option_chooses_its_own_model(provider, providers, name):
    base = AgentConfig.model_validate({"provider": provider, "providers": providers})
    first = option_patch(base, base, "model", name)
    config = base.patched(first)
    [option] = [one for one in options_of(base, config, booleans=False) if one["id"] == "model"]
    values = [one["value"] for one in option["options"]]
    assert len(set(values)) == len(values)
    changes = {value: option_patch(base, config, "model", value) for value in values}
    assert all(not change or isinstance(change["provider"], str | None) for change in changes.values())
    chosen = {value: base.patched(merge_settings(first, change)) for value, change in changes.items()}
    chosen = {value: changed.resolve_provider() for value, changed in chosen.items()}
    assert chosen[option["currentValue"]] == config.resolve_provider()
    assert {key: chosen[key] for key in base.providers} == base.providers
    assert base.resolve_provider() in chosen.values()


async def test_a_profile_that_is_called_by_the_name_of_the_model_keeps_no_session_from_opening(editor, place, model):
    place.configure(providers={"generic/tiny": {"name": "generic", "model": "tiny", "base_url": "http://127.0.0.1:9"}})
    model.says("From the flags.")
    async with editor() as client:
        opened = await client.ask("session/new", cwd=str(place.project), mcpServers=[])
        session, own = opened["sessionId"], current(opened["configOptions"])["model"]
        for value in ("generic/tiny", own):
            params = {"sessionId": session, "configId": "model", "value": value}
            assert current((await client.ask("session/set_config_option", **params))["configOptions"])["model"] == value
        assert await client.prompt(session, "who are you?") == "end_turn"
        assert client.text(session) == "From the flags."


@pytest.mark.covers("ACP-23")
async def test_the_old_method_for_models_is_gone(editor, place):
    async with editor() as client:
        session = await client.new(place.project)
        assert (await client.refusal("session/set_model", sessionId=session, modelId="x")).code == -32601


@pytest.mark.covers("ACP-22")
async def test_a_change_during_a_prompt_is_in_force_for_its_next_tool_call(editor, place, model):
    hold = trio.Event()
    model.calls("write_file", path="a.txt", content="a")
    model.says("Now", " the other.", wait=hold, calls=(("write_file", {"path": "b.txt", "content": "b"}),))
    model.says("Done.")
    async with editor() as client:
        client.decides("reject_once")
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "write both")
        await client.until(lambda frame: "Now" in str(frame.get("params", {}).get("update", {}).get("content")))
        await client.ask("session/set_mode", sessionId=session, modeId="auto")
        hold.set()
        assert await client.answer_to(prompt) == {"stopReason": "end_turn"}
        assert len(client.asked) == 1
        assert [(place.project / name).exists() for name in ("a.txt", "b.txt")] == [False, True]


@pytest.mark.covers("ACP-28")
@pytest.mark.parametrize("value", [True, "5", float("nan"), float("inf"), -1])
def test_a_time_limit_for_answers_is_a_number_of_seconds(value):
    with pytest.raises(ValueError, match="acp_approval_timeout"):
        AgentConfig.model_validate({"safety": {"acp_approval_timeout": value}})


# --- agents and modes of the user ---------------------------------------------------------------


@pytest.fixture
def roles(place):
    def write(name: str, text: str) -> None:
        file = place.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("modes/plan.md", "---\ndescription: Only plans.\ntools: {only: [read_file]}\n---\nMake a plan.")
    write("modes/auto.md", "---\ndescription: Has the name of one of ours.\n---\n")
    write("agents/coder.md", "---\ndescription: Writes.\nmax_steps: 9\n---\nYou code.")
    return write


async def test_modes_of_the_user_are_offered_beside_ours_and_agents_as_an_option(editor, place, roles, model):
    model.says("one").says("two").says("three")
    async with editor() as client:
        opened = await client.ask("session/new", cwd=str(place.project), mcpServers=[])
        session, modes = opened["sessionId"], opened["modes"]
        assert [mode["id"] for mode in modes["availableModes"]] == ["auto", "review", "read-only", "plan"]
        assert modes["availableModes"][-1]["description"] == "Only plans."
        assert current(opened["configOptions"])["agent"] == "none"
        await client.ask("session/set_mode", sessionId=session, modeId="plan")
        await client.prompt(session, "hi")
        assert [tool["function"]["name"] for tool in model.requests[0]["tools"]] == ["read_file"]
        told = await client.ask("session/set_config_option", sessionId=session, configId="agent", value="coder")
        assert current(told["configOptions"])["agent"] == "coder"
        assert current(told["configOptions"])["mode"] == "plan"
        await client.prompt(session, "hi")
        assert "You code.\n---\nMake a plan." in model.requests[1]["messages"][0]["content"]
        await client.ask("session/set_mode", sessionId=session, modeId="read-only")
        await client.prompt(session, "hi")
        assert len(model.requests[2]["tools"]) > 1
        assert "Make a plan." not in model.requests[2]["messages"][0]["content"]
        refused = await client.refusal("session/set_config_option", sessionId=session, configId="agent", value="cdr")
        assert "There is no agent 'cdr'." in refused.message


async def test_a_session_begins_as_the_agent_of_the_settings_and_a_loaded_one_as_it_was_left(editor, place, roles):
    place.configure(agent="coder")
    async with editor() as client:
        opened = await client.ask("session/new", cwd=str(place.project), mcpServers=[])
        session = opened["sessionId"]
        assert current(opened["configOptions"])["agent"] == "coder"
        await client.ask("session/set_mode", sessionId=session, modeId="plan")
        await client.ask("session/close", sessionId=session)
        loaded = await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert (loaded["modes"]["currentModeId"], current(loaded["configOptions"])["agent"]) == ("plan", "coder")


async def test_a_file_that_is_wrong_is_told_before_the_answer_and_changes_nothing(editor, place, roles, model):
    model.says("one").says("two")
    async with editor() as client:
        session = await client.new(place.project)
        await client.ask("session/set_mode", sessionId=session, modeId="plan")
        roles("modes/plan.md", "---\nnope: 1\n---\n")
        await client.prompt(session, "hi")
        assert [tool["function"]["name"] for tool in model.requests[0]["tools"]] == ["read_file"]
        assert 'unknown key "nope"' in client.text(session)


async def test_without_agents_nothing_of_them_is_offered(editor, place):
    async with editor() as client:
        opened = await client.ask("session/new", cwd=str(place.project), mcpServers=[])
        assert "agent" not in current(opened["configOptions"])
        refused = await client.refusal(
            "session/set_config_option", sessionId=opened["sessionId"], configId="agent", value="x"
        )
        assert refused.code == -32602
