"""Finding files and picking one of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
from urwid.testing import render_text

from aar.transports.fullscreen.picker import FilePicker, FoundFiles, Picking, find_files, word_for
from aar.transports.fullscreen.stage import Stage

SIZE = (40, 8)


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


@pytest.mark.covers("FTUI-12")
def test_files_are_relative_and_sorted_and_generated_folders_are_left_out(tmp_path) -> None:
    make(tmp_path, "b.py", "a/z.txt", "a/b/c.md", ".env", ".git/config", "node_modules/x.js", "venv/y", "dist/w")
    make(tmp_path, "a/__pycache__/q.pyc", ".mypy_cache/m", ".tox/t", ".ruff_cache/r", ".venv/v")
    assert find_files(str(tmp_path)) == FoundFiles((".env", "a/b/c.md", "a/z.txt", "b.py"))


@pytest.mark.covers("FTUI-12")
def test_no_more_than_five_hundred_are_collected_the_nearest_first(tmp_path) -> None:
    make(tmp_path, *(f"deep/{number:03}.txt" for number in range(400)), *(f"{number:03}.txt" for number in range(200)))
    found = find_files(str(tmp_path))
    assert (len(found.names), found.is_cut) == (500, True)
    assert [name for name in found.names if "/" not in name] == [f"{number:03}.txt" for number in range(200)]


def test_looking_ends_after_so_many_entries(tmp_path) -> None:
    make(tmp_path, *(f"{number}/x.txt" for number in range(20)))
    assert find_files(str(tmp_path), entries=10) == FoundFiles((), is_cut=True)


def test_links_to_folders_names_that_cannot_be_typed_and_closed_folders_are_passed_over(tmp_path) -> None:
    make(tmp_path, "in/a.txt", "in/bad\nname.txt", "in/\x1b[2J.txt", "in/\u202egpj.exe", "out/secret.txt")
    (tmp_path / "in/loop").symlink_to("..")
    (tmp_path / "in/link.txt").symlink_to("../out/secret.txt")
    os.mkfifo(tmp_path / "in/pipe")
    assert find_files(str(tmp_path / "in")).names == ("a.txt", "link.txt")
    assert find_files(str(tmp_path / "gone")) == FoundFiles()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def picker(said) -> FilePicker:
    picker = FilePicker(lambda name: said.append(f"picked {name}"), lambda typed: said.append(f"left {typed}"))
    picker.show(FoundFiles(("README.md", "src/main.py", "src/Readme.txt")))
    return picker


def press(picker: FilePicker, *keys: str) -> list[str]:
    for key in keys:
        picker.keypress(SIZE, key)
    return render_text(picker, SIZE, focus=True, strip=True)


@pytest.mark.covers("FTUI-12")
def test_the_filter_is_any_part_of_the_name_in_any_case(picker) -> None:
    assert press(picker, *"EADm")[:4] == ["File: EADm", "README.md", "src/Readme.txt", ""]
    assert press(picker, "backspace", "backspace", "backspace", "backspace", *"main")[1:3] == ["src/main.py", ""]
    assert press(picker, "?")[-1].startswith("0 files ")


@pytest.mark.covers("FTUI-12")
def test_down_moves_into_the_list_and_enter_picks(picker, said) -> None:
    press(picker, "down", "down", "enter")
    assert said == ["picked @src/main.py"]


def test_enter_in_the_filter_picks_the_first(picker, said) -> None:
    press(picker, *"src", "enter")
    press(picker, "?", "enter")
    assert said == ["picked @src/main.py"]


def test_up_leads_back_to_the_filter_and_so_does_typing(picker, said) -> None:
    press(picker, "down", "up", *"rea", "down", "down", "d")
    assert press(picker)[0] == "File: read"
    press(picker, "down", "backspace", "enter")
    assert said == ["picked @README.md"]


@pytest.mark.covers("FTUI-12")
def test_escape_cancels(picker, said) -> None:
    press(picker, "h", "esc")
    assert said == ["left h"]


def test_a_click_picks_what_is_under_it(picker, said) -> None:
    render_text(picker, SIZE, focus=True)
    picker.mouse_event(SIZE, "mouse press", 1, 3, 2, True)
    picker.mouse_event(SIZE, "mouse press", 1, 3, 6, True)  # below the last one
    picker.mouse_event(SIZE, "mouse press", 1, 3, 0, True)
    assert said == ["picked @src/main.py"]


@pytest.mark.covers("FTUI-12")
def test_eighty_are_shown_and_the_others_are_counted(picker) -> None:
    picker.show(FoundFiles(tuple(f"{number:03}.txt" for number in range(500)), is_cut=True))
    assert (len(picker.shown), picker.shown[-1]) == (80, "079.txt")
    text = render_text(picker, (100, 8), strip=True)[-1]
    assert text.startswith("500 files, the first 80 are shown (of the first 500 files)")


@pytest.mark.covers("AURA-47")
def test_what_begins_a_directive_lists_what_it_is_for(picker, said) -> None:
    picker.show(FoundFiles(("a.txt", "b.png", "c d.JPG", "e.pdf")))
    press(picker, *"Image[")
    assert picker.shown == ["b.png", "c d.JPG", "e.pdf"]
    press(picker, "D", "enter")
    press(picker, *["backspace"] * 7, *"File[", "a", "enter")
    assert said == ["picked @Image[c d.JPG]", "picked @File[a.txt]"]


def test_a_command_and_a_word_that_is_no_file_leave_the_list(picker, said) -> None:
    press(picker, *"Bash[")
    press(picker, *["backspace"] * 5, *"src ", *["backspace"] * 4, *"nobody ")
    assert said == ["left Bash[", "left src ", "left nobody "]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("src/main.py", "@src/main.py"),
        ("Makefile", "@File[Makefile]"),
        ("my notes.txt", "@File[my notes.txt]"),
        ("my shot.PNG", "@Image[my shot.PNG]"),
        ("a@b.txt", "@File[a@b.txt]"),
        ("~root.txt", "@./~root.txt"),
        ("a[1].txt", "@File[a[1].txt]"),
        ("Bash[curl].txt", "@File[Bash[curl].txt]"),
        ("Bash[x", ""),
        ("x] @Bash[id].txt", ""),
        ("$HOME notes", ""),
    ],
)
def test_a_file_is_named_so_that_nothing_else_is_meant(name, word) -> None:
    assert word_for(name) == word


class Handle:
    """All that is asked of a session here."""

    def __init__(self, cwd: Path) -> None:
        self.metadata = {"cwd": str(cwd)}


async def look_is_over(scene) -> None:
    while not opened(scene).shown:  # its thread is at it
        await trio.lowlevel.checkpoint()


def opened(scene) -> FilePicker:
    assert isinstance(scene.modal, FilePicker)
    return scene.modal


@pytest.mark.covers("FTUI-12")
async def test_what_is_picked_is_put_into_the_input(scene, tmp_path) -> None:
    make(tmp_path, "a.txt", "b.txt", "] @Bash[id].txt")
    scene.handle = Handle(tmp_path)
    stage: Stage = scene
    Picking(stage).actions["files"]()
    assert press(opened(scene))[-1] == "Looking for files ..."
    await look_is_over(scene)
    assert opened(scene).shown == ["a.txt", "b.txt"]
    press(opened(scene), "b", "enter")
    assert (scene.inserted, scene.modal) == (["@b.txt "], None)


async def test_what_was_typed_until_escape_is_not_lost(scene, tmp_path) -> None:
    scene.handle = Handle(tmp_path)
    Picking(scene).open()
    press(opened(scene), *"example.com", "esc")
    assert (scene.inserted, scene.modal) == (["@example.com"], None)
