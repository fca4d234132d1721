"""Values are counted before they are read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages import json_values
from aar.messages.json_values import counts, id_at_the_ends, values

TEXTS = st.text(alphabet='ab"\\,{[\n\u20ac', max_size=12)
DATA = st.recursive(st.none() | TEXTS, lambda one: st.lists(one) | st.dictionaries(TEXTS, one))


def marks(found: object) -> int:
    """Opening brackets and commas of data without blanks."""
    if isinstance(found, dict | list):
        inner = found.values() if isinstance(found, dict) else found
        return 1 + max(0, len(found) - 1) + sum(map(marks, inner))
    return 0


@given(DATA, st.integers(1, 9))
def test_what_stands_in_texts_is_not_counted_wherever_the_pieces_are_cut(found: object, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "_PIECE", size)
        assert values(json.dumps(found, separators=(",", ":")).encode()) == marks(found)


def test_whoever_counts_may_leave_early() -> None:
    assert next(counts(b"[" * 10_000_000)) == 16 * 1024


def test_nothing_has_no_values() -> None:
    assert values(b"") == 0
    assert id_at_the_ends(b"", b"") is None
