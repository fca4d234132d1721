"""Settings in force where flags and files name an agent and a mode: which value wins, and where it is from."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from aar.config import Loaded, merge_config
from aar.errors import ConfigError
from aar.transports.program.casting import cast
from aar.transports.program.flags import SettingFlags

LAYERS = ("file", "agent", "mode", "override")  # the later one wins


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AAR_HOME", str(tmp_path / "home"))
    for folder in ("agents", "modes"):
        (tmp_path / "home" / folder).mkdir(parents=True)
    return tmp_path / "home"


def loaded(home: Path, flags: SettingFlags, **file: object) -> Loaded:
    (home / "config.json").write_text(json.dumps(file))
    return cast(merge_config(flags=flags.settings(), environ={"AAR_HOME": str(home)}), flags, str(home.parent))


@pytest.mark.covers("AURA-113")
@pytest.mark.parametrize("present", list(product([False, True], repeat=len(LAYERS))))
def test_the_last_layer_that_says_something_wins_also_with_zero(home: Path, present: tuple[bool, ...]) -> None:
    """`safety.log_all_commands` in turn false and true, so that a value that counts as nothing has to win as well."""
    said = {layer: bool(number % 2) for number, layer in enumerate(LAYERS, start=1) if present[number - 1]}

    def front(layer: str) -> str:
        return f"---\nsafety: {{log_all_commands: {str(said[layer]).lower()}}}\n---\n" if layer in said else ""

    (home / "agents" / "a.md").write_text(front("agent"))
    (home / "modes" / "m.md").write_text(front("mode"))
    file = {"safety": {"log_all_commands": said["file"]}} if "file" in said else {}
    override = (f"safety.log_all_commands={json.dumps(said['override'])}",) if "override" in said else ()
    found = loaded(home, SettingFlags(agent="a", mode="m", override=override), **file)
    assert found.config.safety.log_all_commands == (list(said.values()) or [False])[-1]
    origin = found.origins["safety.log_all_commands"]
    expected = {
        "file": f"file {home}/config.json",
        "agent": f"file {home}/agents/a.md:2",
        "mode": f"file {home}/modes/m.md:2",
        "override": "--override",
    }
    assert origin == (expected[list(said)[-1]] if said else "default")


@pytest.mark.covers("AURA-113")
@pytest.mark.parametrize(("agent", "mode", "override"), list(product([False, True], repeat=3)))
def test_agent_mode_and_override_go_over_a_flag_in_this_order(
    home: Path, agent: bool, mode: bool, override: bool
) -> None:
    (home / "agents" / "a.md").write_text("---\nmax_steps: 3\n---\n" if agent else "")
    (home / "modes" / "m.md").write_text("---\nsafety: {acp_approval_timeout: 4}\n---\n" if mode else "")
    flags = SettingFlags(
        max_steps=2,
        agent="a",
        mode="m",
        override=("max_steps=5", "safety.acp_approval_timeout=0") if override else (),
    )
    config = loaded(home, flags, max_steps=1, safety={"acp_approval_timeout": 1}).config
    assert config.max_steps == (5 if override else 3 if agent else 2)
    assert config.safety.acp_approval_timeout == (0 if override else 4 if mode else 1)


def test_what_a_flag_says_of_safety_is_not_loosened_and_the_rest_is_told(home: Path) -> None:
    (home / "agents" / "a.md").write_text("---\nmodel: theirs\nsafety: {read_only: false}\n---\n")
    found = loaded(home, SettingFlags(agent="a", read_only=True, provider="generic", model="mine"))
    assert found.config.safety.read_only
    assert found.config.resolve_provider().label == "generic/theirs"
    assert [warning.partition(":")[0] for warning in found.warnings] == [
        "The agent a may not change safety.read_only",
        "generic/theirs is used and not generic/mine, for the agent says so",
    ]


def test_without_names_nothing_is_looked_for(home: Path) -> None:
    (home / "agents" / "bad.md").write_text("---\nnope: 1\n---\n")
    found = loaded(home, SettingFlags(agent="none"), agent="bad")
    assert (found.config.agent, found.plain) == ("", None)
    with pytest.raises(ConfigError, match="unknown key"):
        loaded(home, SettingFlags(), agent="bad")
