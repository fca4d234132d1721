"""The user's commands around tool calls, as they are written down: order, inheritance, mistakes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aar.config.shell_hooks import ShellHook, in_force, parse_shell_hooks
from aar.errors import InvalidSetting


def hook(**fields: Any) -> dict[str, Any]:
    return {"event": "post", "command": "true", **fields}


def test_an_entry_needs_an_event_and_a_command_and_the_rest_has_defaults() -> None:
    assert parse_shell_hooks({"a": hook()}) == [
        ShellHook(
            name="a",
            event="post",
            command="true",
            tool=".*",
            files=(),
            timeout=10.0,
            depends=(),
            agents=("*",),
            modes=("*",),
            silent=False,
        )
    ]


@pytest.mark.covers("AURA-97")
def test_hooks_run_behind_those_that_they_depend_on() -> None:
    said = {"c": hook(depends=["b", "a"]), "b": hook(depends="a"), "a": hook(), "d": hook()}
    names = [one.name for one in parse_shell_hooks(said)]
    assert sorted(names) == ["a", "b", "c", "d"]
    assert names.index("a") < names.index("b") < names.index("c")


@pytest.mark.covers("AURA-97")
def test_what_is_not_said_is_inherited_and_what_is_said_replaces() -> None:
    said = {
        "base": {"event": "post", "files": ["*.py"], "timeout": 3},
        "quiet": {"silent": True, "timeout": 4},
        "lint": {"inherit": ["base", "quiet"], "command": "lint", "files": ["*.pyi"]},
    }
    assert parse_shell_hooks(said) == [
        ShellHook(name="lint", event="post", command="lint", files=("*.pyi",), timeout=4, silent=True)
    ]


@pytest.mark.covers("AURA-97")
def test_a_hook_for_other_agents_or_modes_does_not_run_and_neither_does_what_depends_on_it() -> None:
    said = {
        "a": hook(agents=["Dev*"]),
        "b": hook(depends=["a"]),
        "c": hook(modes=["plan", ""]),
        "d": hook(depends=["b"]),
        "e": hook(),
    }
    hooks = parse_shell_hooks(said)

    def names(agent: str, mode: str) -> list[str]:
        return sorted(one.name for one in in_force(hooks, agent, mode))

    assert names("", "") == ["c", "e"]
    assert names("developer", "PLAN") == ["a", "b", "c", "d", "e"]
    assert names("developer", "edit") == ["a", "b", "d", "e"]


@pytest.mark.covers("AURA-97")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"a": hook(depends=["b"]), "b": hook(depends=["a"])}, "shell_hooks: hooks depend on one another: "),
        ({"a": hook(inherit=["b"]), "b": hook(inherit=["a"])}, "shell_hooks: hooks inherit from one another: a -> b"),
        ({"lint": hook(), "b": hook(depends=["lnit"])}, "shell_hooks.b.depends: there is no hook 'lnit'. Did you mean"),
        ({"a": hook(inherit=["x"])}, "shell_hooks.a.inherit: there is no hook 'x'."),
        ({"a": hook(file=["*"])}, "shell_hooks.a.file: there is no such setting. Did you mean 'files'?"),
        ({"a": hook(event="before")}, 'shell_hooks.a.event: must be "pre" or "post", not \'before\''),
        ({"a": hook(command=" ")}, "shell_hooks.a.command: must be a shell command"),
        ({"a": hook(tool="(")}, "shell_hooks.a.tool: must be a regular expression for names of tools ("),
        ({"a": hook(tool=3)}, "shell_hooks.a.tool: must be a regular expression for names of tools ("),
        ({"a": hook(timeout=0)}, "shell_hooks.a.timeout: must be a number of seconds, 600 at most, not 0"),
        ({"a": hook(timeout=True)}, "shell_hooks.a.timeout: must be a number of seconds, 600 at most, not True"),
        ({"a": hook(files=[3])}, "shell_hooks.a.files: must be a list of texts, not [3]"),
        ({"a": hook(silent="no")}, "shell_hooks.a.silent: must be true or false"),
        ({"a": "true"}, "shell_hooks.a: must be an object with a command, not 'true'"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_may_have_been_meant(said: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{re.escape(why)}"):
        parse_shell_hooks(said)
