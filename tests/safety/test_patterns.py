from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.safety.paths import matches, normalise
from aar.safety.patterns import PatternSet, base_folder, escape, expand


@pytest.mark.covers("SAFE-11")
@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/p/*", "/p/x", True),
        ("/p/*", "/p/x/y", True),
        ("/p/**", "/p/x/y", True),
        ("/p/**", "/p", False),
        ("/p/**", "/pq/x", False),
        ("**/.env", "/a/b/.env", True),
        ("**/.env", "/.env", True),
        ("**/.env", ".env", False),
        ("**/.env", "/a/.env.local", False),
        ("**/.env.*", "/a/.env.local", True),
        ("**/.ENV", "/a/.env", False),
        ("**/*.pem", "/a/key.pem", True),
        ("/p/?", "/p/x", True),
        ("/p/?", "/p/xy", False),
        ("/p/[ab]", "/p/a", True),
        ("/p/[!ab]", "/p/a", False),
        ("/p/[!ab]", "/p/c", True),
        ("/p", "/p/x", False),
        ("/p/x", "/p/x\n", False),
    ],
)
def test_patterns_match_whole_paths_and_stars_cross_slashes(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.covers("SAFE-12")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/etc/../etc/./passwd", "/etc/passwd"),
        ("/a\\b/../c", "/a/c"),
        ("C:\\Proj\\..\\x", "c:/x"),
        ("D:/a/./b", "d:/a/b"),
        ("\\\\srv\\s\\f", "//srv/s/f"),
        ("//srv/s/../f", "//srv/s/../f"),
    ],
)
def test_the_four_kinds_of_paths_have_one_form(path: str, expected: str, tmp_path: Path) -> None:
    assert normalise(path, str(tmp_path)) == expected


@pytest.mark.covers("SAFE-12")
def test_relative_paths_follow_links_and_absolute_ones_do_not(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert normalise("link/a/../b.txt", str(tmp_path)) == f"{tmp_path}/real/b.txt"
    assert normalise(f"{tmp_path}/link/b.txt", "/") == f"{tmp_path}/link/b.txt"
    assert normalise("", str(tmp_path)) == str(tmp_path)


def test_the_session_folder_is_no_pattern_whatever_its_name() -> None:
    assert expand("<cwd>/**", "/w/app/[id]", "/real/a*b") == ["/w/app/[[]id]/**", "/real/a[*]b/**"]
    patterns = PatternSet(expand("<cwd>/**", "/w/app/[id]", "/w/app/[id]"))
    assert patterns.match_or_base("/w/app/[id]")
    assert patterns.match("/w/app/[id]/page.tsx")
    assert not patterns.match("/w/app/i/page.tsx")


def test_patterns_of_the_settings_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("HOME", "/home/u")
    cwd = "/w"
    assert expand("src/**", cwd, cwd) == ["/w/src/**", "/w/src/**"]
    assert expand("~/notes/**", cwd, cwd) == ["/home/u/notes/**", "/home/u/notes/**"]
    assert expand("**/.env", cwd, cwd) == ["**/.env"]
    assert expand("C:/x/**", cwd, cwd) == ["C:/x/**"]
    assert expand(f"{tmp_path}/link/*.txt", cwd, cwd) == [f"{tmp_path}/link/*.txt", f"{tmp_path}/real/*.txt"]
    assert expand("<cwd>/**", "/", "/") == ["/**", "/**"]


def test_links_below_the_session_folder_widen_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "build").symlink_to("/")
    cwd = str(tmp_path)
    assert expand("<cwd>/build/**", cwd, cwd) == [f"{cwd}/build/**"] * 2
    assert expand(f"{cwd}/build/**", cwd, cwd) == [f"{cwd}/build/**"] * 2


@pytest.mark.parametrize(("pattern", "base"), [("/p/**", "/p"), ("/**", "/"), ("/p/*", None), ("/p", None)])
def test_the_base_of_a_pattern(pattern: str, base: str | None) -> None:
    assert base_folder(pattern) == base


def test_the_base_folder_counts_as_it_is_spelled() -> None:
    patterns = PatternSet(["/Proj/**"])
    assert [patterns.match_or_base(path) for path in ("/proj", "/Proj", "/proj/x", "/Proj/x")] == [
        False,
        True,
        False,
        True,
    ]


def test_folded_patterns_ignore_case_and_tell_which_one_fits() -> None:
    patterns = PatternSet(["**/.env", "**/*.pem"], fold=True)
    assert [patterns.first(path) for path in ("/a/.ENV", "/a/Key.PEM", "/a/b")] == ["**/.env", "**/*.pem", None]


@given(st.text("ab/[]*?!-.", max_size=12), st.text("ab/[]*?!-.", max_size=12))
def test_an_escaped_path_fits_itself_only(one: str, other: str) -> None:
    assert matches(escape(one), one)
    assert matches(escape(one), other) == (one == other)


@given(st.text("ab/*?", max_size=8), st.text("ab/", max_size=12))
def test_stars_and_question_marks_mean_what_they_say(pattern: str, path: str) -> None:
    expected = re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), path) is not None
    assert matches(pattern, path) is expected


def test_no_pattern_takes_long() -> None:
    before = time.process_time()
    assert not matches("*a" * 50 + "b", "a" * 4000)
    assert time.process_time() - before < 1
