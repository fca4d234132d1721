from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aar.providers.thinking import (
    ThinkingRouter,
    extract_channel_tokens,
    extract_think_tags,
    extract_thinking,
    reasoning_of,
    reasoning_piece,
)


@pytest.mark.covers("THK-01")
@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        (" plain ", " plain ", []),
        ("<think> a </think> b", "b", ["a"]),
        ("x <think>a</think> y <think>b</think> z", "x  y  z", ["a", "b"]),
        ("<think>  </think>b", "b", []),
        ("", "", []),
    ],
)
def test_think_tags_are_cut_out_of_a_whole_text(text: str, said: str, thought: list[str]) -> None:
    assert extract_think_tags(text) == (said, thought)


@pytest.mark.covers("THK-02")
@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("<|channel>thought\na<channel|>b", "b", ["a"]),
        ("<|channel>thoughta<channel|>b", "b", ["a"]),
        ("<|channel>thought\n \n<channel|>b", "b", []),
        ("b<|channel>thought\na", "b", ["a"]),
    ],
)
def test_channel_tokens_are_cut_out_of_a_whole_text(text: str, said: str, thought: list[str]) -> None:
    assert extract_channel_tokens(text) == (said, thought)


@pytest.mark.covers("THK-03")
def test_an_unclosed_tag_makes_the_rest_a_thought() -> None:
    assert extract_think_tags("a <think>b <think>c") == ("a", ["b <think>c"])


def test_both_notations_give_channel_blocks_first() -> None:
    text = "<think>tag</think>a<|channel>thought\nchannel<channel|>b"
    assert extract_thinking(text) == ("ab", ["channel", "tag"])


def feed(*chunks: str) -> list[tuple[str, str]]:
    router = ThinkingRouter()
    return [router.feed(chunk) for chunk in chunks] + [router.flush()]


@pytest.mark.covers("THK-04")
def test_an_opener_cut_by_a_chunk_is_held_back() -> None:
    assert feed("a<thi", "nk>b", "c</think>d") == [("a", ""), ("", "b"), ("d", "c"), ("", "")]


@pytest.mark.covers("THK-05")
def test_a_closer_cut_by_a_chunk_still_closes() -> None:
    assert feed("<think>a</thi", "nk>x") == [("", "a"), ("x", ""), ("", "")]
    assert feed("<|channel>thought\na<chan", "nel|>x") == [("", "a"), ("x", ""), ("", "")]


@pytest.mark.covers("THK-06")
@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [
        (["a<thi"], [("a", ""), ("<thi", "")]),
        (["a<thi", "s"], [("a", ""), ("<this", ""), ("", "")]),
        (["<think>a</thi"], [("", "a"), ("", "</thi")]),
        (["<|channel>thought"], [("", ""), ("<|channel>thought", "")]),
        (["<|channel>thought", "ful"], [("", ""), ("<|channel>thoughtful", ""), ("", "")]),
    ],
)
def test_what_turns_out_to_be_no_marker_comes_back(chunks: list[str], pieces: list[tuple[str, str]]) -> None:
    assert feed(*chunks) == pieces


def test_a_router_is_as_new_after_a_flush() -> None:
    router = ThinkingRouter()
    assert [router.feed("<think>a"), router.flush(), router.feed("b"), router.flush()] == [
        ("", "a"),
        ("", ""),
        ("b", ""),
        ("", ""),
    ]


@pytest.mark.covers("THK-07")
def test_several_blocks_in_one_chunk_are_all_found() -> None:
    assert feed("a<think>b</think>c<|channel>thought\nd<channel|>e<think>f</think>g") == [("aceg", "bdf"), ("", "")]


PIECES = st.sampled_from(
    ["<think>", "</think>", "<|channel>thought\n", "<|channel>thought", "<channel|>", "<", "<thi", "nk>", "a", " b\n"]
)


@pytest.mark.covers("THK-08")
@given(st.lists(PIECES, max_size=12).map("".join), st.data())
@example("<think>a</think>b", None)
def test_any_chunking_gives_the_same_totals_as_one_chunk(text: str, data: Any) -> None:
    cuts = range(len(text) + 1) if data is None else sorted(data.draw(st.sets(st.integers(0, len(text)))))
    edges = [0, *cuts, len(text)]
    chunks = [text[start:end] for start, end in pairwise(edges)]
    assert _totals(feed(*chunks)) == _totals(feed(text))


def _totals(pieces: list[tuple[str, str]]) -> tuple[str, str]:
    return "".join(said for said, _ in pieces), "".join(thought for _, thought in pieces)


@pytest.mark.parametrize(
    ("message", "thought"),
    [
        ({}, ""),
        ({"reasoning_content": " a "}, "a"),
        ({"reasoning": "b", "reasoning_content": None}, "b"),
        ({"reasoning_details": [{"summary": "c"}, {"text": "d"}, {"other": 1}, "odd"]}, "c\nd"),
        ({"reasoning_content": "a", "reasoning_details": [{"text": "d"}]}, "a"),
        ({"reasoning_content": 5, "reasoning_details": "odd"}, ""),
        (SimpleNamespace(reasoning_content="a", reasoning_details=[SimpleNamespace(summary=None, text="d")]), "d"),
        (SimpleNamespace(reasoning_content=" a "), "a"),
    ],
)
def test_reasoning_fields_are_read_in_order(message: Any, thought: str) -> None:
    assert reasoning_of(message) == thought


def test_a_piece_of_reasoning_keeps_its_spaces() -> None:
    assert [
        reasoning_piece({"reasoning_content": " a "}),
        reasoning_piece({"reasoning": " b"}),
        reasoning_piece({"reasoning_details": [{"text": " c"}, {"text": "d "}]}),
        reasoning_piece({"content": "x"}),
    ] == [" a ", " b", " cd ", ""]
