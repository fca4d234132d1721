"""Asking git how many files have changed: bounded, silent when it cannot be told, and nothing of the folder runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from aar.companion.git import OUTPUT_LIMIT, count_dirty
from aar.processes.output import Clip


@pytest.fixture
def base(tmp_path) -> dict[str, str]:
    """An environment in which a user has no settings of git."""
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "nobody"), "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def repository(tmp_path, base) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, base, "init", "-q")
    return folder


def git(folder: Path, base: dict[str, str], *words: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *words], cwd=folder, env=base, check=True, capture_output=True)


@pytest.mark.covers("EXT-24")
async def test_it_counts_what_is_new_staged_and_changed(repository, base) -> None:
    assert await count_dirty(str(repository), base=base) == 0
    for name in ("one", "two", "three"):
        (repository / name).write_text(name)
    git(repository, base, "add", "one")
    assert await count_dirty(str(repository), base=base) == 3


@pytest.mark.covers("EXT-24")
async def test_it_says_nothing_where_there_is_no_repository_no_folder_and_no_git(tmp_path, repository, base) -> None:
    assert await count_dirty(str(tmp_path), base=base | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}) is None
    assert await count_dirty(str(tmp_path / "gone"), base=base) is None
    assert await count_dirty(str(repository), base=base | {"PATH": str(tmp_path)}) is None
    assert await count_dirty("\0", base=base) is None


@pytest.mark.covers("EXT-24")
async def test_it_waits_no_longer_than_it_was_told(tmp_path, repository, base) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    env = base | {"PATH": f"{slow.parent}:{base['PATH']}"}
    assert await count_dirty(str(repository), timeout=0.05, base=env) is None


async def test_programs_that_the_folder_names_are_not_run(tmp_path, repository, base) -> None:
    mark = tmp_path / "ran"
    (repository / "file").write_text("content")
    git(repository, base, "add", "file")
    git(repository, base, "commit", "-qm", "first")
    (repository / ".git/info/attributes").write_text("* filter=evil=1\n")
    with (repository / ".git/config").open("a") as file:
        file.write(f'[filter "evil=1"]\n\tclean = "touch {mark}; cat"\n\trequired = true\n')
        file.write(f'[core]\n\tfsmonitor = "touch {mark}; false"\n')
    (repository / "file").write_text("CONTENT")
    os.utime(repository / "file", (1, 1))
    assert await count_dirty(str(repository), base=base) == 1
    assert not mark.exists()
    git(repository, base, "status")
    assert mark.exists()  # what it would have done


async def test_filters_that_are_lost_in_a_list_that_is_too_long_are_not_run(tmp_path, repository, base) -> None:
    """The middle of the list is left out, cut so that nobody who reads the rest sees that something is missing."""
    names = _names_whose_list_is_cut_within_words()
    mark = tmp_path / "ran"
    (repository / "file").write_text("content")
    git(repository, base, "add", "file")
    (repository / ".git/info/attributes").write_text(f"* filter={names[len(names) // 2]}\n")
    with (repository / ".git/config").open("a") as file:
        file.writelines(f'[filter "{name}"]\n\tclean = "touch {mark}; cat"\n' for name in names)
    (repository / "file").write_text("CONTENT")
    os.utime(repository / "file", (1, 1))
    assert await count_dirty(str(repository), base=base) is None
    assert not mark.exists()


def _names_whose_list_is_cut_within_words() -> list[str]:
    for length in range(200, 2_000):
        names = [f"{number:0{length}}" for number in range(3 * OUTPUT_LIMIT // length)]
        clip = Clip(OUTPUT_LIMIT)
        clip.add("".join(f"local\0filter.{name}.clean\0" for name in names))
        words = clip.text().split("\0")
        if all(word.endswith(".clean") and "\n" not in word for word in words[1::2]):
            return names
    raise AssertionError("there is no such length")
