"""From an agent and a mode to settings, and to the one change that brings a session there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aar.config.agents import Facts, Home, Switch, Whole, load, switched, whole
from aar.errors import ConfigError, InvalidSetting
from aar.messages.settings import AgentConfig, merge_settings


def config(**fields: Any) -> AgentConfig:
    return AgentConfig.model_validate({"provider": {"name": "generic", "model": "plain", "api_key": "key-1"}, **fields})


def wholes(home: Path, agent: str = "", mode: str = "") -> tuple[Whole | None, Whole | None]:
    library = load({"agents", "modes"}, [Home(home)])
    return (
        whole(library.agents, agent) if agent else None,
        whole(library.modes, mode) if mode else None,
    )


def change(home: Path, plain: AgentConfig, agent: str = "", mode: str = "", facts: Facts | None = None) -> Switch:
    """The change, after making sure that it brings any session of these settings to what it says."""
    switch = switched(plain, *wholes(home, agent, mode), facts or Facts())
    after = plain.patched(merge_settings({}, dict(switch.patch)))
    assert settled(after) == settled(switch.config)
    return switch


def settled(config: AgentConfig) -> AgentConfig:
    return config.model_copy(update={"provider": config.resolve_provider()})


def front(**said: Any) -> str:
    return f"---\n{json.dumps(said)}\n---\n"


def test_an_agent_changes_settings_and_adds_to_the_prompt(home, write):
    write("home/agents/a.md", front(max_steps=7, tools={"only": ["grep"], "without": ["b*"]}) + "\nBe an a.\n")
    switch = change(home, config(), "a")
    assert (switch.config.agent, switch.config.max_steps) == ("a", 7)
    assert switch.config.tools.filters == {"agent": ["grep", "!b*"]}
    assert switch.config.prompts == {"agent": "Be an a."}
    assert switch.config.resolve_provider() == config().resolve_provider()


@pytest.mark.parametrize(
    ("said", "model"),
    [
        ({"model": "m"}, ("generic", "m", "key-1")),
        ({"provider": {"model": "m", "max_tokens": 9}}, ("generic", "m", "key-1")),
        ({"provider": "fast"}, ("openai", "quick", "key-2")),
        ({"provider": "ollama", "model": "m"}, ("ollama", "m", "")),
        ({"provider": {"name": "ollama", "model": "m"}}, ("ollama", "m", "")),
        ({"provider": "open", "model": "m"}, ("generic", "m", "")),
        ({}, ("generic", "plain", "key-1")),
    ],
)
def test_an_agent_chooses_its_model_and_no_key_stands_in_the_change(home, write, said, model):
    write("home/agents/a.md", front(**said, max_steps=3))
    profiles = {
        "fast": {"name": "openai", "model": "quick", "api_key": "key-2"},
        "open": {"name": "generic", "model": "x", "base_url": "http://h/v1"},
    }
    switch = change(home, config(providers=profiles), "a")
    provider = switch.config.resolve_provider()
    assert (provider.name, provider.model, provider.api_key) == model
    assert "key-" not in str(switch.patch)


def test_a_provider_that_there_is_none_of_is_told_with_its_line(home, write):
    file = write("home/agents/a.md", "---\nprovider: fst\n---\n")
    with pytest.raises(
        ConfigError, match=rf"^{file}:2: there is no provider or profile 'fst'\. Did you mean \"fast\"\?"
    ):
        change(home, config(providers={"fast": {"name": "openai"}}), "a")


def test_a_profile_with_a_key_of_its_own_keeps_its_model(home, write):
    file = write("home/agents/a.md", "---\nprovider: fast\nmodel: other\n---\n")
    with pytest.raises(ConfigError, match=f"^{file}:3: the profile fast has a key of its own"):
        change(home, config(providers={"fast": {"name": "openai", "api_key": "k"}}), "a")


@pytest.mark.covers("AURA-14")
def test_a_change_leaves_nothing_of_the_agent_before(home, write):
    write("home/agents/one.md", front(model="m", max_steps=7, safety={"read_only": True}, token_budget=5) + "One.")
    write("home/agents/two.md", front(timeout=3, tools={"without": ["bash"]}))
    plain = config()
    patch: dict[str, Any] = {}
    for name in ("one", "two", "one", ""):
        switch = change(home, plain, name)
        patch = merge_settings(patch, dict(switch.patch))
        after = plain.patched(patch)
        assert settled(after) == settled(switch.config)
    assert after == plain


def test_a_mode_goes_over_its_agent_and_their_filters_both_hold(home, write):
    write("home/agents/a.md", front(tools={"only": ["*"]}, safety={"read_only": False, "deny": ["x"]}) + "A.")
    write("home/modes/plan.md", front(tools={"without": ["bash"]}, safety={"read_only": True, "deny": ["y"]}) + "P.")
    switch = change(home, config(safety={"deny": ["w"], "auto": ["grep"]}), "a", "plan")
    assert switch.config.tools.filters == {"agent": ["*"], "mode": ["!bash"]}
    assert switch.config.prompts == {"agent": "A.", "mode": "P."}
    assert (switch.config.safety.read_only, switch.config.safety.deny) == (True, ["w", "x", "y"])
    assert switch.config.safety.auto == ["grep"]


@pytest.mark.parametrize("layers", range(1, 5))
def test_each_layer_wins_over_those_before_it(home, write, layers):
    """Defaults, the file or a flag (one as good as the other here), the agent, its mode, an override."""
    write("home/agents/a.md", front(safety={"acp_approval_timeout": 2}))
    write("home/modes/m.md", front(safety={"acp_approval_timeout": 3}))
    plain = config(safety={"acp_approval_timeout": 1}) if layers >= 1 else config()
    facts = Facts(overrides={"safety.acp_approval_timeout": 0} if layers >= 4 else {})
    switch = change(home, plain, "a" if layers >= 2 else "", "m" if layers >= 3 else "", facts)
    assert switch.config.safety.acp_approval_timeout == (0 if layers >= 4 else layers)


def test_an_override_of_the_model_goes_over_that_of_the_agent(home, write):
    write("home/agents/a.md", front(provider={"name": "ollama", "model": "m"}))
    facts = Facts(overrides={"provider.model": "mine", "provider.temperature": 0.5})
    provider = change(home, config(), "a", facts=facts).config.resolve_provider()
    assert (provider.name, provider.model, provider.temperature) == ("ollama", "mine", 0.5)


def test_an_override_that_does_not_fit_is_refused(home, write):
    write("home/agents/a.md", "")
    with pytest.raises(InvalidSetting, match="--override: max_steps: Input should be greater"):
        change(home, config(), "a", facts=Facts(overrides={"max_steps": 0}))


def test_where_each_setting_was_said_is_known(home, write):
    write("home/agents/a.md", "---\nmodel: m\ntools:\n  only: [grep]\n---\nA.\n")
    write("home/modes/p.md", "---\nsafety:\n  read_only: true\n---\nP.\n")
    switch = change(home, config(), "a", "p", Facts(overrides={"max_steps": 3}))
    assert switch.origins == {
        "provider.model": f"{home}/agents/a.md:2",
        "tools.filters.agent": f"{home}/agents/a.md:4",
        "prompts.agent": f"{home}/agents/a.md:6",
        "safety.read_only": f"{home}/modes/p.md:3",
        "prompts.mode": f"{home}/modes/p.md:5",
        "max_steps": "--override",
    }


# --- templates ----------------------------------------------------------------------------------


def test_texts_and_paths_are_filled_in(home, write):
    write(
        "home/agents/a.md",
        """
        ---
        model: m
        safety: {allowed_paths: ["{{ workspace }}/{{ vars.part }}/**"]}
        ---
        {{ agent }} in {{ mode or "no mode" }}: {{ provider }}/{{ model.name }} with {{ tools | join(" ") }},
        {{ vars.part }} below {{ workspace }}, {{ sandbox }}{% if policy.read_only %}, reads{% endif %}.
        """,
    )
    facts = Facts("/w", lambda tools: ["grep", "bash"], variables={"part": "src"})
    switch = change(home, config(), "a", facts=facts)
    assert switch.config.safety.allowed_paths == ["/w/src/**"]
    assert switch.config.prompts["agent"] == "a in no mode: generic/m with grep bash,\nsrc below /w, local."


@pytest.mark.covers("AURA-112")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("one\n{{ nobody }}", r":5: 'nobody' is undefined\. There are: agent, mode, model, policy"),
        ("{{ vars.nothing }}", r":4: vars\.nothing is not set: add --set nothing=TEXT"),
        ("one\n\n{{ oops", r":6: unexpected end of template"),
        ("{% for %}", r":4: Expected an expression"),
        ("{{ ''.__class__.__mro__ }}", r":4: the template fails: SecurityError"),
        ("{{ range(1000000) }}", r":4: the template fails: OverflowError"),
        ("{% include 'x' %}", r":4: the template fails: TypeError"),
    ],
)
def test_what_a_template_does_wrong_is_told_with_its_line(home, write, text, told):
    file = write("home/agents/a.md", "---\nmax_steps: 3\n---\n" + text)
    with pytest.raises(ConfigError, match=f"^{file}{told}"):
        change(home, config(), "a")


# --- a project is not trusted -------------------------------------------------------------------


def foreign(whole: Whole | None) -> Whole | None:
    return whole._replace(is_foreign=True) if whole else None


def test_of_an_agent_of_a_project_only_what_is_stricter_holds(home, write):
    write(
        "home/agents/a.md",
        front(
            description="x",
            model="m",
            fallback=["b"],
            max_steps=60,
            token_budget=100,
            timeout=0,
            guardrails={"reserve_tokens": 0},
            tools={"only": ["grep"], "max_output_chars": 90_000},
            safety={
                "read_only": True,
                "require_approval_for_writes": False,
                "allowed_paths": [],
                "denied_paths": ["**/x"],
                "deny": ["bash"],
                "auto": ["*"],
                "sandbox": {"mode": "local"},
                "acp_approval_timeout": 1,
            },
        )
        + "{{ nobody }} {% raw %}",
    )
    plain = config()
    agent, _ = wholes(home, "a")
    switch = switched(plain, foreign(agent), None, Facts())
    expected = plain.model_dump() | {
        "agent": "a",
        "token_budget": 100,
        "prompts": {"agent": "{{ nobody }} {% raw %}"},
        "tools": plain.tools.model_dump() | {"filters": {"agent": ["grep"]}},
        "safety": plain.safety.model_dump()
        | {"read_only": True, "deny": ["bash"], "denied_paths": [*plain.safety.denied_paths, "**/x"]},
    }
    assert switch.config.model_dump() == expected
    assert switch.remarks == (
        "The agent a may not change model, fallback, max_steps, timeout, guardrails, tools.max_output_chars, "
        "safety.require_approval_for_writes, safety.allowed_paths, safety.auto, safety.sandbox, "
        "safety.acp_approval_timeout: its project is not trusted.",
    )


@pytest.mark.parametrize("provider", ["openai", {"base_url": "http://evil/v1"}, {"name": "generic", "model": "m"}])
def test_a_project_names_no_address_and_no_provider(home, write, provider):
    write("home/agents/a.md", front(provider=provider))
    agent, _ = wholes(home, "a")
    assert switched(config(), foreign(agent), None, Facts()).config.provider == config().provider


def test_a_project_may_choose_among_the_users_profiles(home, write):
    write("home/agents/a.md", front(provider="fast"))
    plain = config(providers={"fast": {"name": "ollama", "model": "q"}})
    agent, _ = wholes(home, "a")
    assert switched(plain, foreign(agent), None, Facts()).config.resolve_provider().label == "ollama/q"


def test_a_mode_of_a_project_loosens_nothing_that_the_users_agent_says(home, write):
    write("home/agents/a.md", front(safety={"read_only": True}, tools={"only": ["grep"]}))
    write("home/modes/m.md", front(safety={"read_only": False}, tools={"only": ["*"]}))
    agent, mode = wholes(home, "a", "m")
    after = switched(config(), agent, foreign(mode), Facts()).config
    assert after.safety.read_only
    assert after.tools.filters == {"agent": ["grep"], "mode": ["*"]}


def test_what_a_flag_says_of_safety_an_agent_may_only_tighten(home, write):
    write("home/agents/a.md", front(safety={"read_only": False, "allowed_paths": ["/**"], "log_all_commands": True}))
    agent, _ = wholes(home, "a")
    plain = config(safety={"read_only": True})
    switch = switched(plain, agent, None, Facts(fixed={"safety.read_only", "max_steps"}))
    assert (switch.config.safety.read_only, switch.config.safety.allowed_paths) == (True, ["/**"])
    assert "flags have set them" in switch.remarks[0]
