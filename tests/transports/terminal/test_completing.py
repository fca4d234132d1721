"""What Tab can add: kinds of directives, and the files that each kind takes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.transports.terminal import completing as module
from aar.transports.terminal.completing import Completion, common_beginning, complete, names_in

FILES = {
    "": ["src/", "shot.png", "notes.txt", "paper.PDF", ".env", "my file.txt", "odd[1].png", "bad\x1b.png"],
    "src/": ["app.py", "logo.webp", "deep/"],
}


def names(folder: str) -> Iterable[str]:
    return FILES.get(folder, [])


@pytest.mark.covers("AURA-47")
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("see @Image[", (11, ["paper.PDF]", "shot.png]", "src/"])),
        ("@Image[s", (7, ["shot.png]", "src/"])),
        ("@Image[src/", (7, ["src/deep/", "src/logo.webp]"])),
        ("@File[", (6, ["my file.txt]", "notes.txt]", "paper.PDF]", "shot.png]", "src/"])),
        ("@File[my f", (6, ["my file.txt]"])),
        ("@Path[src/a", (6, ["src/app.py]"])),
        ("@File[.", (6, [".env]"])),
        ("@Bash[", None),
        ("@Bash[cat n", None),
        ("@File[a] and @Im", (14, ["Image["])),
        ("@f", (1, ["File["])),
        ("@", (1, ["Image[", "File[", "Path[", "Bash[", "notes.txt", "paper.PDF", "shot.png", "src/"])),
        ("@src/", (1, ["src/app.py", "src/deep/", "src/logo.webp"])),
        ("@File[nosuch/", None),
        ("mail me@s", None),
        ("@File[notes.txt] s", None),
        ("", None),
    ],
)
def test_each_kind_goes_on_with_what_it_takes(before: str, expected: tuple[int, list[str]] | None) -> None:
    found = complete(before, names)
    assert found == (Completion(expected[0], tuple(expected[1])) if expected else None)


@given(st.text(alphabet="@ImageFilsrc/[] .n", max_size=30))
def test_a_choice_begins_with_what_was_typed(before: str) -> None:
    found = complete(before, names)
    if found is not None:
        typed = before[found.start :].lower()
        assert all(choice.lower().startswith(typed) for choice in found.choices)
        assert all(choice.startswith(common_beginning(found.choices)) for choice in found.choices)


def test_what_choices_have_in_common() -> None:
    assert [common_beginning(some) for some in (["ab", "abc"], ["abd", "abc", "ab1"], ["x", "y"], ["one"])] == [
        *("ab", "ab", "", "one")
    ]


def test_real_folders_are_listed_as_far_as_they_may_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").touch()
    (tmp_path / "src" / "a.py").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    secret = os.path.realpath(tmp_path / "secret")
    listed = names_in(str(tmp_path), lambda path: "no" if path == secret else None)
    assert sorted(listed("")) == ["secret/", "src/"]
    assert [list(listed(folder)) for folder in ("src/", "~/src/", "$HOME/src/")] == [["a.py"]] * 3
    assert [list(listed(folder)) for folder in ("secret/", "nosuch/", "src/a.py/")] == [[], [], []]
    monkeypatch.setattr(module, "MAX_NAMES", 1)
    assert len(list(listed(""))) == 1
