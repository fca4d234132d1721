"""What a command changes of what git runs later, outside the sandbox, is told: real repositories, real git."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from aar.messages.settings import LinuxSandbox as LinuxSettings
from aar.processes.guard import open_guard
from aar.safety.sandbox import CommandResult
from aar.safety.sandbox.git_programs import GitPrograms, changed_note
from aar.safety.sandbox.linux import LinuxSandbox

NOTE = "This command has changed what git runs later, as the user and outside the sandbox: "


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    subprocess.run(["git", "init", "-q", "-b", "main", "."], cwd=folder, check=True)
    return folder


@pytest.fixture
def repository(tmp_path: Path, template: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "repository", symlinks=True))


async def run(folder: Path, command: str, limit: int = 20_000) -> CommandResult:
    async with open_guard():
        return await LinuxSandbox(str(folder), LinuxSettings()).execute(command, timeout=60, output_limit=limit)


async def test_a_hook_that_a_command_has_put_there_is_told(repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    done = await run(repository, "echo hi; echo oh >&2; echo evil > .git/hooks/pre-commit")
    note = f"{NOTE}.git/hooks/pre-commit. Look at it before git is used here."
    assert done == CommandResult("hi\n", f"oh\n{note}\n", 0)
    assert note in caplog.messages
    assert (await run(repository, "cat .git/hooks/pre-commit")).stderr == ""


async def test_what_git_itself_writes_is_not_told(repository: Path) -> None:
    who = "git -c user.name=a -c user.email=a@b"
    command = (
        "git config user.name me; git config user.email me@here; echo a > a; git add a; "
        f"{who} commit -qm one; git branch other; git checkout -q other; git remote add origin https://host/x.git; "
        "git config branch.other.remote origin; git config pull.rebase true; git gc -q"
    )
    done = await run(repository, command)
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("git config core.hooksPath .mine", "core.hookspath in .git/config"),
        ("git config core.fsmonitor ./run", "core.fsmonitor in .git/config"),
        ("git config alias.st '!evil'", "alias.st in .git/config"),
        ("git config filter.x.clean evil", "filter.x.clean in .git/config"),
        ("git config include.path ../more", "include.path in .git/config"),
        ("printf '[core]\\n\\tssh\\\\\\nCommand = evil' >> .git/config", "core.sshcommand in .git/config"),
        ("printf '[core] pager = evil' >> .git/config", "core.pager in .git/config"),
        ("mkdir there; rm -r .git/hooks; ln -s ../there .git/hooks", ".git/hooks"),
        ("ln -s /etc/passwd .git/hooks/post-merge", ".git/hooks/post-merge"),
        ("mkfifo .git/hooks/update", ".git/hooks/update"),
    ],
)
async def test_settings_and_links_that_lead_to_programs_are_told(repository: Path, command: str, named: str) -> None:
    assert f"{NOTE}{named}. Look" in (await run(repository, command)).stderr


async def test_a_hook_that_can_be_run_now_is_told(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o644)
    assert (await run(repository, "true")).stderr == ""
    assert ".git/hooks/pre-push" in (await run(repository, "chmod +x .git/hooks/pre-push")).stderr


async def test_a_repository_that_a_command_makes_has_none(tmp_path: Path) -> None:
    assert (await run(tmp_path, "git init -q .")).stderr == ""


async def test_it_is_told_also_of_a_command_that_is_cancelled(
    repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with trio.CancelScope() as scope:
        async with open_guard():
            await LinuxSandbox(str(repository), LinuxSettings()).execute(
                "echo evil > .git/hooks/pre-commit; echo done; sleep 1000",
                timeout=60,
                output_limit=100,
                report=lambda text: scope.cancel(),
            )
    assert scope.cancelled_caught
    assert any(".git/hooks/pre-commit" in message for message in caplog.messages)


async def test_the_note_has_a_place_in_the_output_however_much_there_is(repository: Path) -> None:
    done = await run(repository, "seq 5000; echo evil > .git/hooks/pre-commit", limit=1000)
    assert done.stdout.endswith("4999\n5000\n")
    assert done.stderr.startswith(NOTE)
    assert len(done.stdout) + len(done.stderr) <= 1000


def test_many_changes_are_counted_and_what_is_gone_is_no_change() -> None:
    after = {f".git/hooks/{name}": "x" for name in ("a", "b" * 100, "c", "d", "e")}
    shown = f".git/hooks/a, .git/hooks/{'b' * 49}…, .git/hooks/c and 2 more"
    assert changed_note({}, after) == f"{NOTE}{shown}. Look at it before git is used here."
    assert changed_note(after, {}) == ""


def test_a_folder_without_a_repository_has_nothing_to_look_at(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    assert GitPrograms([str(tmp_path), os.path.join(tmp_path, "none")]).look() == {}
