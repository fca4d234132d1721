"""What docs/injectors.md says in its tables is compared with the program."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import aar.injectors
from aar.config.shell_hooks import ShellHook
from aar.injectors import AnyInjection, Injection, Timing
from aar.injectors.choosing import SHIPPED
from aar.messages.kinds import MATRIX

PAGE = (Path(__file__).parent.parent / "docs" / "injectors.md").read_text(encoding="utf-8")


def table(head: str) -> list[list[str]]:
    """The cells of the rows below this head."""
    lines = PAGE[PAGE.index(head) :].splitlines()[2:]
    end = next(at for at, line in enumerate(lines) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_injectors_that_come_with_aar_are_there_with_their_settings() -> None:
    told = {words(row[0])[0]: row[2] for row in table("| injector | does | settings |")}
    real = {
        name: ", ".join(f"`{field.name}` {field.default}" for field in fields(kind)) for name, kind in SHIPPED.items()
    }
    assert told == real


def test_the_keys_of_a_shell_hook_are_there() -> None:
    told = [name for row in table("| key | |") for name in words(row[0])]
    assert sorted(told) == sorted([*(field.name for field in fields(ShellHook) if field.name != "name"), "inherit"])


def test_the_timings_and_what_fits_them_are_there() -> None:
    rows = {words(row[1])[0]: row for row in table("| timing | method | gets | may give |")}
    assert list(rows) == [timing.value for timing in Timing]
    for row in rows.values():
        assert all(hasattr(aar.injectors, name) for name in words(row[3]))


def test_the_fields_of_injections_are_there() -> None:
    assert sorted(words(row[0])[0] for row in table("| field | |")) == sorted(
        field.name for field in fields(AnyInjection)
    )
    kinds = {kind.__name__: kind for kind in AnyInjection.__subclasses__() if kind is not Injection}
    told = {words(row[0])[0]: words(row[1])[0] for row in table("| injection | field | |")}
    assert told == {name: own_field(kind) for name, kind in kinds.items()}


def own_field(kind: Any) -> str:
    [name] = {field.name for field in fields(kind)} - {field.name for field in fields(AnyInjection)}
    return name


@pytest.mark.covers("AURA-17")
def test_the_table_of_kinds_is_the_one_that_holds() -> None:
    def word(is_so: bool) -> str:
        return "yes" if is_so else "no"

    told = [[words(row[0])[0], *row[1:]] for row in table("| kind | the model | stored |")]
    assert told == [
        [kind.value, rule.to_model, word(rule.is_stored), rule.shown, word(rule.in_text), word(rule.in_data)]
        for kind, rule in MATRIX.items()
    ]
