from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from aar.processes.output import Clip, fit


def clip_of(chunks: list[str], limit: int) -> Clip:
    clip = Clip(limit)
    for chunk in chunks:
        clip.add(chunk)
    return clip


chunks = st.lists(st.text(alphabet="abcdé\n", max_size=300), max_size=12)


@given(chunks, st.integers(0, 600))
def test_text_is_whole_or_a_head_a_count_and_a_tail_that_add_up(parts: list[str], limit: int) -> None:
    whole = "".join(parts)
    text = clip_of(parts, limit).text()
    if len(whole) <= limit:
        assert text == whole
        return
    assert len(text) <= limit
    found = re.search(r"\n\.\.\. \((\d+) characters left out\) \.\.\.\n", text)
    if found is None:  # no room for the mark
        assert whole.startswith(text)
        return
    head, tail = text[: found.start()], text[found.end() :]
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + int(found[1]) + len(tail) == len(whole)


@given(chunks, chunks, st.integers(0, 600))
def test_two_texts_share_one_limit_and_lose_nothing_that_fits(one: list[str], two: list[str], limit: int) -> None:
    first, second = fit(clip_of(one, limit), clip_of(two, limit), limit)
    assert len(first) + len(second) <= limit
    if len("".join(one + two)) <= limit:
        assert (first, second) == ("".join(one), "".join(two))


def test_a_short_text_is_whole_beside_a_long_one() -> None:
    assert fit(clip_of(["x" * 10_000], 1000), clip_of(["the error"], 1000), 1000)[1] == "the error"
