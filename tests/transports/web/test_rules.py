"""Rules of one request: stricter, always; looser, only where the server allows it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.settings import SafetyConfig
from aar.safety.paths import PathGuard
from aar.transports.http.refused import Refused
from aar.transports.web.rules import rules_of

USUAL = SafetyConfig()


def refused(asked: Any, server: SafetyConfig = USUAL, *, may_loosen: bool = False) -> tuple[int, str]:
    with pytest.raises(Refused) as refusal:
        rules_of(asked, server, may_loosen=may_loosen)
    return refusal.value.status, str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        (None, None),
        ({}, None),
        ({"read_only": False, "require_approval_for_writes": True}, None),
        ({"read_only": True}, {"read_only": True}),
        ({"log_all_commands": True}, {"log_all_commands": True}),
        ({"denied_paths": ["**/*.db"]}, {"denied_paths": [*USUAL.denied_paths, "**/*.db"]}),
        ({"denied_paths": []}, None),
        ({"deny": ["bash:git push*"], "confirm": []}, {"deny": ["bash:git push*"]}),
        ({"allowed_paths": ["<cwd>/**"]}, None),
        ({"allowed_paths": ["<cwd>/src/**", "docs/*.md"]}, {"allowed_paths": ["<cwd>/src/**", "docs/*.md"]}),
        ({"sandbox": {"mode": "local", "linux": {"max_memory_mb": 512}}}, None),
        ({"acp_approval_timeout": 5}, {"acp_approval_timeout": 5.0}),
    ],
)
def test_what_makes_rules_stricter_is_taken(asked: Any, rules: Any) -> None:
    assert rules_of(asked, USUAL, may_loosen=False) == rules


STRICT = SafetyConfig(
    read_only=True,
    log_all_commands=True,
    allowed_paths=["<cwd>/src/**", "/data/*.csv"],
    sandbox="linux",
    acp_approval_timeout=10,
)


@pytest.mark.covers("WEB-09")
@pytest.mark.parametrize(
    "asked",
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
        {"auto": ["bash"]},
        {"acp_approval_timeout": 0},
        {"acp_approval_timeout": 11},
    ],
)
def test_what_makes_them_looser_is_refused_or_taken_where_that_is_allowed(asked: Any) -> None:
    status, text = refused(asked, STRICT)
    assert status == 403
    assert next(iter(asked)) in text
    assert "--allow-loosening" in text
    rules = rules_of(asked, STRICT, may_loosen=True)
    assert rules is not None
    assert rules.keys() == asked.keys()


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


ALLOWED = [["<cwd>/**"], ["<cwd>/src/**", "/data/*.csv"], ["**"], ["src/**"], ["/data/**", "~/x/**"], ["/d[ab]/**"]]
PARTS = ["<cwd>", "/", "//", "..", ".", "*", "**", "[", "]", "a", "src", "data", "~", "?", "!", "x", ":", "\\"]
PLACES = ["/p/src/a", "/p/x", "/p/src", "/p", "/data/x", "/data/x.csv", "/etc/x", "/src/a", "/da/x", "/", "/p/.x/src/a"]


@given(allowed=st.sampled_from(ALLOWED), parts=st.lists(st.sampled_from(PARTS), max_size=6))
def test_whatever_pattern_is_taken_allows_no_more_than_the_server_does(allowed: list[str], parts: list[str]) -> None:
    server = SafetyConfig(allowed_paths=allowed)
    try:
        rules = rules_of({"allowed_paths": ["".join(parts)]}, server, may_loosen=False) or {}
    except Refused:
        return
    narrow, wide = PathGuard("/p", server.model_copy(update=rules)), PathGuard("/p", server)
    for place in PLACES:
        assert narrow.check(place, write=False) is not None or wide.check(place, write=False) is None


@pytest.mark.covers("WEB-14")
@pytest.mark.parametrize(
    ("asked", "says"),
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
def test_what_is_no_rule_is_refused_with_its_place(asked: Any, says: str, may_loosen: bool) -> None:
    status, text = refused(asked, may_loosen=may_loosen)
    assert (status, says in text) == (400, True), text


def test_no_request_trades_a_question_for_walls() -> None:
    status, text = refused({"sandbox": "linux"}, USUAL)
    assert (status, "safety.sandbox" in text) == (403, True)
