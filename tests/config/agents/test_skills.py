"""Skills: which folders are ones, whose they are, and what a project's may not do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aar.config.agents.homes import Home, homes_of
from aar.config.agents.skills import ALL_FOREIGN, read_skills

BODY = "---\nname: {}\ndescription: {}\n---\nDo it well.\n"
FOLDED = "---\ndescription: >\n  How a version\n  is made.\nlicense: MIT\n---\nTag it."


@pytest.fixture
def homes(home: Path, tmp_path: Path) -> list[Home]:
    (tmp_path / "project").mkdir()
    return homes_of(home, tmp_path / "project")


def test_a_folder_with_the_file_is_a_skill(home, write, homes) -> None:
    file = write("home/skills/release/SKILL.md", FOLDED)
    write("home/skills/release/check.sh", "exit 0")
    write("home/skills/notes/README.md", "no skill")
    write("home/skills/loose.md", "no folder")
    write("home/skills/.hidden/SKILL.md", BODY.format("a", "b"))
    found, remarks = read_skills(homes)
    assert [(one.name, one.description, one.body, one.is_foreign) for one in found.values()] == [
        ("release", "How a version is made.", "Tag it.", False)
    ]
    assert found["release"].told() == (
        f"Skill release. Its folder, where other files that it names are: {file.parent}\n\nTag it."
    )
    assert remarks == ()


def test_the_name_in_the_file_goes_before_that_of_its_folder(write, homes) -> None:
    write("home/skills/a/SKILL.md", BODY.format("PDF-forms", "x"))
    assert [*read_skills(homes)[0]] == ["pdf-forms"]


def test_a_skill_of_a_project_is_told_to_be_one_and_does_not_take_the_place_of_yours(write, homes) -> None:
    write("home/skills/build/SKILL.md", BODY.format("build", "mine"))
    taken = write("project/.aar/skills/x/SKILL.md", BODY.format("Build", "theirs"))
    write("project/.aar/skills/style/SKILL.md", BODY.format("style", "from {{ them }}"))
    found, remarks = read_skills(homes)
    assert {name: (one.description, one.is_foreign) for name, one in found.items()} == {
        "build": ("mine", False),
        "style": ("from {{ them }}", True),
    }
    assert found["style"].told().startswith("Skill style, which came with this project: its authors wrote it, and not")
    assert len(remarks) == 1
    assert remarks[0].startswith(f"{taken}: is not used, for it has the name of ")


def test_of_your_own_the_last_home_counts(write, home, tmp_path) -> None:
    for name in ("home", "more"):
        write(f"{name}/skills/a/SKILL.md", BODY.format("a", name))
    found, remarks = read_skills(homes_of(home, tmp_path, [tmp_path / "more"]))
    assert ([one.description for one in found.values()], remarks) == (["more"], ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("No settings.", "has no `description`"),
        ("---\ndescription: ' '\n---\n", "has no `description`"),
        ("---\nname: [a]\ndescription: x\n---\n", "name must be up to 64 letters"),
        ("---\nname: 'a b'\ndescription: x\n---\n", "name must be up to 64 letters"),
        ("---\nname: 'a\\nb'\ndescription: x\n---\n", "name must be up to 64 letters"),
        ("---\ndescription: x\n", "the front matter has no end"),
        ("---\ndescription: a: b\n---\n", "is no valid YAML"),
    ],
)
def test_one_that_is_wrong_is_told_and_the_others_are_used(write, homes, text: str, told: str) -> None:
    file = write("home/skills/bad/SKILL.md", text)
    write("home/skills/good/SKILL.md", BODY.format("good", "x"))
    found, (remark,) = read_skills(homes)
    assert [*found] == ["good"]
    assert remark.startswith(f"{file}:")
    assert told in remark
    assert remark.endswith("The skill is not used.")


def test_no_link_of_a_project_brings_something_in(write, homes, tmp_path) -> None:
    write("secret/SKILL.md", BODY.format("secret", "x"))
    place = tmp_path / "project" / ".aar" / "skills"
    (place / "b").mkdir(parents=True)
    (place / "a").symlink_to(tmp_path / "secret")
    (place / "b" / "SKILL.md").symlink_to(tmp_path / "secret" / "SKILL.md")
    (place / "c").mkdir()
    os.mkfifo(place / "c" / "SKILL.md")
    found, remarks = read_skills(homes)
    assert found == {}
    assert [remark.partition(": ")[0] for remark in remarks] == [str(place / name / "SKILL.md") for name in "bc"]


def test_files_of_a_project_are_asked_about(write, homes) -> None:
    file = write("project/.aar/skills/a/SKILL.md", BODY.format("a", "x"))
    write("home/skills/b/SKILL.md", BODY.format("b", "x"))
    found, remarks = read_skills(homes, lambda path: "denied")
    assert [*found] == ["b"]
    assert remarks == (f"{file}: may not be read (denied). The skill is not used.",)


def test_what_a_project_brings_is_bounded(write, homes) -> None:
    size = 200 * 1024
    for number in range(6):
        write(f"project/.aar/skills/s{number}/SKILL.md", BODY.format(f"s{number}", "x") + "y" * size)
    found, remarks = read_skills(homes)
    assert len(found) == ALL_FOREIGN // size == 5
    assert [remark.partition(": ")[2] for remark in remarks] == [
        "the skills of this project are too large together. The skill is not used."
    ]
