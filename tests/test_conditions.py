"""Conditions: what each atom asks, and how they are put together."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.conditions import ATOMS, Facts, parse_condition
from aar.errors import InvalidSetting

ATOM_CASES = [
    ("auto", Facts(auto=True), Facts()),
    ("todo_empty", Facts(), Facts(todos_done=1)),
    ("todo_pending", Facts(todos_open=1), Facts(todos_done=1)),
    ("todo_done", Facts(todos_done=2), Facts(todos_done=2, todos_open=1)),
    ("context_above:80", Facts(context_percent=80.5), Facts(context_percent=80)),
    ("context_below:20%", Facts(context_percent=19), Facts(context_percent=20)),
    ("history_gt:2", Facts(history=3), Facts(history=2)),
    ("history_lt:2", Facts(history=1), Facts(history=2)),
    ("tool_errors_gt:0", Facts(tool_errors=1), Facts()),
    ("tool_errors_lt:1", Facts(), Facts(tool_errors=1)),
    ("tool_calls_gt:10", Facts(tool_calls=11), Facts(tool_calls=10)),
    ("tool_calls_lt:10", Facts(tool_calls=9), Facts(tool_calls=10)),
    ("turns_gt:1", Facts(turns=2), Facts(turns=1)),
    ("turns_lt:1", Facts(), Facts(turns=1)),
    ("compactions_gt:0", Facts(compactions=1), Facts()),
    ("compactions_lt:1", Facts(), Facts(compactions=1)),
    ("iteration_gt:3", Facts(iteration=4), Facts(iteration=3)),
    ("iteration_lt:3", Facts(iteration=2), Facts(iteration=3)),
    ("tokens_total_gt:20k", Facts(tokens_total=20_001), Facts(tokens_total=20_000)),
    ("tokens_total_lt:1_000", Facts(tokens_total=999), Facts(tokens_total=1_000)),
    ("model_context_gt:100k", Facts(model_context=128_000), Facts(model_context=32_000)),
    ("model_context_lt:0.1M", Facts(model_context=32_000), Facts(model_context=128_000)),
    ("model_is:claude-*", Facts(model="anthropic/claude-x"), Facts(model="openai/gpt-x")),
    ("model_has:vision", Facts(model_abilities=frozenset({"vision"})), Facts(model_abilities=frozenset({"tools"}))),
]


async def nothing(_: str) -> bool:
    raise AssertionError("nothing outside is asked")


def test_every_atom_that_looks_inside_has_a_case() -> None:
    assert {text.partition(":")[0] for text, _, _ in ATOM_CASES} == set(ATOMS) - {"exists", "bash"}


@pytest.mark.covers("AURA-116")
@pytest.mark.parametrize(("text", "true", "false"), ATOM_CASES, ids=[case[0] for case in ATOM_CASES])
async def test_an_atom_is_true_of_what_it_names(text: str, true: Facts, false: Facts) -> None:
    condition, opposite = parse_condition(text), parse_condition(f"not {text}")
    assert await condition.holds(true, exists=nothing, bash=nothing)
    assert not await condition.holds(false, exists=nothing, bash=nothing)
    assert [await opposite.holds(facts) for facts in (true, false)] == [False, True]


@pytest.mark.covers("AURA-116")
async def test_files_and_commands_are_asked_of_whoever_evaluates() -> None:
    asked: list[str] = []

    async def look(text: str) -> bool:
        asked.append(text)
        return text != "no.txt"

    condition = parse_condition("exists:a.txt and bash:test -d x && true and not exists:no.txt")
    assert condition.looks_outside == {"exists", "bash"}
    assert await condition.holds(Facts(), exists=look, bash=look)
    assert asked == ["a.txt", "test -d x && true", "no.txt"]


async def test_nothing_is_asked_behind_a_part_that_is_false() -> None:
    assert not await parse_condition("auto and bash:rm x").holds(Facts(), bash=nothing)


async def test_a_quoted_argument_may_hold_the_word_and() -> None:
    asked: list[str] = []

    async def look(text: str) -> bool:
        asked.append(text)
        return True

    assert await parse_condition("""bash:"echo 'this' and that" and exists:'a and b'""").holds(
        Facts(), exists=look, bash=look
    )
    assert asked == ["echo 'this' and that", "a and b"]


async def test_a_quote_within_a_command_is_one_of_its_characters() -> None:
    async def look(text: str) -> bool:
        return text == """grep "it's" x"""

    assert await parse_condition("""bash:grep "it's" x""").holds(Facts(), bash=look)


async def test_what_cannot_be_asked_here_is_said() -> None:
    with pytest.raises(InvalidSetting, match="`bash:` cannot be asked here"):
        await parse_condition("bash:true").holds(Facts())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("contxt_above:80", "do you mean `context_above`"),
        ("auto and", r"'\(nothing\)' is no condition"),
        ("not", r"'\(nothing\)' is no condition"),
        ("auto:1", "takes nothing behind it"),
        ("turns_gt", "wants something behind a colon, as in `turns_gt:10`"),
        ("turns_gt:many", "wants a number"),
        ("turns_gt:50%", "wants a number"),
        ("context_above:-1", "wants a number"),
        ("bash:'true", "a quote is not closed"),
        ("auto or auto", "is no condition"),
        ("exists:a or exists:b", "there is no `or`"),
        ("auto and " * 500 + "auto", "at most 2000 characters"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(text: str, words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        parse_condition(text)


PARTS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(ATOM_CASES), st.booleans()).map(
        lambda drawn: ("not " * drawn[0] + drawn[1][0], drawn[0] % 2 == 0)
    ),
    min_size=1,
    max_size=8,
)
FACTS = st.builds(
    Facts,
    auto=st.booleans(),
    todos_open=st.integers(0, 2),
    todos_done=st.integers(0, 2),
    context_percent=st.floats(0, 100),
    turns=st.integers(0, 3),
    tool_errors=st.integers(0, 2),
    model_abilities=st.sampled_from([frozenset[str](), frozenset({"vision"})]),
)


@pytest.mark.covers("AURA-116")
@given(parts=PARTS, facts=FACTS)
def test_a_condition_is_true_when_each_of_its_parts_is(parts: list[tuple[str, bool]], facts: Facts) -> None:
    async def check() -> None:
        whole = await parse_condition("  and ".join(text for text, _ in parts)).holds(facts)
        each = [await parse_condition(text).holds(facts) for text, _ in parts]
        plain = [await parse_condition(text.replace("not ", "")).holds(facts) is even for text, even in parts]
        assert each == plain
        assert whole is all(each)

    trio.run(check)


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_is_refused_with_a_word(text: str) -> None:
    with suppress(InvalidSetting):
        assert parse_condition(text).text
