"""The files of a folder, kept and brought back: with git as it is, and folders that mean harm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from aar import snapshots as module
from aar.errors import StoreUnavailable
from aar.processes.guard import open_guard
from aar.snapshots import Change, Snapshots

WHO = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def snapshots(tmp_path: Path, project: Path) -> Snapshots:
    return Snapshots(tmp_path / "home", str(project))


@pytest.fixture(autouse=True)
async def guard() -> AsyncIterator[None]:
    async with open_guard():
        yield


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, env={**os.environ, **WHO}, capture_output=True, check=True)
    return done.stdout.decode()


def tree(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.covers("AURA-104")
async def test_untracked_files_come_back_and_index_and_head_stay(project: Path, snapshots: Snapshots) -> None:
    git(project, "init", "-q")
    (project / "tracked").write_text("one")
    (project / "staged").write_text("one")
    git(project, "add", "tracked")
    git(project, "commit", "-qm", "first")
    git(project, "add", "staged")
    (project / "src").mkdir()
    (project / "src" / "untracked").write_text("precious")
    before = tree(project)
    state = [git(project, "rev-parse", "HEAD"), git(project, "ls-files", "-s"), git(project, "for-each-ref")]
    index = (project / ".git" / "index").read_bytes()

    name = await snapshots.take("s")
    (project / "src" / "untracked").unlink()
    (project / "src").rmdir()
    (project / "tracked").write_text("two")
    (project / "new").mkdir()
    (project / "new" / "file").write_text("x")
    later, changes = await snapshots.bring_back("s", name)

    assert changes == [Change("removed", "new/file"), Change("made", "src/untracked"), Change("changed", "tracked")]
    assert tree(project) == before
    assert not (project / "new").exists()
    assert (project / ".git" / "index").read_bytes() == index
    assert [git(project, "rev-parse", "HEAD"), git(project, "ls-files", "-s"), git(project, "for-each-ref")] == state
    await snapshots.bring_back("s", later)
    assert (project / "tracked").read_text() == "two"
    assert not (project / "src").exists()


async def test_a_folder_need_not_be_a_repository(project: Path, snapshots: Snapshots) -> None:
    (project / "a").write_text("one")
    name = await snapshots.take("s")
    (project / "a").write_text("two")
    assert await snapshots.bring_back("s", name) != name
    assert tree(project) == {"a": b"one"}
    assert os.listdir(project) == ["a"]


async def test_nothing_changes_where_nothing_has_changed(project: Path, snapshots: Snapshots) -> None:
    name = await snapshots.take("s")
    assert (await snapshots.bring_back("s", name))[1] == []


async def test_every_byte_and_mode_is_kept_whatever_the_folder_says_of_line_ends(
    project: Path, snapshots: Snapshots
) -> None:
    (project / ".gitattributes").write_text("* text=auto eol=crlf ident\n*.enc working-tree-encoding=UTF-16\n")
    content = {"crlf.txt": b"a\r\nb\n$Id$\r\n", "x.enc": b"plain", "bin": bytes(range(256)), "n\n\xc3\xa9'\"": b"name"}
    for name, data in content.items():
        (project / name).write_bytes(data)
    (project / "run").write_text("#!/bin/sh\n")
    (project / "run").chmod(0o755)
    (project / "link").symlink_to("nowhere")
    (project / os.fsdecode(b"\xff")).write_bytes(b"no text")
    before = tree(project)
    kept = await snapshots.take("s")
    for entry in os.listdir(project):
        os.unlink(project / entry)
    await snapshots.bring_back("s", kept)
    assert tree(project) == before
    assert os.access(project / "run", os.X_OK)
    assert os.readlink(project / "link") == "nowhere"


async def test_what_is_ignored_and_repositories_within_are_left_alone(project: Path, snapshots: Snapshots) -> None:
    (project / ".gitignore").write_text("*.log\n")
    (project / "a.log").write_text("one")
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x").write_text("one")
    name = await snapshots.take("s")
    (project / "a.log").write_text("two")
    (inner / "x").write_text("two")
    assert (await snapshots.bring_back("s", name))[1] == []
    assert (inner / "x").read_text() == (project / "a.log").read_text() == "two"


@pytest.mark.parametrize("where", ["project", "user"])
async def test_nothing_that_the_folder_names_is_run(
    project: Path, snapshots: Snapshots, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(project, "init", "-q")
    touched = tmp_path / "touched"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {touched}\ncat\n")
    script.chmod(0o755)
    (project / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (project / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (project / ".git" / "hooks" / hook).symlink_to(script)
    settings = {"filter.evil.clean": str(script), "filter.evil.smudge": str(script), "core.fsmonitor": str(script)}
    for key, value in settings.items():
        git(project, "config", key, value)
    if where == "user":
        monkeypatch.setenv("GIT_DIR", str(project / ".git"))
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "filter.evil.clean")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(script))
    (project / "a").write_text("one")
    name = await snapshots.take("s")
    (project / "a").write_text("two")
    await snapshots.bring_back("s", name)
    assert (project / "a").read_text() == "one"
    assert not touched.exists()


async def test_a_folder_that_became_a_link_is_not_written_through(
    project: Path, snapshots: Snapshots, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("not ours")
    (project / "src").mkdir()
    (project / "src" / "a").write_text("one")
    name = await snapshots.take("s")
    (project / "src" / "a").unlink()
    (project / "src").rmdir()
    (project / "src").symlink_to(outside)
    await snapshots.bring_back("s", name)
    assert not (project / "src").is_symlink()
    assert (project / "src" / "a").read_text() == "one"
    assert (outside / "a").read_text() == "not ours"


async def test_files_that_are_too_large_are_left_out(
    project: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a").write_text("one")
    (project / "b").write_text("x")
    first = await snapshots.take("s")
    monkeypatch.setattr(module, "MAX_FILE", 10)
    (project / "a").write_text("x" * 11)
    (project / "b").write_text("y")
    second = await snapshots.take("s")
    assert (await snapshots.bring_back("s", second))[1] == []
    with pytest.raises(StoreUnavailable):
        await snapshots.bring_back("s", first)  # the large file is not kept, so it is not written over
    assert (project / "a").read_text() == "x" * 11


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [("MAX_FILES", 1, "more than 1 files"), ("MAX_BYTES", 3, "larger than"), ("MAX_OUTPUT", 2, "too many files")],
)
async def test_a_folder_that_is_too_large_is_not_kept(
    project: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, words: str
) -> None:
    (project / "a").write_text("one")
    (project / "b").write_text("two")
    monkeypatch.setattr(module, limit, value)
    with pytest.raises(StoreUnavailable, match=words):
        await snapshots.take("s")


async def test_only_so_many_are_kept_for_a_session(
    project: Path, snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    monkeypatch.setattr(module, "LOOK_EVERY", 4)
    await snapshots.take("other")
    names = []
    for number in range(4):
        (project / "a").write_text(str(number))
        names.append(await snapshots.take("s"))
    (repository,) = (tmp_path / "home" / "snapshots").iterdir()
    kept = git(repository, "for-each-ref", "--format=%(objectname)", "refs/aar/s/").split()
    assert kept == names[2:]
    assert len(git(repository, "for-each-ref", "--format=x").split()) == 3


async def test_what_is_kept_is_for_its_owner_alone(project: Path, snapshots: Snapshots, tmp_path: Path) -> None:
    await snapshots.take("s")
    assert (tmp_path / "home" / "snapshots").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["", "--help", "HEAD", "refs/aar/s/1", "0" * 40])
async def test_a_snapshot_that_is_not_there_is_said(project: Path, snapshots: Snapshots, name: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"names no snapshot|not kept any more"):
        await snapshots.bring_back("s", name)


async def test_without_git_it_is_said(snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreUnavailable, match="git is not installed"):
        await snapshots.take("s")


async def test_the_folder_of_aar_itself_is_left_alone(project: Path) -> None:
    """It may be within: of somebody who works in their home folder, for example."""
    home = project / ".aar"
    journal = home / "sessions" / "s.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("one\n")
    (project / "a").write_text("1")
    snapshots = Snapshots(home, str(project))
    name = await snapshots.take("s")
    journal.write_text("one\ntwo\n")
    (home / "config.json").write_text("{}")
    (project / "a").write_text("2")
    assert (await snapshots.bring_back("s", name))[1] == [Change("changed", "a")]
    assert journal.read_text() == "one\ntwo\n"
    assert (home / "config.json").exists()
    with pytest.raises(StoreUnavailable, match="Aar's own folder"):
        await Snapshots(home, str(home)).take("s")
    with pytest.raises(StoreUnavailable, match="that of its sessions"):
        await Snapshots(home, str(project), private=".").take("s")


async def test_what_a_git_that_was_killed_has_left_behind_is_in_nobodys_way(
    project: Path, snapshots: Snapshots, tmp_path: Path
) -> None:
    (project / "a").write_text("1")
    await snapshots.take("s")
    (repository,) = (tmp_path / "home" / "snapshots").iterdir()
    lock = repository / "index-s.lock"
    lock.touch()
    with pytest.raises(StoreUnavailable, match=r"s\.lock"):  # somebody may be at work
        await snapshots.take("s")
    os.utime(lock, (1, 1))
    await snapshots.take("s")


async def test_what_is_kept_is_kept_also_when_there_is_no_time_to_tidy_up(
    project: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def for_ever(*_: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(module, "TIDYING", 0.01)
    monkeypatch.setattr(snapshots, "_forget_old", for_ever)
    (project / "a").write_text("1")
    name = await snapshots.take("s")
    (project / "a").write_text("2")
    assert (await snapshots.bring_back("s", name))[1] == [Change("changed", "a")]


async def test_the_indexes_of_sessions_that_are_long_gone_are_forgotten(
    project: Path, snapshots: Snapshots, tmp_path: Path
) -> None:
    await snapshots.take("old")
    (repository,) = (tmp_path / "home" / "snapshots").iterdir()
    os.utime(repository / "index-old", (1, 1))
    await Snapshots(tmp_path / "home", str(project)).take("new")
    assert sorted(path.name for path in repository.glob("index-*")) == ["index-new"]
