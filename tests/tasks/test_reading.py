"""Files with tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aar.errors import ConfigError
from aar.tasks.reading import MAX_TASKS, read_tasks, tasks_file

TASKS = """\
tidy: Remove what is not used.
nightly:
  when: daily 03:00
  folder: ~/work
  session: nightly
  pre: git pull
  prompts:
    - Look at {item}.
    - "!make test"
  finally: [git stash]
  foreach: [a, b]
  retries: 2
  on_max_steps: continue
"""


def test_tasks_are_read_in_order_with_all_their_fields(tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text(TASKS)
    found = read_tasks(tasks_file(tmp_path))
    assert list(found) == ["tidy", "nightly"]
    assert found["tidy"].prompts == ("Remove what is not used.",)
    nightly = found["nightly"]
    assert (nightly.pre, nightly.prompts) == (("git pull",), ("Look at {item}.", "!make test"))
    assert (nightly.finally_, nightly.foreach, nightly.retries) == (("git stash",), ("a", "b"), 2)
    assert (nightly.folder, nightly.session, nightly.on_max_steps) == ("~/work", "nightly", "continue")
    assert nightly.schedule is not None


def test_json_will_do(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps({"a": ["one", "two"], "b": {"prompts": "x"}}))
    found = read_tasks(tasks_file(tmp_path))
    assert [task.prompts for task in found.values()] == [("one", "two"), ("x",)] or found["a"].prompts == ("one", "two")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: {prompts: x, whn: y}", "a.whn: there is no such field: do you mean `when`?"),
        ("a: {prompts: x, color: y}", "There are: prompts, folder, session, when, pre, post, finally"),
        ("a: {when: daily 09:00}", "a.prompts: there is nothing to do"),
        ("a: {prompts: []}", "a.prompts: there is nothing to do"),
        ("a: {prompts: [1]}", "a.prompts: must be a text, not 1"),
        ("a: 7", "a.prompts: must be a list of texts, not 7"),
        ("a: {prompts: x, retries: 11}", "a.retries: must be a whole number up to 10"),
        ("a: {prompts: x, retries: true}", "a.retries: must be"),
        ("a: {prompts: x, on_max_steps: maybe}", "a.on_max_steps: must be fail or continue"),
        ("a: {prompts: x, when: sometimes}", "a.when: 'sometimes' is no schedule"),
        ("- x", "tasks.yaml:1: must be lines of `key: value`"),
        ("a: [", "is no valid YAML"),
        ("a: x\na: y", "tasks.yaml:2"),
        ("\n".join(f"t{number}: x" for number in range(MAX_TASKS + 1)), f"more than {MAX_TASKS} tasks"),
        ("#" * 1_000_001, "larger than 1 MB"),
    ],
)
def test_a_mistake_names_the_file_the_task_and_the_field(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_tasks(file)
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tasks\.yaml: No such file"):
        read_tasks(tasks_file(tmp_path))
