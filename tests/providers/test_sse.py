from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import BadProviderReply
from aar.providers.sse import LineSplitter, SseParser, json_lines, sse_events


def events_of(*chunks: bytes) -> list[list[str]]:
    parser = SseParser()
    return [parser.feed(chunk) for chunk in chunks] + [parser.finish()]


def test_each_read_gives_the_events_that_it_completes() -> None:
    assert events_of(b"data: a\n\ndata: b", b"c\n", b"\ndata: d\n\n") == [["a"], [], ["bc", "d"], []]


def test_comments_names_and_ids_are_signs_of_life_without_content() -> None:
    assert events_of(b":\n\n", b": ping\n\n", b"event: x\nid: 1\nretry: 5\n\n", b"data:\n\n") == [[], [], [], [""], []]


def test_several_data_lines_are_one_event() -> None:
    assert events_of(b"data: a\ndata: b\ndata:c\n\n") == [["a\nb\nc"], []]


def test_carriage_returns_are_part_of_the_line_end() -> None:
    assert events_of(b"data: a\r", b"\n\r\ndata: b\r\n\r\n") == [[], ["a", "b"], []]


def test_the_end_of_the_stream_completes_an_event() -> None:
    assert events_of(b"data: a") == [[], ["a"]]
    assert events_of(b"data: a\n") == [[], ["a"]]


def test_a_character_cut_in_two_is_put_together_and_a_wrong_one_replaced() -> None:
    assert events_of(b"data: \xc3", b"\xa9\n\n", b"data: \xff\n\n") == [[], ["é"], ["\ufffd"], []]


def test_an_error_line_counts_as_an_event_with_an_error() -> None:
    assert events_of(b'error: {"code":500}\n\n') == [['{"error":{"code":500}}'], []]


TEXTS = st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=5)


@given(TEXTS, st.sampled_from([b"\n", b"\r\n"]), st.data())
def test_any_chunking_gives_the_same_events(texts: list[str], end: bytes, data: st.DataObject) -> None:
    stream = b"".join(b"data: " + text.encode() + end + end for text in texts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    chunks = [stream[start:stop] for start, stop in pairwise([0, *cuts, len(stream)])]
    assert [event for events in events_of(*chunks) for event in events] == texts


def test_a_line_or_event_without_end_is_refused() -> None:
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"0123456789") == []
    with pytest.raises(BadProviderReply, match="a line of more than 10 bytes"):
        splitter.feed(b"x")
    parser = SseParser(limit=10)
    with pytest.raises(BadProviderReply, match="an event of more than 10 bytes"):
        parser.feed(b"data: 012345\ndata: 012345\n")


async def chunks_of(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_events_and_lines_are_read_from_any_source_of_bytes() -> None:
    async with aclosing(sse_events(chunks_of(b"data: a\n\n:\n", b"data: b"))) as events:
        assert [event async for event in events] == [["a"], [], ["b"]]
    async with aclosing(json_lines(chunks_of(b'{"a":1}\r\n\n{"b"', b":2}\n", b"[]"))) as lines:
        assert [line async for line in lines] == [['{"a":1}'], ['{"b":2}'], [], ["[]"]]
