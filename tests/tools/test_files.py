from __future__ import annotations

import os
import socket
import stat
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import ToolError
from aar.messages.settings import SafetyConfig, ToolConfig
from aar.safety.paths import PathGuard
from aar.tools import ToolContext, files

CallTool = Callable[..., Awaitable[str]]


def numbered(first: int, *lines: str) -> str:
    return "".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, first))


# --- read_file ----------------------------------------------------------------------------------


@pytest.mark.covers("TOOL-13")
async def test_lines_are_numbered_and_keep_their_endings(work: Path, call: CallTool) -> None:
    (work / "a.txt").write_bytes(b"one\r\ntwo\n\nfour")
    assert await call("read_file", path="a.txt") == "     1\tone\r\n     2\ttwo\n     3\t\n     4\tfour"


@pytest.mark.covers("TOOL-14")
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"start_line": 2, "end_line": 3}, "[lines 2–3 of 4]\n     2\tb\n     3\tc\n"),
        ({"start_line": 3}, "[lines 3–4 of 4]\n     3\tc\n     4\td"),
        ({"end_line": 1}, "[lines 1–1 of 4]\n     1\ta\n"),
        ({"start_line": 4, "end_line": 99}, "[lines 4–4 of 4]\n     4\td"),
        (
            {"start_line": 3, "end_line": 2},
            "end_line 2 is before start_line 3: no lines to show (4 lines in the file).",
        ),
        ({"start_line": -3, "end_line": 1}, "[lines 1–1 of 4]\n     1\ta\n"),
    ],
)
async def test_a_range_has_a_header(work: Path, call: CallTool, bounds: dict[str, int], expected: str) -> None:
    (work / "a.txt").write_text("a\nb\nc\nd")
    assert await call("read_file", path="a.txt", **bounds) == expected


@pytest.mark.covers("TOOL-15")
async def test_more_than_500_lines_give_a_preview(work: Path, call: CallTool) -> None:
    lines = [f"line {number}\n" for number in range(1, 502)]
    (work / "long.txt").write_text("".join(lines))
    assert await call("read_file", path="long.txt") == (
        f"File {work / 'long.txt'} has 501 lines — too large to return in full.\n"
        "Use start_line / end_line to read a specific section.\n"
        "First 50 lines preview:\n"
        "\n" + numbered(1, *lines[:50])
    )
    (work / "long.txt").write_text("".join(lines[:500]))
    assert await call("read_file", path="long.txt") == numbered(1, *lines[:500])


@pytest.mark.covers("TOOL-16")
async def test_a_start_beyond_the_end_is_a_message(work: Path, call: CallTool) -> None:
    (work / "a.txt").write_text("a\nb\n")
    (work / "empty.txt").write_text("")
    assert await call("read_file", path="a.txt", start_line=3) == "start_line 3 is beyond end of file (2 lines)."
    assert await call("read_file", path="empty.txt", end_line=5) == "start_line 1 is beyond end of file (0 lines)."
    assert await call("read_file", path="empty.txt") == ""


async def test_a_missing_file_and_a_folder_are_not_found(work: Path, call: CallTool) -> None:
    (work / "folder").mkdir()
    (work / "file").touch()
    for name in ("nothing", "folder", "file/below", "no/such/folder"):
        with pytest.raises(FileNotFoundError) as caught:
            await call("read_file", path=name)
        assert str(caught.value) == f"File not found: {work / name}"


async def test_bad_utf_8_is_replaced(work: Path, call: CallTool) -> None:
    (work / "a.txt").write_bytes(b"caf\xe9\n")
    assert await call("read_file", path="a.txt") == "     1\tcaf\ufffd\n"


async def test_special_files_are_never_opened(work: Path, call: CallTool) -> None:
    os.mkfifo(work / "fifo")
    (work / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work / "socket"))
        for name, kind in (("fifo", "a FIFO"), ("socket", "a socket")):
            for tool, more in (("read_file", {}), ("edit_file", {"old_string": "a", "new_string": "b"})):
                with pytest.raises(FileNotFoundError) as caught:
                    await call(tool, path=name, **more)
                assert str(caught.value) == f"File not found: {work / name} ({kind}, not a regular file)"
            with pytest.raises(OSError, match="Not a regular file"):
                await call("write_file", path=name, content="x")
    with pytest.raises(ToolError, match=r"'/dev/zero' is outside the allowed paths"):
        await call("read_file", path="zero")
    assert stat.S_ISFIFO((work / "fifo").stat().st_mode)


async def test_only_the_start_of_an_enormous_file_is_read(work: Path, call: CallTool) -> None:
    with (work / "big.bin").open("wb") as file:
        file.write(b"first\n")
        file.truncate(10 * 1024**3)
    result = await call("read_file", path="big.bin", start_line=1, end_line=1)
    assert result == "(only the first 33,554,432 of 10,737,418,240 bytes were read)\n[lines 1–1 of 2]\n     1\tfirst\n"


async def test_a_file_of_line_ends_needs_little_memory(
    work: Path, call: CallTool, context_at: Callable[..., ToolContext]
) -> None:
    (work / "many.txt").write_bytes(b"\n" * 8_000_000)
    context = context_at(work, None, ToolConfig(max_output_chars=1000))
    tracemalloc.start()
    try:
        result = await call("read_file", ctx=context, path="many.txt", start_line=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.startswith("[lines 1–8000000 of 8000000]\n     1\t\n     2\t\n")
    assert len(result) < 1100
    assert peak < 60_000_000


# --- write_file ---------------------------------------------------------------------------------


@pytest.mark.covers("TOOL-18")
async def test_write_creates_folders_and_says_how_much(work: Path, call: CallTool) -> None:
    message = await call("write_file", path="new/deep/a.txt", content="hello\r\n")
    assert message == f"Wrote 7 bytes to {work / 'new/deep/a.txt'}"
    assert (work / "new/deep/a.txt").read_bytes() == b"hello\r\n"
    assert await call("write_file", path=str(work / "b.txt"), content="é") == f"Wrote 2 bytes to {work / 'b.txt'}"


async def test_overwriting_keeps_the_mode_and_leaves_no_other_file(work: Path, call: CallTool) -> None:
    script = work / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    await call("write_file", path="run.sh", content="new")
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("new", 0o751)
    assert os.listdir(work) == ["run.sh"]


async def test_a_write_that_fails_keeps_the_old_content(work: Path, call: CallTool) -> None:
    (work / "a.txt").write_text("old")
    with pytest.raises(UnicodeEncodeError):
        await call("write_file", path="a.txt", content="\ud800")
    with pytest.raises(IsADirectoryError):
        await call("write_file", path=".", content="x")
    assert ((work / "a.txt").read_text(), os.listdir(work)) == ("old", ["a.txt"])


async def test_writing_through_a_link_keeps_the_link(work: Path, call: CallTool) -> None:
    (work / "real.txt").write_text("old")
    (work / "link.txt").symlink_to("real.txt")
    assert await call("write_file", path="link.txt", content="new") == f"Wrote 3 bytes to {work / 'real.txt'}"
    assert (work / "link.txt").is_symlink()
    assert (work / "real.txt").read_text() == "new"


async def test_writing_a_hard_link_leaves_the_other_name_alone(work: Path, tmp_path: Path, call: CallTool) -> None:
    (tmp_path / "outside.txt").write_text("old")
    os.link(tmp_path / "outside.txt", work / "inside.txt")
    await call("write_file", path="inside.txt", content="new")
    assert ((work / "inside.txt").read_text(), (tmp_path / "outside.txt").read_text()) == ("new", "old")


async def test_readers_see_the_old_content_or_the_new_and_nothing_between(work: Path, call: CallTool) -> None:
    old, new = "a" * 300_000, "b" * 300_000
    (work / "a.txt").write_text(old)
    seen = set()

    async def write() -> None:
        for _ in range(20):
            await call("write_file", path="a.txt", content=new)
            await call("write_file", path="a.txt", content=old)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        while True:
            seen.add(await trio.to_thread.run_sync((work / "a.txt").read_text))
    assert seen <= {old, new}


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
async def test_a_write_protected_file_stays_as_it_is(work: Path, call: CallTool, name: str) -> None:
    (work / "real").write_text("old")
    (work / "real").chmod(0o444)
    (work / "link").symlink_to("real")
    arguments = {"content": "new"} if name == "write_file" else {"old_string": "old", "new_string": "new"}
    for path in ("real", "link"):
        with pytest.raises(PermissionError, match="real is write-protected"):
            await call(name, path=path, **arguments)
    assert (work / "real").read_text() == "old"


# --- edit_file ----------------------------------------------------------------------------------


@pytest.mark.covers("TOOL-19")
async def test_the_one_occurrence_is_replaced(work: Path, call: CallTool) -> None:
    (work / "a.py").write_text("x = 1\ny = 2\n")
    message = await call("edit_file", path="a.py", old_string="y = 2", new_string="y = 3")
    assert message == f"Edited {work / 'a.py'}: replaced 1 occurrence"
    assert (work / "a.py").read_text() == "x = 1\ny = 3\n"


@pytest.mark.covers("TOOL-20")
@pytest.mark.parametrize(
    ("content", "old", "error"),
    [
        ("a b", "c", "old_string not found in {}"),
        ("a b a", "a", "old_string found 2 times in {} — must be unique"),
        ("aaa", "aa", "old_string found 2 times in {} — must be unique"),
        ("ab", "", "old_string found 3 times in {} — must be unique"),
        ("", "", "old_string is empty and {} as well: use write_file"),
    ],
)
async def test_no_or_several_occurrences_are_errors(
    work: Path, call: CallTool, content: str, old: str, error: str
) -> None:
    (work / "a.txt").write_text(content)
    with pytest.raises(ValueError, match="old_string") as caught:
        await call("edit_file", path="a.txt", old_string=old, new_string="x")
    assert str(caught.value) == error.format(work / "a.txt")
    assert (work / "a.txt").read_text() == content


@pytest.mark.covers("TOOL-21")
@pytest.mark.parametrize("old", ["two\nthree", "two\r\nthree"])
async def test_crlf_files_stay_crlf(work: Path, call: CallTool, old: str) -> None:
    (work / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await call("edit_file", path="a.txt", old_string=old, new_string="2\n3")
    assert (work / "a.txt").read_bytes() == b"one\r\n2\r\n3\r\n"


async def test_editing_needs_an_existing_file_in_utf_8(work: Path, call: CallTool) -> None:
    (work / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(UnicodeDecodeError):
        await call("edit_file", path="latin.txt", old_string="caf", new_string="x")
    with pytest.raises(FileNotFoundError) as caught:
        await call("edit_file", path="none.txt", old_string="a", new_string="b")
    assert str(caught.value) == f"File not found: {work / 'none.txt'}"


# --- list_directory -----------------------------------------------------------------------------


@pytest.mark.covers("TOOL-22")
async def test_folders_come_first_then_names_in_any_case(work: Path, call: CallTool) -> None:
    assert await call("list_directory") == f"Contents of {work}:\n\n(empty directory)"
    for name in ("b.txt", "A.txt", ".hidden", "sub/x", "Another/x"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(name)
    (work / "to_folder").symlink_to("sub")
    (work / "broken").symlink_to("nowhere")
    (work / "a\nb").write_text("")
    assert await call("list_directory", path=".") == (
        f"Contents of {work}:\n"
        "\n"
        "d Another\n"
        "d sub\n"
        "d to_folder\n"
        "f .hidden  (7 bytes)\n"
        "f a\\nb  (0 bytes)\n"
        "f A.txt  (5 bytes)\n"
        "f b.txt  (5 bytes)\n"
        "f broken  (7 bytes)"
    )
    with pytest.raises(NotADirectoryError) as caught:
        await call("list_directory", path="b.txt")
    assert str(caught.value) == f"Not a directory: {work / 'b.txt'}"
    with pytest.raises(NotADirectoryError):
        await call("list_directory", path="nowhere")


# --- the session's rules ------------------------------------------------------------------------


def test_a_file_that_has_gone_since_its_folder_was_read_is_not_listed(work: Path) -> None:
    (work / "gone").touch()
    with os.scandir(work) as entries:
        gone = next(entries)
        (work / "gone").unlink()
        assert list(files._entry(gone)) == []


@pytest.mark.covers("SAFE-13")
async def test_no_file_tool_leaves_the_folder(work: Path, tmp_path: Path, call: CallTool) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (work / "file_link").symlink_to(outside / "secret.txt")
    (work / "folder_link").symlink_to(outside)
    (work / "relative_link").symlink_to("../outside/secret.txt")
    (work / ".env").write_text("KEY=1")
    os.link(work / ".env", work / "hard_link")
    (work / "innocent.txt").symlink_to(".env")
    names = ("file_link", "folder_link/secret.txt", "relative_link", "../outside/secret.txt", "innocent.txt", ".env")
    for name in (*names, "hard_link", str(outside / "secret.txt"), f"//{outside}/secret.txt", "a\0b"):
        with pytest.raises(ToolError) as caught:
            await call("read_file", path=name)
        assert str(caught.value).startswith("Error [blocked]: blocked by safety policy")
    for name in (*names, "folder_link/new.txt", "new/../../outside/new.txt"):
        with pytest.raises(ToolError):
            await call("write_file", path=name, content="x")
        with pytest.raises(ToolError):
            await call("edit_file", path=name, old_string="secret", new_string="x")
    with pytest.raises(ToolError):
        await call("list_directory", path="folder_link")
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("secret.txt", "secret")]


async def test_hard_links_within_the_folder_can_be_read(work: Path, call: CallTool) -> None:
    (work / "build").mkdir()
    (work / "a.txt").write_text("shared")
    os.link(work / "a.txt", work / "build" / "b.txt")
    assert await call("read_file", path="build/b.txt") == "     1\tshared"
    os.link(work / "a.txt", work / ".env")
    with pytest.raises(ToolError, match="hard link"):
        await call("read_file", path="a.txt")


@pytest.mark.parametrize(
    "name", [".git", ".git/hooks/pre-commit", ".git/config", ".aar/config.json", ".vscode/tasks.json", ".envrc"]
)
async def test_names_that_run_code_later_cannot_be_written_whether_they_exist_or_not(
    work: Path, call: CallTool, name: str
) -> None:
    with pytest.raises(ToolError, match="protected"):
        await call("write_file", path=name, content="x")
    assert os.listdir(work) == []


async def test_files_that_only_look_like_protected_ones_can_be_written(work: Path, call: CallTool) -> None:
    for name in (".gitignore", ".github/workflows/ci.yml", ".agent/rules.md", "git/config", "app/[id]/page (1).tsx"):
        assert await call("write_file", path=name, content="x") == f"Wrote 1 bytes to {work / name}"


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_reading_gives_back_every_line_whatever_the_text(text: str) -> None:
    data = text.encode()
    shown = files._numbered(data, 1, 500, 10_000)
    expected = text.split("\n")
    if expected[-1] == "":
        expected.pop()
    endings = ["\n"] * text.count("\n") + [""]
    assert shown == numbered(1, *(line + end for line, end in zip(expected, endings, strict=False)))


async def test_edits_of_one_file_that_run_side_by_side_are_all_kept(work: Path, call: CallTool) -> None:
    names = [f"line{number:02}" for number in range(20)]
    (work / "f").write_text("\n".join(names))
    async with trio.open_nursery() as nursery:
        for name in names:
            edit = partial(call, "edit_file", path="f", old_string=name, new_string=name.upper())
            nursery.start_soon(edit)
    assert (work / "f").read_text().split("\n") == [name.upper() for name in names]


class BusyFolder(PathGuard):
    """A folder where somebody else adds a line to a file just before it is written."""

    def check(self, path: str, *, write: bool) -> str | None:
        if write:
            with open(self.resolve(path), "a", encoding="utf-8") as other:
                other.write("theirs\n")
        return super().check(path, write=write)


async def test_what_others_write_during_an_edit_is_not_lost(work: Path, call: CallTool, context: ToolContext) -> None:
    (work / "f").write_text("mine\n")
    busy = replace(context, paths=BusyFolder(str(work), SafetyConfig()))
    with pytest.raises(ValueError, match="f was changed by somebody else during the edit: read it again"):
        await call("edit_file", ctx=busy, path="f", old_string="mine", new_string="ours")
    assert (work / "f").read_text() == "mine\ntheirs\n"


async def test_whole_numbers_may_come_as_floats(work: Path, call: CallTool) -> None:
    (work / "f").write_text("a\nb\nc\n")
    assert await call("read_file", path="f", start_line=2.0, end_line=2.0) == "[lines 2–2 of 3]\n     2\tb\n"
