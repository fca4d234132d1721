"""Rules of one request: stricter, always; looser, only where the server allows it."""

from __future__ import annotations

from typing import Any

import pytest

from aar.messages.settings import SafetyConfig
from aar.safety.paths import PathGuard
from aar.transports.http.refused import Refused
from aar.transports.web.rules import rules_of

USUAL = SafetyConfig()


def refused(given: Any, server: SafetyConfig = USUAL, *, may_loosen: bool = False) -> tuple[int, str]:
    with pytest.raises(Refused) as refusal:
        rules_of(given, server, may_loosen=may_loosen)
    return refusal.value.status, str(refusal.value)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        (None, None),
        ({}, None),
        ({"read_only": False, "require_approval_for_writes": True}, None),
        ({"read_only": True}, {"read_only": True}),
        ({"log_all_commands": True}, {"log_all_commands": True}),
        ({"denied_paths": ["**/*.db"]}, {"denied_paths": [*USUAL.denied_paths, "**/*.db"]}),
        ({"denied_paths": []}, None),
        ({"allowed_paths": ["<cwd>/**"]}, None),
        ({"allowed_paths": ["<cwd>/src/**", "docs/*.md"]}, {"allowed_paths": ["<cwd>/src/**", "docs/*.md"]}),
        ({"sandbox": "linux"}, {"sandbox": {"mode": "linux"}}),
        ({"sandbox": {"mode": "local", "linux": {"max_memory_mb": 512}}}, None),
        ({"acp_approval_timeout": 5}, {"acp_approval_timeout": 5.0}),
    ],
)
def test_what_makes_rules_stricter_is_taken(given: Any, rules: Any) -> None:
    assert rules_of(given, USUAL, may_loosen=False) == rules


STRICT = SafetyConfig(
    read_only=True,
    log_all_commands=True,
    allowed_paths=["<cwd>/src/**", "/data/*.csv"],
    sandbox="linux",
    acp_approval_timeout=10,
)


@pytest.mark.covers("WEB-09")
@pytest.mark.parametrize(
    "given",
    [
        {"read_only": False},
        {"require_approval_for_writes": False},
        {"require_approval_for_execute": False},
        {"log_all_commands": False},
        {"allowed_paths": []},
        {"allowed_paths": ["<cwd>/**"]},
        {"allowed_paths": ["<cwd>/src/**", "/etc/**"]},
        {"allowed_paths": ["<cwd>/src/../../x"]},
        {"allowed_paths": ["<cwd>/srcs/**"]},
        {"allowed_paths": ["**"]},
        {"allowed_paths": ["/data/**"]},
        {"sandbox": "local"},
        {"sandbox": "auto"},
        {"sandbox": {"mode": "linux", "linux": {"workspace": "/"}}},
        {"acp_approval_timeout": 0},
        {"acp_approval_timeout": 11},
    ],
)
def test_what_makes_them_looser_is_refused_or_taken_where_that_is_allowed(given: Any) -> None:
    status, text = refused(given, STRICT)
    assert status == 403
    assert next(iter(given)) in text
    assert "--allow-loosening" in text
    rules = rules_of(given, STRICT, may_loosen=True)
    assert rules is not None
    assert rules.keys() == given.keys()


def test_where_rules_may_be_loosened_denied_paths_are_replaced() -> None:
    assert rules_of({"denied_paths": ["**/*.db"]}, USUAL, may_loosen=True) == {"denied_paths": ["**/*.db"]}


@pytest.mark.parametrize(
    "pattern", ["<cwd>/src/**", "src/**", "src/a*", "<cwd>/src/[ab]/**", "<cwd>/**/x", "<cwd>/src", "<cwd>//etc/passwd"]
)
def test_a_pattern_that_is_within_the_folder_allows_nothing_outside_of_it(pattern: str) -> None:
    rules = rules_of({"allowed_paths": [pattern]}, USUAL, may_loosen=False)
    assert rules is not None
    narrow = PathGuard("/project", USUAL.model_copy(update=rules))
    wide = PathGuard("/project", USUAL)
    for path in ("/project/src/a/x", "/project/x", "/etc/hostname", "/projects/src/a", "/", "/src/a", "/project"):
        if narrow.check(path, write=False) is None:
            assert wide.check(path, write=False) is None


@pytest.mark.covers("WEB-14")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "must be an object"),
        ("read_only", "must be an object"),
        ({"readonly": True}, "Did you mean 'read_only'"),
        ({"read_only": "yes"}, "safety.read_only"),
        ({"read_only": 1}, "safety.read_only"),
        ({"denied_paths": "x"}, "safety.denied_paths"),
        ({"allowed_paths": [1]}, "safety.allowed_paths"),
        ({"sandbox": {"mod": "linux"}}, "Did you mean 'mode'"),
        ({"sandbox": "docker"}, "safety.sandbox"),
        ({"sandbox": {"linux": {"max_memory_mb": "x"}}}, "safety.sandbox.linux.max_memory_mb"),
        ({"sandbox": 3}, "safety.sandbox"),
        ({"acp_approval_timeout": -1}, "safety.acp_approval_timeout"),
    ],
)
@pytest.mark.parametrize("may_loosen", [True, False])
def test_what_is_no_rule_is_refused_with_its_place(given: Any, says: str, may_loosen: bool) -> None:
    status, text = refused(given, may_loosen=may_loosen)
    assert (status, says in text) == (400, True), text
