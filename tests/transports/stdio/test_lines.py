"""Bytes cut into lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aar.transports.stdio.lines import LineBuffer


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_are_the_same_however_they_were_cut(lines, size):
    data = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    buffer, found = LineBuffer(), []
    for at in range(0, len(data), size):
        buffer.feed(data[at : at + size])
        found += buffer.lines()
    assert found == [line for line in (one.strip() for one in data.split(b"\n")) if line]


def test_a_line_without_end_is_not_kept(monkeypatch):
    monkeypatch.setattr("aar.transports.stdio.lines.LONGEST_LINE", 100)
    buffer = LineBuffer()
    for _ in range(50):
        buffer.feed(b"x" * 10)
        assert list(buffer.lines()) == []
    buffer.feed(b"x\nnext\n")
    assert list(buffer.lines()) == [None, b"next"]
