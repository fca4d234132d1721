"""The user's rules for single calls: deny over confirm over auto, and what can hide nowhere."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from aar.messages.settings import SafetyConfig
from aar.messages.tools import SideEffect
from aar.safety.policy import Verdict, decide

BASH = SimpleNamespace(name="bash", side_effects=(SideEffect.EXECUTE,), requires_approval=False, edition="")
WRITE = SimpleNamespace(name="write_file", side_effects=(SideEffect.WRITE,), requires_approval=False, edition="")
READ = SimpleNamespace(name="read_file", side_effects=(SideEffect.READ,), requires_approval=False, edition="")


def verdict(tool: Any, arguments: dict[str, Any], **safety: Any) -> Verdict:
    return decide(tool, arguments, SafetyConfig(**safety), "/work")


@pytest.mark.covers("AURA-76")
@pytest.mark.parametrize(("deny", "confirm", "auto"), list(product([False, True], repeat=3)))
def test_deny_wins_over_confirm_and_confirm_over_auto(deny, confirm, auto):
    rules = {"deny": deny, "confirm": confirm, "auto": auto}
    told = {name: ["bash:git *"] for name, is_said in rules.items() if is_said}
    action = "deny" if deny else "ask" if confirm else "allow" if auto else "ask"
    assert verdict(BASH, {"command": "git push"}, **told).action == action
    free = {"require_approval_for_execute": False, "allowed_paths": []}
    action = "deny" if deny else "ask" if confirm else "allow"
    assert verdict(BASH, {"command": "git push"}, **told, **free).action == action


@pytest.mark.covers("AURA-76")
@pytest.mark.parametrize(
    ("rule", "tool", "arguments", "hits"),
    [
        ("bash", BASH, {"command": "ls"}, True),
        ("b*", BASH, {"command": "ls"}, True),
        ("read_file", BASH, {"command": "ls"}, False),
        ("bash:git push*", BASH, {"command": "git push origin"}, True),
        ("bash:git push*", BASH, {"command": "git status"}, False),
        ("bash:git push*", BASH, {"command": "cd x && git push"}, True),
        ("bash:git push*", BASH, {"command": "sudo git push"}, True),
        ("bash:git push*", BASH, {"command": "sh -c 'git push'"}, True),
        ("bash:git push*", BASH, {"command": "echo 'git push'"}, False),
        ("write_file:/work/src/*", WRITE, {"path": "src/a.py", "content": ""}, True),
        ("write_file:/work/src/*", WRITE, {"path": "/work/./src/a.py", "content": ""}, True),
        ("write_file:src/*", WRITE, {"path": "src/a.py", "content": ""}, True),
        ("write_file:/work/src/*", WRITE, {"path": "docs/a.md", "content": ""}, False),
    ],
)
def test_a_rule_finds_the_calls_that_it_means(rule, tool, arguments, hits):
    free = {"require_approval_for_execute": False, "require_approval_for_writes": False, "allowed_paths": []}
    assert verdict(tool, arguments, deny=[rule], **free).action == ("deny" if hits else "allow")
    assert verdict(tool, arguments, confirm=[rule], **free).action == ("ask" if hits else "allow")


@pytest.mark.parametrize("command", ["$(echo git) push", 'x="git"; $x push', "git push <<EOF\nEOF"])
def test_a_command_that_cannot_be_read_for_certain_is_asked_where_there_is_a_rule(command):
    free = {"require_approval_for_execute": False, "allowed_paths": []}
    assert verdict(BASH, {"command": command}, deny=["bash:git push*"], **free).action in ("ask", "deny")
    assert verdict(BASH, {"command": command}, deny=["write_file:x"], **free).action == "allow"


@pytest.mark.parametrize("command", ["git status && rm x", "git status > /etc/x", "git status; $(rm x)", "sudo git x"])
def test_what_runs_more_than_the_rule_says_is_not_allowed_by_it(command):
    assert verdict(BASH, {"command": command}, auto=["bash:git *"]).action == "ask"


def test_auto_lifts_no_denial():
    assert verdict(BASH, {"command": "mkfs /dev/sda"}, auto=["bash", "bash:*"]).action == "deny"
    assert verdict(WRITE, {"path": "/etc/passwd"}, auto=["write_file"]).action == "deny"
    assert verdict(WRITE, {"path": "a"}, auto=["write_file"], read_only=True).action == "deny"
    assert verdict(READ, {"path": ".env"}, auto=["*", "read_file"]).action == "deny"


def test_confirm_hides_no_denial():
    assert verdict(BASH, {"command": "mkfs /dev/sda"}, confirm=["bash"]).action == "deny"
