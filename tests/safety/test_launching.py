from __future__ import annotations

import time

import pytest

from aar.safety.grants import Grants


def allowed(pattern: str, command: str) -> bool:
    grants = Grants().auto_approve(f"bash:{pattern}")
    return grants.verdict("bash", "k", {"command": command}) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        r"find . -exec rm {} \;",
        r"find . -okdir rm {} \;",
        "fd -x rm",
        "git -c alias.x='!rm x' x",
        "git -ccore.pager=x log",
        "git --config-env=core.pager=HOME log",
        "git --exec-pa=. status",
        "git -C . -c core.fsmonitor=x status",
        "git fetch --upload-pack='rm x' .",
        "git ls-remote --u='rm x' .",
        "git clone -u 'rm x' . y",
        "git clone -c core.sshCommand=x u",
        "git clone --template=t u",
        "git push --receive-pack=x .",
        "git grep -nO'rm x' y",
        "git rebase --exec 'rm x' main",
        "git rebase -x 'rm x' main",
        "git bisect run rm x",
        "git submodule foreach rm x",
        "git difftool -x rm",
        "git config alias.x '!rm x'",
        "git config core.hooksPath x",
        "git fetch ext::rm",
        "tar cf a.tar x --checkpoint=1 --checkpoint-action=exec='rm x'",
        "tar -xOf a.tar --to-comm='rm x'",
        "tar -cI 'rm x' -f a.tar x",
        "tar cIf 'rm x' a.tar x",
        "rsync -ae 'rm x' a b:",
        "rsync --rsync-path='rm x' a b:",
        "ssh -oProxyCommand='rm x' host",
        "sort --compress-prog=x a",
        "split --filter='rm x' a",
        "rg --pre rm x",
        "awk 'BEGIN { system(\"rm x\") }'",
        "awk '{ print | \"sh\" }' a",
        "awk -f x a",
        "sed '1e rm x' a",
        "sed 's/a/rm x/e' a",
        "sed -n '/x/ { e rm x\n}' a",
        "sed -f x a",
        "sed -ee\\ rm a",
    ],
)
def test_a_pattern_for_a_program_covers_no_other_program_that_it_starts(command: str) -> None:
    assert not allowed(command.split()[0] + " *", command)
    assert allowed(command, command)


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.py' -newer x -print",
        "git status -uno",
        "git -C sub log --oneline -5",
        "git switch -c topic",
        "git commit -c HEAD",
        "git commit --amend -m 'never -exec'",
        "git push -u origin main",
        "git diff -Oorder --exit-code",
        "git config --get user.name",
        "git config -l",
        "git clone --depth 1 https://example.org/x",
        "git submodule update --init",
        "tar -xzf a.tgz -C out",
        "tar xzf a.tgz",
        "rsync -av --delete a/ b/",
        "ssh -o StrictHostKeyChecking=no host uptime",
        "sort -u a",
        "rg -n TODO",
        "awk -F: '$3 > 5 || $1 == \"x\" { print $1 }' a",
        "sed -n '1,5p' a",
        "sed -i 's/red/green/g; s|one|two|' a",
        "sed -e 's/a/e/' -e '/me/d' a",
    ],
)
def test_everyday_commands_stay_covered(command: str) -> None:
    assert allowed(command.split()[0] + " *", command)


def test_what_the_pattern_names_itself_is_covered() -> None:
    assert allowed("find . -exec grep *", r"find . -exec grep x {} \;")
    assert allowed("git -c color.ui=never *", "git -c color.ui=never log")
    assert allowed("sudo apt *", "sudo apt install x")
    assert allowed("timeout 60 pytest *", "timeout 60 pytest -q")
    assert not allowed("sudo *", r"sudo find . -exec rm {} \;")
    assert not allowed("env *", "env -u A git -c alias.x='!rm x' x")


@pytest.mark.parametrize("unit", ["s/", "e ", "1", "/e", "|", "s/s/", "-exec ", "--", "-c ", "\n", "! "])
@pytest.mark.parametrize("program", ["sed", "awk", "git", "find", "tar"])
def test_no_text_takes_long(program: str, unit: str) -> None:
    before = time.process_time()
    allowed(f"{program} *", f"{program} '{unit * (9_900 // len(unit))}'")
    allowed(f"{program} *", f"{program} {unit * (9_900 // len(unit))}")
    assert time.process_time() - before < 1
