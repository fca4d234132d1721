"""`History` keeps what an adapter made of each message."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aar.messages.provider import History, NeutralMessage


def message(text: str) -> NeutralMessage:
    return {"role": "user", "content": text}


class Encoder:
    """Counts how often each message is encoded."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, item: NeutralMessage) -> bytes:
        self.seen.append(item["content"])
        return json.dumps(item["content"]).encode() if item["content"] else b""


def test_settled_messages_are_encoded_once_however_many_requests_follow() -> None:
    settled = [message("a"), message("b")]
    cache: dict[str, list[bytes | None]] = {}
    encode = Encoder()
    assert History(settled, [message("tail")], cache=cache).encoded("x", encode) == [b'"a"', b'"b"', b'"tail"']
    settled.append(message("c"))
    assert History(settled, [message("tail 2")], cache=cache).encoded("x", encode) == [
        b'"a"',
        b'"b"',
        b'"c"',
        b'"tail 2"',
    ]
    assert encode.seen == ["a", "b", "tail", "c", "tail 2"]


def test_each_codec_keeps_its_own_bytes() -> None:
    history = History([message("a")])
    assert history.encoded("one", lambda item: b"1") == [b"1"]
    assert history.encoded("two", lambda item: b"2") == [b"2"]
    assert history.encoded("one", lambda item: b"3") == [b"1"]


def test_a_trimmed_history_skips_the_start_and_does_not_encode_it() -> None:
    settled = [message("a"), message("b"), message("c")]
    cache: dict[str, list[bytes | None]] = {}
    encode = Encoder()
    assert History(settled, start=2, cache=cache).encoded("x", encode) == [b'"c"']
    assert encode.seen == ["c"]
    assert History(settled, start=1, cache=cache, lead=[message("lead")]).encoded("x", encode) == [
        b'"lead"',
        b'"b"',
        b'"c"',
    ]
    assert encode.seen == ["c", "b", "lead"]


def test_a_message_for_one_request_only_comes_after_all_others_and_leaves_them_as_they_are() -> None:
    history, encode = History([message("a")], [message("tail")], lead=[message("lead")]), Encoder()
    before = history.encoded("x", encode)
    asked = history.replacing({0: message("b")}).followed_by(message("sum it up"))
    assert asked.encoded("x", encode) == [b'"lead"', b'"b"', b'"tail"', b'"sum it up"']
    assert [item["content"] for item in asked] == ["lead", "b", "tail", "sum it up"]
    assert history.followed_by(message("sum it up")).encoded("x", encode) == [*before, b'"sum it up"']
    assert encode.seen.count("a") == 1
    assert history.encoded("x", encode) == before


def test_a_history_is_read_from_its_end_as_from_its_start() -> None:
    settled = [message(text) for text in "abcd"]
    history = History(settled, [message("tail")], lead=[message("lead")], start=1).replacing({2: message("x")})
    assert [item["content"] for item in history] == ["lead", "b", "x", "d", "tail"]
    assert list(reversed(history)) == list(history)[::-1]


def test_messages_without_a_wire_form_are_left_out() -> None:
    history = History([message(""), message("a")], [message("")], lead=[message("")])
    assert history.encoded("x", Encoder()) == [b'"a"']
    assert history.encoded("x", Encoder()) == [b'"a"']
    assert len(history) == 4


def test_a_history_keeps_its_length_when_the_conversation_grows() -> None:
    settled = [message("a")]
    history = History(settled, [message("tail")])
    settled.append(message("b"))
    assert [item["content"] for item in history] == ["a", "tail"]
    assert history.encoded("x", Encoder()) == [b'"a"', b'"tail"']
    assert len(history) == 2


TEXTS = st.lists(st.text(max_size=3), max_size=5)


@given(TEXTS, TEXTS, TEXTS, st.integers(0, 7))
def test_a_history_is_the_sequence_of_its_parts(
    lead: list[str], settled: list[str], tail: list[str], start: int
) -> None:
    history = History(
        [message(text) for text in settled],
        [message(text) for text in tail],
        lead=[message(text) for text in lead],
        start=start,
    )
    expected = [message(text) for text in [*lead, *settled[start:], *tail]]
    assert list(history) == expected
    assert len(history) == len(expected)
    assert history[:] == expected
    assert [history[index] for index in range(len(history))] == expected
    plain = [piece for piece in map(Encoder(), expected) if piece]
    assert history.encoded("x", Encoder()) == plain
    assert history.encoded("x", Encoder()) == plain


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 5)), max_size=12))
def test_a_growing_history_encodes_as_a_fresh_one_would(steps: list[tuple[str, int]]) -> None:
    settled: list[NeutralMessage] = []
    cache: dict[str, list[bytes | None]] = {}
    for text, start in steps:
        settled.append(message(text))
        grown = History(settled, start=start, cache=cache).encoded("x", Encoder())
        assert grown == History(list(settled), start=start).encoded("x", Encoder())
