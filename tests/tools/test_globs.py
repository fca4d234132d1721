from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.tools.globs import Glob

NAMES = st.text("ab.", min_size=1, max_size=4)
SEGMENTS = st.one_of(st.just("**"), st.text("ab.*?", min_size=1, max_size=4).filter(lambda one: "**" not in one))


@pytest.mark.parametrize(
    ("pattern", "fits", "misses"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.txt"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/x/y/test_b.py"], ["test_a.py", "src/a.py"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "a/src/b"]),
        ("**", ["a", "a/b"], []),
        ("**/**/x", ["x", "a/x", "a/b/c/x"], ["x/y"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c"], ["a/c", "a/b/x"]),
        ("./a?.[ch]", ["ab.c", "ab.h"], ["ab.d", "a.c"]),
        ("[!a]*", ["b"], ["a", "ab"]),
        ("a[", ["a["], ["a"]),
        ("/etc/*", [], ["etc/passwd", "/etc/passwd"]),
        ("", [], ["a"]),
    ],
)
def test_stars_stay_in_one_name_and_double_stars_cross_folders(
    pattern: str, fits: list[str], misses: list[str]
) -> None:
    glob = Glob(pattern)
    assert [one for one in fits + misses if glob.matches(one)] == fits


def naive(pattern: list[str], names: list[str]) -> bool:
    """The same by definition, in any time it takes."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(names)
        return any(naive(pattern[1:], names[at:]) for at in range(len(names) + 1))
    segment = re.escape(pattern[0]).replace(r"\*", ".*").replace(r"\?", ".")
    return bool(names) and re.fullmatch(segment, names[0]) is not None and naive(pattern[1:], names[1:])


@given(st.lists(SEGMENTS, min_size=1, max_size=5), st.lists(NAMES, min_size=1, max_size=5))
def test_matching_agrees_with_the_definition(pattern: list[str], names: list[str]) -> None:
    segments = [one for one in pattern if one != "."]
    assert Glob("/".join(pattern)).matches("/".join(names)) == naive(segments, names) or not segments


@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "**/" * 40 + "b", "**/a/" * 40 + "b", "?*" * 60 + "b"])
def test_no_pattern_takes_long(pattern: str) -> None:
    glob = Glob(pattern)
    before = time.process_time()
    assert not glob.matches("/".join(["a" * 200] * 20))
    assert not glob.matches("/".join(["a"] * 1000))
    assert time.process_time() - before < 1
