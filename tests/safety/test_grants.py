from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.settings import SafetyConfig
from aar.messages.tools import SideEffect
from aar.safety.grants import Grants, approval_key


@dataclass(frozen=True)
class Tool:
    name: str
    side_effects: tuple[SideEffect, ...]
    requires_approval: bool = False
    edition: str = ""


BASH = Tool("bash", (SideEffect.EXECUTE,))
WRITE = Tool("write_file", (SideEffect.WRITE,))
MCP = Tool("server__tool", (SideEffect.EXTERNAL,))


def key(tool: Tool, cwd: Path | str = "/w", /, **arguments: Any) -> str:
    return approval_key(tool, arguments, SafetyConfig(), str(cwd))


def test_the_key_of_a_command_is_the_command_and_its_folder() -> None:
    assert json.loads(key(BASH, command=" git status\n")) == ["bash", "execute", "git status", "/w"]
    assert key(BASH, command="git status", timeout=5) == key(BASH, command="git status")
    others = [
        key(BASH, command="git status; x"),
        key(BASH, command="git  status"),
        key(BASH, command="'$(x)'"),
        key(BASH, command="$(x)"),
        key(BASH, "/other", command="git status"),
        key(BASH, command="git status", cwd="sub"),
        key(BASH, command="git status", env={"PATH": "/x"}),
        key(BASH, command="git", args=["status", "-s"]),
        key(Tool("other", (SideEffect.EXECUTE,)), command="git status"),
    ]
    assert len({key(BASH, command="git status"), *others}) == len(others) + 1


def test_everything_that_decides_what_runs_is_in_the_key_of_a_command() -> None:
    different = [
        {"command": ["rm", "a"]},
        {"command": ["rm", "a b"]},
        {"command": ["ls"]},
        {"command": {"run": "a"}},
        {"command": {"run": "b"}},
        {"command": "make"},
        {"command": "make", "args": "all"},
        {"command": "make", "args": ["all", {"x": 1}]},
        {"command": "make", "args": {"x": 1}},
        {"command": "make", "dry": False},
        {"command": "make", "cwd": ["a"]},
        {"command": "make\u00a0"},
        {"command": "make\x0b"},
        {"command": "make\\"},
        {"command": "make\\ "},
    ]
    assert len({key(BASH, **arguments) for arguments in different}) == len(different)
    assert key(BASH, command="make\n") == key(BASH, command=" make") == key(BASH, command="make", timeout=3)


@pytest.mark.parametrize(
    "name", [".gitattributes", "sub/.gitmodules", ".agent/rules.md", ".bashrc", ".githooks/x", ".git"]
)
def test_always_for_a_folder_leaves_out_what_takes_effect_by_itself(tmp_path: Path, name: str) -> None:
    assert json.loads(key(WRITE, tmp_path, path=name)) == ["write_file", "write", f"{tmp_path}/{name}"]
    assert json.loads(key(WRITE, tmp_path, path="notes.txt")) == ["write_file", "write", f"{tmp_path}/"]


def test_writes_inside_the_folder_share_a_key_and_others_have_their_own(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    (work / "link").symlink_to(tmp_path / "out")
    inside = key(WRITE, work, path="a.txt", content="x")
    assert json.loads(inside) == ["write_file", "write", f"{work}/"]
    assert key(WRITE, work, path=f"{work}/sub/../b.txt", content="y") == inside
    assert json.loads(key(WRITE, work, path="link/c")) == ["write_file", "write", f"{tmp_path}/out/c"]
    assert json.loads(key(WRITE, work, path="../work2/c")) == ["write_file", "write", f"{tmp_path}/work2/c"]
    assert json.loads(key(WRITE, work, path=".git/config")) == ["write_file", "write", f"{work}/.git/config"]
    assert key(WRITE, work, text="x") != key(WRITE, work, text="y")


def test_the_key_of_a_foreign_tool_is_the_tool() -> None:
    assert key(MCP, query="a") == key(MCP, query="b") == '["server__tool", "tool"]'
    assert key(Tool("fetch", (SideEffect.NETWORK,)), url="x") == '["fetch", "tool"]'


def test_the_key_of_a_foreign_tool_has_its_edition() -> None:
    now, later = (Tool("server__tool", (SideEffect.EXTERNAL,), edition=edition) for edition in ("a", "b"))
    assert key(now, query="a") == key(now, query="b") == '["server__tool", "tool", "a"]'
    granted = Grants().allow(key(now)).deny(key(MCP))
    assert [granted.verdict("server__tool", key(one), {}) for one in (now, later, MCP)] == ["allow", None, "deny"]
    assert granted.revoke("server__tool") == Grants()


def test_always_holds_for_the_same_key_only() -> None:
    allowed = Grants().allow(key(BASH, command="ls"))
    assert allowed.verdict("bash", key(BASH, command="ls"), {"command": "ls"}) == "allow"
    assert allowed.verdict("bash", key(BASH, command="ls; x"), {"command": "ls; x"}) is None
    assert Grants().verdict("bash", key(BASH, command="ls"), {"command": "ls"}) is None


def test_never_beats_always_and_the_last_word_counts() -> None:
    wanted = key(BASH, command="ls")
    grants = Grants().auto_approve("bash").deny(wanted)
    assert grants.verdict("bash", wanted, {"command": "ls"}) == "deny"
    assert grants.allow(wanted).verdict("bash", wanted, {"command": "ls"}) == "allow"
    assert grants.allow(wanted).deny(wanted) == grants


@pytest.mark.covers("SAFE-17")
@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("git status", "allow"),
        ("git add . && git commit -m 'x; y'", "allow"),
        ("git log 2>/dev/null", "allow"),
        ("git", None),
        ("gitk x", None),
        ("git status; rm x", None),
        ("git log | sh", None),
        ("git log $(rm x)", None),
        ("git log > ~/.bashrc", None),
        ("git log <<E\nE", None),
        ("git 'unfinished", None),
        ("A=1 git status", None),
        ("", None),
    ],
)
def test_a_pattern_allows_a_command_when_every_part_fits(command: str, verdict: str | None) -> None:
    grants = Grants().auto_approve("bash:git *")
    assert grants.verdict("bash", key(BASH, command=command), {"command": command}) == verdict
    assert grants.verdict("other", "k", {"command": command}) is None


def test_several_patterns_work_together_and_a_folder_counts_as_well() -> None:
    grants = Grants().auto_approve("bash:git *").auto_approve("bash:make test")
    verdicts = [
        grants.verdict("bash", "k", arguments)
        for arguments in (
            {"command": "make test && git push"},
            {"command": "make test all"},
            {"command": "git push", "cwd": "/etc"},
            {"command": "git push", "note": "anything"},
            {"command": "git", "args": ["push; x"]},
        )
    ]
    assert verdicts == ["allow", None, None, "allow", "allow"]


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        ({"path": "src/a.py", "content": "x"}, "allow"),
        ({"path": "src/../x", "content": "x"}, None),
        ({"path": "x", "content": "src/a.py"}, None),
        ({"text": "src/a.py"}, "allow"),
        ({"number": 5}, None),
    ],
)
def test_a_pattern_for_files_looks_at_the_paths(arguments: Mapping[str, Any], verdict: str | None) -> None:
    assert Grants().auto_approve("write_file:src/*").verdict("write_file", "k", arguments) == verdict


def test_a_whole_tool_can_be_approved() -> None:
    grants = Grants().auto_approve("bash").auto_approve("bash")
    assert grants.entries == ("bash",)
    assert grants.verdict("bash", "k", {"command": "anything; at all"}) == "allow"
    assert grants.verdict("write_file", "k", {}) is None


@pytest.mark.covers("SAFE-19")
def test_revoking_a_tool_forgets_everything_about_it() -> None:
    other = Grants().allow(key(MCP)).auto_approve("write_file:src/*")
    grants = other.allow(key(BASH, command="a")).deny(key(BASH, command="b")).auto_approve("bash:git *")
    grants = grants.auto_approve("bash")
    assert grants.revoke("bash") == other
    assert grants.revoke("bash:git *").entries == ("write_file:src/*", "bash")
    assert grants.revoke("bash").verdict("bash", key(BASH, command="a"), {"command": "a"}) is None


@given(st.text(max_size=20), st.text(max_size=20))
def test_commands_share_a_key_only_when_they_are_the_same(one: str, other: str) -> None:
    trimmed = [text.lstrip(" \t\n") for text in (one, other)]
    same = [text if re.search(r"\\[ \t\n]+\Z", text) else text.rstrip(" \t\n") for text in trimmed]
    assert (key(BASH, command=one) == key(BASH, command=other)) == (same[0] == same[1])


@given(st.text(min_size=1, max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_allowing_one_command_never_allows_a_longer_one(command: str, before: str, after: str) -> None:
    longer = f"{before}{command}{after}"
    grants = Grants().allow(key(BASH, command=command))
    expected = "allow" if key(BASH, command=longer) == key(BASH, command=command) else None
    assert longer.strip() == command.strip() or expected is None
    assert grants.verdict("bash", key(BASH, command=longer), {"command": longer}) == expected
