"""What agents get from those that they inherit from."""

from __future__ import annotations

from pathlib import Path

import pytest

from aar.config.agents import Home, Whole, load, whole
from aar.errors import ConfigError


def read(home: Path, name: str) -> Whole:
    return whole(load({"agents"}, [Home(home)]).agents, name)


def test_what_is_absent_is_inherited_and_what_is_present_replaces_it(home, write):
    write(
        "home/agents/base.md",
        """
        ---
        max_steps: 9
        timeout: 60
        tools: {only: [read_file, grep], without: [bash]}
        safety: {read_only: true, deny: ["bash:git push*"]}
        hidden: true
        ---
        Base.
        """,
    )
    write(
        "home/agents/heir.md",
        """
        ---
        inherit: base
        max_steps: 3
        tools: {only: [grep]}
        safety: {deny: []}
        ---
        Heir.
        """,
    )
    heir = read(home, "heir")
    assert heir.said == {
        "inherit": ["base"],
        "max_steps": 3,
        "timeout": 60,
        "tools": {"only": ["grep"], "without": ["bash"]},
        "safety": {"read_only": True, "deny": []},
    }
    assert [text.text for text in heir.texts] == ["Base.", "Heir."]
    assert heir.origins["timeout"] == f"{home}/agents/base.md:3"
    assert heir.origins["max_steps"] == f"{home}/agents/heir.md:3"
    assert heir.origins["tools.without"] == f"{home}/agents/base.md:4"


def test_null_takes_back_what_was_inherited(home, write):
    write("home/agents/base.md", "---\nmax_steps: 9\nmodel: m\n---\n")
    write("home/agents/heir.md", "---\ninherit: base\nmax_steps: null\n---\n")
    assert read(home, "heir").said == {"inherit": ["base"], "model": "m"}


@pytest.mark.covers("AURA-111")
def test_of_several_parents_the_later_one_wins_and_a_common_one_counts_once(home, write):
    write("home/agents/root.md", "---\nmax_steps: 1\ntimeout: 1\nmax_retries: 1\n---\nroot")
    write("home/agents/left.md", "---\ninherit: root\nmax_steps: 2\ntimeout: 2\n---\nleft")
    write("home/agents/right.md", "---\ninherit: ROOT\nmax_steps: 3\n---\nright")
    write("home/agents/heir.md", "---\ninherit: [left, right]\n---\nheir")
    heir = read(home, "heir")
    assert {key: heir.said[key] for key in ("max_steps", "timeout", "max_retries")} == {
        "max_steps": 3,
        "timeout": 2,
        "max_retries": 1,
    }
    assert [text.text for text in heir.texts] == ["root", "left", "right", "heir"]


@pytest.mark.covers("AURA-111")
def test_a_ring_is_told_with_its_path(home, write):
    write("home/agents/a.md", "---\ninherit: b\n---\n")
    write("home/agents/b.md", "---\ndescription: x\ninherit: [c]\n---\n")
    write("home/agents/c.md", "---\ninherit: A\n---\n")
    with pytest.raises(ConfigError, match=r"c\.md:2: inherit runs in a ring: a -> b -> c -> a\.$"):
        read(home, "a")
    write("home/agents/self.md", "---\ninherit: self\n---\n")
    with pytest.raises(ConfigError, match=r"self\.md:2: inherit runs in a ring: self -> self\.$"):
        read(home, "self")


def test_a_parent_that_is_not_there_is_told_with_the_place_that_names_it(home, write):
    write("home/agents/a.md", "---\ninherit: bse\n---\n")
    write("home/agents/base.md", "")
    with pytest.raises(ConfigError, match=r"a\.md:2: There is no agent 'bse'\. Did you mean \"base\"\?$"):
        read(home, "a")
