"""Files of agents and modes: what they may say, and errors that name file, line and fix."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aar.config.agents import FileKeyed, Home, Library, StringKeyed, homes_of, load
from aar.config.agents.documents import parse_document
from aar.errors import ConfigError
from aar.messages.settings import AgentConfig


def read(*homes: Path) -> Library:
    return load({"agents", "modes", "commands"}, [Home(home) for home in homes])


def problem(home: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        [list(part.values()) for part in read(home)[:3]]
    return str(caught.value)


def test_a_file_that_is_wrong_disturbs_nobody_who_does_not_ask_for_it(home, write):
    write("home/agents/bad.md", "---\nnope: 1\n---\n")
    write("home/agents/base.md", "---\nhidden: true\n---\n")
    write("home/agents/good.md", "Good.")
    agents = read(home).agents
    assert (list(agents), agents["GOOD"].body, agents["good"] is agents["Good"]) == (
        ["bad", "base", "good"],
        "Good.",
        True,
    )
    usable, [told] = agents.usable()
    assert [one.name for one in usable] == ["good"]
    assert 'unknown key "nope"' in told


def test_an_agent_is_a_name_settings_and_a_text(home, write):
    write(
        "home/agents/coder.md",
        """
        ---
        description: Writes code.
        max_steps: 20
        tools: {only: read_file}
        ---

        You write code.
        """,
    )
    agent = read(home).agents["coder"]
    assert (agent.name, agent.description, agent.body, agent.body_line) == (
        "coder",
        "Writes code.",
        "You write code.",
        7,
    )
    assert agent.said["tools"] == {"only": ["read_file"]}
    assert agent.place(("tools", "only")) == f"{home}/agents/coder.md:4"


def test_a_file_without_front_matter_is_all_text(home, write):
    write("home/agents/plain.md", "Be brief.\n--- no end\n")
    assert read(home).agents["plain"].body == "Be brief.\n--- no end"


@pytest.mark.covers("AURA-109")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("max_stepz: 3", ':3: unknown key "max_stepz". Did you mean "max_steps"?'),
        ("tools: {onlyy: x}", ':3: unknown key "onlyy". Did you mean "only"?'),
        ("safety: {readonly: true}", ':3: unknown key "readonly". Did you mean "read_only"?'),
        ("provider: {nam: x}", ':3: unknown key "nam". Did you mean "name"?'),
        ("max_steps: 0", ":3: max_steps: Input should be greater than or equal to 1, but found 0."),
        ("safety:\n  sandbox:\n    mode: moon", ":5: safety.sandbox.mode: Input should be 'local', 'linux'"),
        ("agents_md: no", ":3: agents_md: Input should be 'all', 'global', 'local' or 'none', but found false."),
        ("mode: 7", ":3: mode must be a text, but found 7. Put it in quotes."),
        ("tools: {only: [1]}", ":3: tools.only must be a list of texts, but found a list."),
        ("tools: read_file", ":3: tools must be lines of `key: value`"),
        ("hidden: maybe", ":3: hidden must be true or false."),
        ("provider: {api_key: sk-12345678}", ":3: keys do not belong here"),
        ("description: b", ':3: "description" stands twice. Remove one of them.'),
        ("? [a]\n: b", ":3: a key must be a plain word."),
        ("tools: [unclosed", ":3: is no valid YAML"),
        ("x: &a 1\ny: *a", ":4: is no valid YAML: aliases (*name) are not used here."),
        ("x: !!python/object:os.system {}", ':3: unknown key "x"'),
        ("max_steps: !!python/name:os.system x", ":3: is no valid YAML: could not determine a constructor"),
        ("when: 2024-99-99", ":3: '2024-99-99' is no value"),
        ("x: " + "[" * 30 + "]" * 30, ":3: is nested too deeply."),
        ("x: " + "[" * 20000, ":2: is nested too deeply."),
    ],
)
def test_a_mistake_is_told_with_file_line_and_what_was_meant(home, line, told):
    file = home / "agents" / "bad.md"
    file.parent.mkdir()
    file.write_text(f"---\ndescription: a\n{line}\n---\ntext\n")
    assert problem(home).startswith(f"{file}{told}")


def test_what_is_only_for_agents_is_unknown_in_a_mode(home, write):
    write("home/modes/plan.md", "---\nmodel: x\n---\n")
    assert 'unknown key "model"' in problem(home)


@pytest.mark.parametrize(
    ("text", "line"), [("\n---\nsafety: {read_only: true}\n---\nHi.", 2), ("safety:\n  read_only: true\n", 1)]
)
def test_settings_that_only_look_like_text_are_told(text, line):
    """Their rules would not hold, and nobody would know."""
    with pytest.raises(ConfigError, match=f"^a.md:{line}: settings stand between two lines `---`"):
        parse_document(text, "a.md")


def test_front_matter_that_does_not_end_is_told(home, write):
    write("home/agents/a.md", "---\nmax_steps: 3\n")
    assert problem(home).endswith("a.md:1: the front matter has no end: close it with a line `---`.")


@given(st.text(alphabet="ab: -[]{}#'\"\n\t&*!|>%@`", max_size=60))
def test_any_front_matter_is_read_or_refused_with_its_file(text):
    told = "f.md:"
    try:
        parse_document(f"---\n{text}\n---\n", "f.md")
    except ConfigError as error:
        told = str(error)
    assert told.startswith("f.md:")


@pytest.mark.covers("AURA-110")
def test_of_three_homes_the_last_one_wins_file_by_file(home, write, tmp_path):
    write("home/agents/one.md", "home")
    write("home/agents/two.md", "home")
    write("home/agents/three.md", "home")
    write("b/agents/two.md", "b")
    write("b/agents/three.md", "b")
    write("c/agents/Three.md", "c")
    found = read(home, tmp_path / "b", tmp_path / "c").agents
    assert {name: entity.body for name, entity in found.items()} == {"one": "home", "two": "b", "Three": "c"}


def test_the_homes_are_the_users_then_the_projects_then_those_of_the_flag(home, tmp_path):
    more = tmp_path / "more"
    more.mkdir()
    project = tmp_path / "project"
    assert homes_of(home, project, [more]) == [Home(home), Home(project / ".aar", project), Home(more)]
    assert homes_of(project / ".aar", project) == [Home(project / ".aar")]
    with pytest.raises(ConfigError, match="there is no such folder"):
        homes_of(home, project, [tmp_path / "gone"])


@pytest.mark.covers("AURA-108")
def test_both_collections_answer_alike_but_for_upper_and_lower_case():
    for kind in (FileKeyed, StringKeyed):
        found = kind("agent", {"b": 2, "A": 1})
        assert (list(found), len(found), found["A"], found.get("x"), "b" in found) == (["A", "b"], 2, 1, None, True)
        assert found.find("b") == 2
        with pytest.raises(ConfigError, match=r"There is no agent 'zzz'\. There are: A, b\."):
            found.find("zzz")
    assert FileKeyed("agent", {"High": 1})["HIGH"] == 1
    with pytest.raises(KeyError):
        StringKeyed("provider", {"High": 1})["HIGH"]


@pytest.mark.covers("AURA-107")
def test_what_was_read_cannot_be_changed(home, write):
    write("home/agents/a.md", "text")
    library = read(home)
    with pytest.raises(FrozenInstanceError):
        library.agents["a"].body = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        library.agents = FileKeyed("agent", {})  # type: ignore[misc]
    with pytest.raises(ValidationError):
        AgentConfig().agent = "x"  # type: ignore[misc]


def test_two_files_whose_names_differ_in_case_are_told(home, write):
    write("home/agents/High.md", "")
    write("home/agents/high.md", "")
    assert "has the name of" in problem(home)


def test_only_the_parts_that_are_asked_for_are_read(home, write):
    write("home/agents/bad.md", "---\nnope: 1\n---\n")
    write("home/modes/plan.md", "Plan.")
    found = load({"modes"}, [Home(home)])
    assert (list(found.modes), list(found.agents), list(found.commands)) == (["plan"], [], [])


def test_a_file_that_is_too_large_or_no_text_is_told(home, write):
    file = write("home/agents/a.md", "")
    file.write_bytes(b"x" * (256 * 1024 + 1))
    assert problem(home) == f"{file}: is larger than 256 KB."
    file.write_bytes(b"\xff\xfe")
    assert problem(home) == f"{file}: is not UTF-8 text (byte 0). Save it as UTF-8."


def test_the_fingerprint_changes_with_every_file(home, write):
    write("home/agents/a.md", "one")
    before = read(home).fingerprint
    assert read(home).fingerprint == before
    write("home/agents/a.md", "two")
    after = read(home).fingerprint
    write("home/agents/b.md", "two")
    assert len({before, after, read(home).fingerprint}) == 3


# --- a project is not trusted -------------------------------------------------------------------


def of_project(tmp_path: Path, home: Path) -> Library:
    return load({"agents"}, homes_of(home, tmp_path / "project"))


def test_a_file_of_a_project_does_not_take_the_place_of_the_users(home, write, tmp_path):
    write("home/agents/reader.md", "mine")
    theirs = write("project/.aar/agents/Reader.md", "theirs")
    found = of_project(tmp_path, home)
    assert {name: entity.body for name, entity in found.agents.items()} == {"reader": "mine"}
    assert found.remarks == (f"{theirs}: is not used, for it has the name of {home}/agents/reader.md.",)
    trusted = load({"agents"}, homes_of(home, tmp_path / "project"), lambda file, digest: True)
    assert {name: (entity.body, entity.is_foreign) for name, entity in trusted.agents.items()} == {
        "Reader": ("theirs", False)
    }


def test_a_bad_file_of_a_project_keeps_nobody_from_working(home, write, tmp_path):
    write("project/.aar/agents/bad.md", "---\nnope: 1\n---\n")
    found = of_project(tmp_path, home)
    with pytest.raises(ConfigError, match='unknown key "nope"'):
        found.agents["bad"]


def test_a_project_cannot_keep_anybody_waiting_with_its_files(home, write, tmp_path):
    for number in range(3):
        write(f"project/.aar/agents/{number}.md", "x" * 100_000)
    found = of_project(tmp_path, home)
    assert list(found.agents) == ["0", "1"]
    assert "larger than 256 KB together" in found.remarks[0]


def test_links_of_a_project_lead_to_no_file_of_the_user(home, write, tmp_path):
    secret = write("secret.md", "key")
    folder = tmp_path / "project" / ".aar" / "agents"
    folder.mkdir(parents=True)
    os.symlink(secret, folder / "link.md")
    os.mkfifo(folder / "pipe.md")
    found = of_project(tmp_path, home)
    assert (len(found.agents), len(found.remarks)) == (0, 2)
    folder.rename(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder)
    assert of_project(tmp_path, home) == load({"agents"}, [Home(home)])


# --- packages -----------------------------------------------------------------------------------


def test_without_the_packages_one_line_says_what_to_install(home, write):
    write("home/agents/a.md", "---\nmax_steps: 3\n---\n")
    code = (
        "import sys; sys.modules['yaml'] = None\n"
        "from pathlib import Path\nfrom aar.config.agents import Home, load\n"
        f"load({{'agents'}}, [Home(Path({str(home)!r}))]).agents['a']"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("pip install 'aar-agent[agents]'")


@pytest.mark.parametrize("front", ["inherit:", "fallback:", "tools: {only: }", "tools: {without: }"])
def test_a_list_that_is_empty_must_be_written_as_one(home, write, front):
    write("home/agents/a.md", f"---\n{front}\n---\nYou work.\n")
    with pytest.raises(ConfigError, match="must be a list of texts, but found null"):
        load({"agents"}, [Home(home)]).agents.find("a")
