"""JSON that is not quite JSON, and how much there is of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.mcp.bounds import excess
from aar.mcp.repair import repaired, whole_characters
from aar.messages.json_values import values

PIECES = ["\\\\", "\\n", '\\"', "\\ud83d", "\\ude00", "\\uD83D\\uDE00", "\\udfff", "\\u00e9", "ud800", "a", ",", "é"]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_half_a_character_becomes_one_and_everything_else_stays(pieces: list[str]) -> None:
    text = '"' + "".join(pieces) + '"'
    wanted = "".join("\ufffd" if 0xD800 <= ord(one) <= 0xDFFF else one for one in json.loads(text))
    assert json.loads(whole_characters(text.encode())) == wanted


@pytest.mark.parametrize("odd", [b"\\ud8", b"\\ud8zz", b"\\ud8\\", b"\\\\\\ud"])
def test_what_is_no_escape_stays(odd: bytes) -> None:
    assert whole_characters(odd) == odd


def test_what_lies_too_deep_is_cut_and_half_characters_are_replaced() -> None:
    deep: list = []
    for _ in range(900):
        deep = [deep]
    found = json.loads(repaired({"a": deep, "b": "\ud800", "c": [1, None, {"d": 0.5}]}))
    assert found["b"] == "?"
    assert found["c"] == [1, None, {"d": 0.5}]
    assert json.dumps(found["a"]).count("[") == 99


def scalars_and_containers(found: object) -> int:
    if isinstance(found, dict):
        return max(1, sum(map(scalars_and_containers, found.values()))) + 1
    return max(1, sum(map(scalars_and_containers, found))) + 1 if isinstance(found, list) else 1


@given(
    st.recursive(st.none() | st.text(max_size=5), lambda one: st.lists(one) | st.dictionaries(st.text(max_size=3), one))
)
def test_values_are_counted_and_what_texts_hold_is_not(found: object) -> None:
    encoded = json.dumps([found, ',{["\\' * 5_000]).encode()
    assert 2 <= values(encoded) <= 2 * scalars_and_containers(found) + 2


def test_a_long_table_in_a_text_is_one_value() -> None:
    table = json.dumps({"text": '1,"2",{[\\\n' * 1_000_000}).encode()
    assert excess(table) == ""
    assert values(table) == 1


@pytest.mark.parametrize("one", [b"1,", b'"a",', b'"",', b"[],", b'{"a":1},'])
def test_a_hundred_thousand_values_are_too_many_of_whatever_kind(one: bytes) -> None:
    assert excess(b"[" + one * 100_001 + b"1]") == "with more than 100,000 values"
