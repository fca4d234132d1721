"""Directives: what `@Image[..]`, `@File[..]`, `@Path[..]` and `@Bash[..]` bring."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from aar.directives import Directive, check_size, expand, find_directives
from aar.errors import InvalidMessage, ToolError
from aar.messages.content import DocumentBlock, ImageBlock, TextBlock


def found(text: str) -> list[tuple[str, str]]:
    return [(one.kind, one.argument) for one in find_directives(text)]


async def expanded(text: str, cwd: Path, *, may_read=lambda path: None, run_shell=None):
    directives = find_directives(text)
    brought = await expand(text, directives, cwd=str(cwd), may_read=may_read, run_shell=run_shell)
    return brought.parts, brought.finish(brought.text)


def test_directives_are_found_in_order_with_brackets_in_pairs() -> None:
    text = "@File[a b.txt] and @Bash[[ -f x ] && ls [ab]*] @Path[~/x]"
    assert found(text) == [("File", "a b.txt"), ("Bash", "[ -f x ] && ls [ab]*"), ("Path", "~/x")]
    assert find_directives("say @Image[ a.png ]") == [Directive("Image", "a.png", 4, 19)]


@pytest.mark.parametrize("text", ["me@File[x]", "@file[x]", "@Files[x]", "@File", "File[x]", "@ File[x]"])
def test_other_text_is_left_alone(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("text", ["@File[x", "@Bash[[ -f x ]", "@Path[]", "@Image[ ]"])
def test_a_directive_without_an_end_or_a_content_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessage, match=r"no closing bracket|is empty"):
        find_directives(text)


@given(st.text(alphabet="@FilePathBs[] a", max_size=40))
def test_what_is_found_stands_in_the_text(text: str) -> None:
    try:
        directives = find_directives(text)
    except InvalidMessage:
        return
    for one in directives:
        assert text[one.start :].startswith(f"@{one.kind}[")
        assert one.argument in text[one.start : one.end]


# --- paths ------------------------------------------------------------------------------------


@pytest.mark.covers("AURA-44")
async def test_a_path_becomes_text_and_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/somewhere")
    monkeypatch.setenv("HOME", "/home/ada")

    def may_read(path: str) -> str | None:
        raise AssertionError("nothing is read")

    assert await expanded("look at @Path[$WHERE/a.txt] or @Path[~/b]", tmp_path, may_read=may_read) == (
        [],
        "look at /somewhere/a.txt or /home/ada/b",
    )


# --- files ------------------------------------------------------------------------------------


async def test_a_file_stands_in_front_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").write_text("one\n@Bash[rm x] @File[y]\n")
    parts, text = await expanded("sum up @File[my notes.txt], please", tmp_path)
    assert parts == [TextBlock(text=f"[File: {tmp_path}/my notes.txt]\none\n@Bash[rm x] @File[y]\n")]
    assert text == "sum up my notes.txt, please"


@pytest.mark.covers("AURA-43")
async def test_a_long_file_is_cut_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("".join(f"{number}\n" for number in range(501)))
    (tmp_path / "whole").write_text("x\n" * 500)
    (tmp_path / "wide").write_text("x" * 200_001)
    (long, whole, wide), _ = await expanded("@File[long] @File[whole] @File[wide]", tmp_path)
    assert long.text.endswith("\n499\n[... 1 of 501 lines are left out]\n")
    assert whole.text == f"[File: {tmp_path}/whole]\n" + "x\n" * 500
    assert wide.text.endswith("x\n[... 1 characters are left out]\n")


@pytest.mark.covers("AURA-43")
async def test_a_folder_is_listed_and_no_deeper(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "a.py").touch()
    (tmp_path / "src" / "deep" / "b.py").touch()
    (part,), text = await expanded("what is in @File[src]?", tmp_path)
    assert part == TextBlock(text=f"[Folder: {tmp_path}/src]\na.py\ndeep/\n")
    assert text == "what is in src?"


async def test_a_large_folder_is_cut(tmp_path: Path) -> None:
    for number in range(501):
        (tmp_path / f"f{number}").touch()
    (part,), _ = await expanded("@File[.]", tmp_path)
    assert len(part.text.splitlines()) == 502
    assert part.text.endswith("[... more entries are left out]\n")


@pytest.mark.parametrize("directive", ["@File[secret]", "@File[folder]", "@Image[secret]"])
async def test_what_may_not_be_read_is_refused_with_the_reason(tmp_path: Path, directive: str) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidMessage, match=r"it is a secret\. Nothing was sent") as caught:
        await expanded(f"see {directive}", tmp_path, may_read=lambda path: "it is a secret")
    assert directive in str(caught.value)


@pytest.mark.parametrize(
    ("directive", "words"),
    [("@File[none.txt]", "File not found"), ("@File[bin]", "is no text"), ("@Image[text]", "no picture")],
)
async def test_what_cannot_be_had_is_said(tmp_path: Path, directive: str, words: str) -> None:
    (tmp_path / "bin").write_bytes(b"a\0b")
    (tmp_path / "text").write_text("x")
    with pytest.raises(InvalidMessage, match=words):
        await expanded(directive, tmp_path)


# --- pictures ---------------------------------------------------------------------------------


def picture(width: int, height: int, mode: str = "RGBA") -> bytes:
    out = BytesIO()
    Image.new(mode, (width, height), (255, 0, 0)[: len(mode)] if mode == "RGB" else (255, 0, 0, 0)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.covers("AURA-42")
async def test_a_large_picture_is_made_small_and_a_jpeg(tmp_path: Path) -> None:
    (tmp_path / "big.png").write_bytes(picture(4000, 1000, "RGB"))
    (part,), text = await expanded("what is on @Image[big.png]?", tmp_path)
    assert isinstance(part, ImageBlock)
    head, _, payload = part.image_url.url.partition(",")
    with Image.open(BytesIO(base64.b64decode(payload))) as image:
        assert (head, image.format, image.size) == ("data:image/jpeg;base64", "JPEG", (1024, 256))
    assert text == "what is on big.png?"


async def test_what_is_transparent_becomes_white(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture(8, 8))
    (part,), _ = await expanded("@Image[a.png]", tmp_path)
    with Image.open(BytesIO(base64.b64decode(part.image_url.url.partition(",")[2]))) as image:
        assert (image.size, image.getpixel((4, 4))) == ((8, 8), (255, 255, 255))


async def test_a_pdf_goes_along_with_its_pages(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7 ...")
    (part,), _ = await expanded("@Image[a.pdf]", tmp_path)
    assert isinstance(part, DocumentBlock)
    assert part.document.name == "a.pdf"


# --- commands ---------------------------------------------------------------------------------


async def test_commands_run_in_order_and_what_they_say_is_not_looked_at_again(tmp_path: Path) -> None:
    ran: list[str] = []

    async def run_shell(command: str) -> str:
        ran.append(command)
        return "@Bash[boom] @File[x]\n\n" if command == "a" else "\n"

    parts, text = await expanded("why does @Bash[a] differ from @Bash[b [c]]?", tmp_path, run_shell=run_shell)
    assert ran == ["a", "b [c]"]
    assert [part.text for part in parts] == [
        "[Output of `a`]\n@Bash[boom] @File[x]\n",
        "[Output of `b [c]`]\n(no output)\n",
    ]
    assert text == "why does `a` differ from `b [c]`?"


async def test_a_command_that_may_not_run_keeps_everything_back(tmp_path: Path) -> None:
    async def run_shell(command: str) -> str:
        raise ToolError("denied", "tool call denied by user")

    with pytest.raises(InvalidMessage, match=r"@Bash\[ls\]: .*denied by user\. Nothing was sent"):
        await expanded("@Bash[ls]", tmp_path, run_shell=run_shell)
    with pytest.raises(InvalidMessage, match="no commands are run here"):
        await expanded("@Bash[ls]", tmp_path)


# --- how much it is ---------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "characters", "fits"), [(0, 3200, True), (0, 3204, False), (799, 8, False)])
def test_parts_may_fill_four_fifths_of_the_context(said: int, characters: int, fits: bool) -> None:
    parts = [TextBlock(text="x" * characters)]
    check_size(parts, said, 0)
    if fits:
        check_size(parts, said, 1000)
    else:
        with pytest.raises(InvalidMessage, match="80% is the most"):
            check_size(parts, said, 1000)
