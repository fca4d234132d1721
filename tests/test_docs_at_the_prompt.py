"""The tables and examples of the pages about the prompt and about tasks are what the program takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aar.conditions import ATOMS, parse_condition
from aar.directives import FILE_LINES, IMAGE_SIDE, KINDS, SHARE, find_directives
from aar.snapshots import KEPT, KEPT_DAYS, MAX_BYTES, MAX_FILE, MAX_FILES
from aar.tasks.reading import FIELDS, read_tasks
from aar.tasks.schedules import parse_schedule
from aar.transports.terminal.replaying import read_inputs
from aar.transports.terminal.session_commands import ROUNDS, SESSION

DOCS = Path(__file__).parent.parent / "docs"
PROMPT, TASKS = ((DOCS / name).read_text(encoding="utf-8") for name in ("at-the-prompt.md", "tasks.md"))


def cells(text: str, heading: str) -> list[str]:
    """What stands in code in the first column of the table below this text."""
    table = text.partition(heading)[2].partition("\n|")[2].partition("\n\n")[0]
    return [word for row in table.splitlines() for word in re.findall(r"`([^`]+)`", row.strip("|").split("|")[0])]


def blocks(text: str, info: str) -> list[str]:
    return re.findall(rf"^```{info}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_condition_of_the_page_is_one_and_every_one_is_on_the_page() -> None:
    written = cells(PROMPT, "| a condition | holds when |")
    for text in written:
        parse_condition(text)
    assert {text.partition(":")[0] for text in written} == set(ATOMS)


def test_every_directive_is_on_the_page() -> None:
    written = cells(PROMPT, "| you type | what goes along |")
    assert [one.kind for text in written for one in find_directives(text)] == ["File", "Image", "Path", "Bash"]
    assert sorted(KINDS) == ["Bash", "File", "Image", "Path"]
    (example,) = [text for text in blocks(PROMPT, "") if "@File" in text]
    assert [one.argument for one in find_directives(example)] == ["src/app.py", "git diff --stat", "shot.png"]


def test_every_command_is_on_the_page() -> None:
    assert [f"/{command.names[0]}" for command in SESSION if f"/{command.names[0]}" not in PROMPT] == []


@pytest.mark.parametrize(
    "words",
    [
        f"{FILE_LINES} lines",
        f"{IMAGE_SIDE} pixels",
        f"{SHARE:.0%}".replace("%", " %"),
        f"{MAX_FILES:,} files or {MAX_BYTES // 10**6} MB",
        f"files over {MAX_FILE // 10**6} MB",
        f"newest {KEPT} turns",
        f"{KEPT_DAYS} days",
        f"at most {ROUNDS} times",
    ],
)
def test_the_limits_on_the_page_are_those_in_force(words: str) -> None:
    assert words in PROMPT


def test_the_list_of_inputs_can_be_replayed(tmp_path: Path) -> None:
    (block,) = blocks(PROMPT, "yaml")
    (tmp_path / "list.yaml").write_text(block)
    assert len(read_inputs(tmp_path / "list.yaml")) == 3


def test_the_tasks_on_the_page_can_be_read(tmp_path: Path) -> None:
    (block,) = blocks(TASKS, "yaml")
    (tmp_path / "tasks.yaml").write_text(block)
    assert [task.schedule is not None for task in read_tasks(tmp_path / "tasks.yaml").values()] == [False, True]


def test_the_fields_and_schedules_of_tasks_are_on_the_page() -> None:
    fields = [word for word in cells(TASKS, "## Every field") if word not in ("!", "{item}")]
    assert sorted(fields) == sorted(FIELDS)
    schedules = cells(TASKS, "| `when` | is due |")
    assert len([parse_schedule(text) for text in schedules]) == 6
