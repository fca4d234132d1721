from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aar.messages.redaction import MASK, without_secrets

KEY = "ab-" + "0123456789" * 4


def test_secrets_are_cut_out_whole_or_cut_short_and_long_ones_first() -> None:
    assert without_secrets(f"a {KEY} b {KEY[:20]}… c {KEY[:8]} d", ["", KEY]) == f"a {MASK} b {MASK}… c ab-01234 d"
    assert without_secrets("key1key1 key1", ["key1", "key1key1"]) == f"{MASK} {MASK}"
    assert without_secrets(f"{KEY[:9]}{KEY[:12]}x", [KEY]) == f"{MASK}{MASK}x"


def test_text_without_secrets_is_left_alone() -> None:
    assert without_secrets("ab-0123 and more", [KEY, "other-secret"]) == "ab-0123 and more"


@given(st.text(alphabet="abc", min_size=10, max_size=30), st.text(alphabet="abc", max_size=60), st.integers(0, 60))
def test_no_more_than_the_start_of_a_secret_is_ever_left(secret: str, text: str, at: int) -> None:
    assert secret[:9] not in without_secrets(text[:at] + secret + text[at:], [secret])
