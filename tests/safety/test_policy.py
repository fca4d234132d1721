from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aar.messages.settings import DENIED_COMMANDS, DENIED_PATHS, SafetyConfig
from aar.messages.tools import SideEffect
from aar.safety.policy import CommandRule, PathRule, Verdict, decide


@dataclass(frozen=True)
class Tool:
    name: str
    side_effects: tuple[SideEffect, ...]
    requires_approval: bool = False
    edition: str = ""


READ = Tool("read_file", (SideEffect.READ,))
WRITE = Tool("write_file", (SideEffect.WRITE,))
BASH = Tool("bash", (SideEffect.EXECUTE,))
PURE = Tool("think", (SideEffect.NONE,))
FETCH = Tool("fetch", (SideEffect.NETWORK,))
MCP = Tool("server__tool", (SideEffect.EXTERNAL,))
MCP_READ = Tool("server__look", (SideEffect.EXTERNAL, SideEffect.READ))

TRUSTING = SafetyConfig(require_approval_for_writes=False, require_approval_for_execute=False)
UNBOUND = TRUSTING.model_copy(update={"allowed_paths": []})


def action(tool: Tool, arguments: Mapping[str, Any], safety: SafetyConfig, cwd: Path | str = "/w", **more: Any) -> str:
    return decide(tool, arguments, safety, str(cwd), **more).action


def test_read_only_denies_everything_that_changes_something() -> None:
    safety = SafetyConfig(read_only=True)
    expected = {READ: "allow", WRITE: "deny", BASH: "deny", PURE: "allow", FETCH: "deny", MCP: "deny", MCP_READ: "ask"}
    assert {tool: action(tool, {}, safety) for tool in expected} == expected
    assert decide(WRITE, {"path": "a"}, safety, "/w") == Verdict("deny", "read-only mode")


@pytest.mark.covers("SAFE-02")
@pytest.mark.parametrize("tool", [READ, WRITE])
def test_denied_paths_are_denied_however_trusting_the_settings(tool: Tool, tmp_path: Path) -> None:
    for safety in (SafetyConfig(), TRUSTING, UNBOUND):
        assert decide(tool, {"path": ".env"}, safety, str(tmp_path)) == Verdict(
            "deny", f"'{tmp_path}/.env' is denied by '**/.env'"
        )


@pytest.mark.parametrize("pattern", DENIED_PATHS)
def test_each_default_denied_path_is_denied(pattern: str, tmp_path: Path) -> None:
    path = pattern.replace("**/", f"{tmp_path}/deep/", 1) if pattern.startswith("**/") else pattern
    path = path.replace("**", "x/y").replace("*", "some")
    assert action(READ, {"path": path}, UNBOUND, tmp_path) == "deny"
    assert action(READ, {"path": f"{tmp_path}/deep/fine.txt"}, UNBOUND, tmp_path) == "allow"


@pytest.mark.covers("SAFE-03")
def test_allowed_paths_are_a_boundary_that_includes_its_root(tmp_path: Path) -> None:
    inside, outside = {"path": "a/b.txt"}, {"path": "/elsewhere/b.txt"}
    assert action(READ, inside, TRUSTING, tmp_path) == "allow"
    assert action(READ, {"path": str(tmp_path)}, TRUSTING, tmp_path) == "allow"
    assert action(READ, {"path": "."}, TRUSTING, tmp_path) == "allow"
    assert action(READ, outside, TRUSTING, tmp_path) == "deny"
    assert action(READ, {"path": f"{tmp_path}2/b.txt"}, TRUSTING, tmp_path) == "deny"
    assert action(READ, outside, UNBOUND, tmp_path) == "allow"


@pytest.mark.covers("SAFE-04")
def test_a_path_rule_beats_denied_paths(tmp_path: Path) -> None:
    rules = [PathRule("**/.env"), PathRule("**/.env", allow_read=False)]
    assert action(READ, {"path": ".env"}, TRUSTING, tmp_path, path_rules=rules) == "allow"
    assert action(WRITE, {"path": ".env"}, TRUSTING, tmp_path, path_rules=rules) == "deny"
    assert action(READ, {"path": ".env"}, TRUSTING, tmp_path, path_rules=rules[::-1]) == "deny"


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "/etc/shadow"},
        {"cwd": "/etc/sudoers"},
        {"filePath": "/etc/shadow"},
        {"paths": ["a.txt", "/etc/shadow"]},
        {"options": {"target_file": "/etc/shadow"}},
        {"edits": [{"path": "a"}, {"path": "sub/../.env"}]},
        {"path": "file:///etc/shadow"},
        {"url": "FILE:///etc/shadow"},
        {"path": "file:///w/a#/../../etc/shadow"},
        {"path": "file://[/etc/shadow"},
        {"path": "https://example.org/../../../../../../../../../etc/shadow"},
        {"path": "s3:/../../../../../../../../etc/shadow"},
        {"path": "~/x"},
        {"files": {"/etc/shadow": "content"}},
        {"path": "a\0b"},
        {"path": "\ud800"},
    ],
)
def test_every_argument_that_names_a_path_is_checked(arguments: dict[str, Any], tmp_path: Path) -> None:
    for tool in (READ, WRITE, BASH, MCP):
        assert action(tool, arguments, SafetyConfig(), tmp_path) == "deny"
    assert action(PURE, arguments, SafetyConfig(), tmp_path) == "allow"


def test_arguments_that_name_no_local_path_are_left_alone(tmp_path: Path) -> None:
    for arguments in ({"path": "https://example.org/.env"}, {"query": "/etc/shadow"}, {"path": 5}, {"path": ""}):
        assert action(READ, arguments, SafetyConfig(), tmp_path) == "allow"


@pytest.mark.covers("SAFE-05")
@pytest.mark.parametrize("command", DENIED_COMMANDS)
def test_each_denied_command_is_denied(command: str) -> None:
    assert decide(BASH, {"command": command}, UNBOUND, "/w").action == "deny"


def test_a_command_and_its_arguments_are_judged_together() -> None:
    assert action(BASH, {"command": "rm", "args": ["-rf", "/"]}, UNBOUND) == "deny"
    assert action(BASH, {"command": "rm", "args": ["-rf", "/srv; /"]}, UNBOUND) == "allow"
    assert action(BASH, {"command": "echo", "args": ["x", "|", "reboot"]}, UNBOUND) == "allow"
    assert action(BASH, {"command": "rm", "args": "-rf /"}, UNBOUND) == "deny"
    assert action(BASH, {"command": ["rm", "-rf", "/"]}, UNBOUND) == "deny"
    assert action(BASH, {"command": ["echo", "rm -rf /"]}, UNBOUND) == "allow"


@pytest.mark.covers("SAFE-06")
def test_command_rules_match_text_or_regex_and_the_first_decides() -> None:
    rules = [
        CommandRule("git push --force"),
        CommandRule("git push", "ask"),
        CommandRule(r"^reboot\b", "allow", is_regex=True),
        CommandRule("reboot"),
    ]
    results = {
        command: decide(BASH, {"command": command}, UNBOUND, "/w", command_rules=rules)
        for command in ("git push --force", "git push", "git status", "reboot now", "sudo reboot")
    }
    assert results == {
        "git push --force": Verdict("deny", "command rule 'git push --force'"),
        "git push": Verdict("ask", "command rule 'git push'"),
        "git status": Verdict("allow"),
        "reboot now": Verdict("allow"),
        "sudo reboot": Verdict("deny", "command rule 'reboot'"),
    }
    needs_approval = SafetyConfig(allowed_paths=[])
    assert action(BASH, {"command": "reboot now"}, needs_approval, command_rules=rules) == "ask"
    with pytest.raises(ValueError, match="is no regular expression"):
        CommandRule("(", is_regex=True)


@pytest.mark.covers("SAFE-07")
def test_writes_and_commands_ask_when_the_settings_say_so() -> None:
    writes = SafetyConfig(require_approval_for_execute=False, allowed_paths=[])
    commands = SafetyConfig(require_approval_for_writes=False, allowed_paths=[])
    tools = (READ, WRITE, BASH, PURE)
    assert [action(tool, {}, writes) for tool in tools] == ["allow", "ask", "allow", "allow"]
    assert [action(tool, {}, commands) for tool in tools] == ["allow", "allow", "ask", "allow"]
    assert [action(tool, {}, UNBOUND) for tool in tools] == ["allow"] * 4


@pytest.mark.covers("SAFE-08", "SAFE-09")
def test_commands_ask_when_nothing_but_the_policy_holds_the_boundary() -> None:
    assert action(BASH, {"command": "ls"}, TRUSTING) == "ask"
    assert action(BASH, {"command": "ls"}, TRUSTING, sandbox_enforces=True) == "allow"
    assert action(BASH, {"command": "ls"}, UNBOUND) == "allow"


@pytest.mark.covers("SAFE-21")
def test_external_and_network_tools_ask_and_are_denied_in_read_only_mode() -> None:
    assert [action(tool, {}, SafetyConfig()) for tool in (MCP, FETCH, MCP_READ)] == ["ask"] * 3
    assert [action(tool, {}, TRUSTING) for tool in (MCP, FETCH, MCP_READ)] == ["allow"] * 3
    assert [action(tool, {}, SafetyConfig(read_only=True)) for tool in (MCP, FETCH)] == ["deny"] * 2


@pytest.mark.parametrize("effect", list(SideEffect))
def test_a_tool_that_requires_approval_always_asks(effect: SideEffect) -> None:
    assert action(Tool("careful", (effect,), requires_approval=True), {}, UNBOUND) == "ask"


def test_gates_come_in_order() -> None:
    """A hard denial is found before any question, whatever else would apply."""
    strict = SafetyConfig(read_only=True)
    assert decide(WRITE, {"path": ".env"}, strict, "/w").reason == "read-only mode"
    both = Tool("run", (SideEffect.EXECUTE, SideEffect.READ), requires_approval=True)
    arguments = {"cwd": "/etc", "command": "reboot"}
    assert decide(both, arguments, SafetyConfig(), "/w").reason == "'/etc' is outside the allowed paths"
    assert decide(both, {"command": "reboot"}, SafetyConfig(), "/w").reason == "the command is denied by 'reboot'"
    assert decide(both, {"command": "ls"}, SafetyConfig(), "/w").reason == "run always asks"


@pytest.mark.parametrize("name", ["source", "destination", "src", "dst", "dest", "target", "uri"])
def test_arguments_that_say_from_and_to_name_paths(name: str, tmp_path: Path) -> None:
    assert action(WRITE, {name: "/root/.ssh/authorized_keys"}, TRUSTING, tmp_path) == "deny"
    assert action(WRITE, {name: "notes.txt"}, TRUSTING, tmp_path) == "allow"


def test_path_rules_hold_for_tools_that_send_files_away(tmp_path: Path) -> None:
    assert action(FETCH, {"path": "/etc/shadow"}, UNBOUND, tmp_path) == "deny"
    assert action(FETCH, {"path": "notes.txt"}, UNBOUND, tmp_path) == "allow"


def test_a_command_that_is_too_long_to_judge_is_asked_about(tmp_path: Path) -> None:
    assert action(BASH, {"command": "echo x\n" * 3_000}, UNBOUND, tmp_path) == "ask"
    assert action(BASH, {"command": "echo x\n" * 3_000 + "rm -rf /"}, UNBOUND, tmp_path) == "deny"
    assert action(BASH, {"command": "echo x"}, UNBOUND, tmp_path) == "allow"


def test_arguments_that_are_too_much_to_judge_are_denied_in_time(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"path": "a"}
    for _ in range(5_000):
        deep = {"a": deep}
    before = time.process_time()
    for tool in (READ, WRITE, BASH, MCP):
        assert decide(tool, deep, UNBOUND, "/w") == Verdict("deny", "the arguments are nested more than 64 deep")
        many = {"paths": [f"a/{number}" for number in range(100_000)]}
        assert decide(tool, many, UNBOUND, "/w") == Verdict("deny", "the call names more than 1000 paths")
        assert action(tool, {"path": "a/" * 500_000}, UNBOUND) == "deny"
    assert time.process_time() - before < 5
    assert action(READ, {"paths": ["a"] * 1_000}, UNBOUND, tmp_path) == "allow"
