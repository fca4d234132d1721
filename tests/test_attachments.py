"""`@file` in a prompt."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.attachments import (
    MAX_BYTES,
    attach,
    attached_kinds,
    attachment_errors,
    audio_warning,
    block_of_file,
    file_tokens,
)
from aar.messages.content import AudioBlock, ImageBlock, ImageURL, Media, TextBlock

PNG = b"\x89PNG\r\n\0\0data"


def uri(mime: str, content: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"


@pytest.fixture
def cwd(tmp_path: Path) -> str:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.wav").write_bytes(b"RIFF\0\0")
    (tmp_path / "c.txt").write_text("hällo\n", encoding="utf-8")
    (tmp_path / "d.mp4").write_bytes(b"\0\0")
    (tmp_path / "e.bin").write_bytes(b"a\0b")
    return str(tmp_path)


IMAGE = ImageBlock(image_url=ImageURL(url=uri("image/png", PNG)))
AUDIO = AudioBlock(audio=Media(url=uri("audio/wav", b"RIFF\0\0"), format="wav"))


@pytest.mark.covers("MM-01")
def test_an_image_comes_before_the_text_that_is_left(cwd: str) -> None:
    assert attach("what is @a.png", cwd) == [IMAGE, TextBlock(text="what is")]


@pytest.mark.covers("MM-02")
def test_audio_tells_its_format(cwd: str) -> None:
    assert attach("@b.wav", cwd) == [AUDIO]


@pytest.mark.covers("MM-03")
def test_a_text_file_is_inlined_under_its_path(cwd: str) -> None:
    file = Path(cwd, "c.txt")
    assert attach("read @c.txt now", cwd) == [TextBlock(text=f"[File: {file}]\nhällo\n"), TextBlock(text="read  now")]


def test_files_keep_their_order(cwd: str) -> None:
    found = attach("@b.wav and @a.png", cwd)
    assert found == [AUDIO, IMAGE, TextBlock(text="and")]
    assert attached_kinds(found) == ["audio", "image"]


@pytest.mark.covers("MM-04")
def test_video_is_refused(cwd: str) -> None:
    with pytest.raises(ValueError, match=r"^Video input is prepared but not yet implemented: d\.mp4\. "):
        block_of_file("d.mp4", cwd)


@pytest.mark.covers("MM-05")
def test_other_binary_files_are_refused(cwd: str) -> None:
    with pytest.raises(ValueError, match=r"^Unsupported file type \(application/octet-stream\): e\.bin$"):
        block_of_file("e.bin", cwd)


@pytest.mark.covers("MM-06")
def test_when_nothing_can_be_attached_the_prompt_stays_text(cwd: str) -> None:
    missing = f"[Attachment errors: File not found: {Path(cwd, 'none.txt')}]"
    assert attach("read @none.txt", cwd) == f"read\n{missing}"
    assert attach("@none.txt", cwd) == missing
    both = attach("@none.txt @e.bin", cwd)
    assert both == missing[:-1] + "; Unsupported file type (application/octet-stream): e.bin]"


@pytest.mark.covers("MM-07")
def test_what_failed_is_told_behind_the_text(cwd: str) -> None:
    error = f"[Attachment errors: File not found: {Path(cwd, 'none.txt')}]"
    assert attach("see @a.png @none.txt", cwd) == [IMAGE, TextBlock(text=f"see\n{error}")]
    assert attach("@a.png @none.txt", cwd) == [IMAGE, TextBlock(text=error)]


@pytest.mark.covers("MM-08")
@pytest.mark.parametrize(
    "text",
    ["write to user@host.com", "(@c.txt)", "a@c.txt", "@", "@name", "@ c.txt", "no files", "", "x@@c.txt", "@c.txt@d"],
)
def test_text_without_a_file_token_is_unchanged(cwd: str, text: str) -> None:
    expected = [] if text != "@c.txt@d" else ["c.txt"]
    assert file_tokens(text) == expected
    if not expected:
        assert attach(text, cwd) == text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("@a.png,", ["a.png"]),
        ("@dir/x.tar.gz", ["dir/x.tar.gz"]),
        ("@/abs/f.py @~/f.md", ["/abs/f.py", "~/f.md"]),
        ("@C:\\x\\y.txt @d:/z.md", ["C:\\x\\y.txt", "d:/z.md"]),
        ("one\n@a.b\ttwo", ["a.b"]),
    ],
)
def test_tokens_are_paths_with_a_suffix(text: str, tokens: list[str]) -> None:
    assert file_tokens(text) == tokens


def test_the_home_folder_is_expanded(cwd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", cwd)
    assert attach("@~/a.png", "/") == [IMAGE]


@pytest.mark.parametrize(
    ("name", "mime"),
    [("x.jpg", "image/jpeg"), ("x.JPEG", "image/jpeg"), ("x.gif", "image/gif"), ("x.tiff", "image/tiff")],
)
def test_the_suffix_names_the_kind_of_image(tmp_path: Path, name: str, mime: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert block_of_file(name, str(tmp_path)) == ImageBlock(image_url=ImageURL(url=uri(mime, b"x")))


@pytest.mark.parametrize(
    ("name", "mime", "form"),
    [("x.mp3", "audio/mpeg", "mp3"), ("x.m4a", "audio/mp4", "m4a"), ("x.ogg", "audio/ogg", "ogg")],
)
def test_the_suffix_names_the_kind_of_audio(tmp_path: Path, name: str, mime: str, form: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert block_of_file(name, str(tmp_path)) == AudioBlock(audio=Media(url=uri(mime, b"x"), format=form))


@pytest.mark.parametrize("name", ["x.ts", "drawing.svg", "x.py", "x.unknown"])
def test_text_is_text_whatever_the_system_calls_its_suffix(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"caf\xe9")
    assert block_of_file(name, str(tmp_path)) == TextBlock(text=f"[File: {tmp_path / name}]\ncaf�")


# --- what may not be read ---------------------------------------------------------------------


@pytest.mark.covers("MM-12")
def test_a_file_of_20_mb_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "big.png", "wb") as file:
        file.truncate(MAX_BYTES)
    with pytest.raises(ValueError, match=r"^File is too large: big\.png \(files must be smaller than 20 MB\)$"):
        block_of_file("big.png", str(tmp_path))
    with open(tmp_path / "big.png", "wb") as file:
        file.truncate(MAX_BYTES - 1)
    assert isinstance(block_of_file("big.png", str(tmp_path)), ImageBlock)


def test_a_denied_path_is_not_attached_and_the_reason_is_told(cwd: str) -> None:
    found = attach("@c.txt", cwd, lambda path: "it is denied" if path.endswith("c.txt") else None)
    assert found == "[Attachment errors: Not allowed to read c.txt: it is denied]"


def test_a_link_to_a_denied_file_is_denied_too(cwd: str) -> None:
    Path(cwd, "innocent.txt").symlink_to(Path(cwd, "c.txt"))
    found = attach("@innocent.txt", cwd, lambda path: "no" if path.endswith("c.txt") else None)
    assert found == "[Attachment errors: Not allowed to read innocent.txt: no]"
    assert isinstance(attach("@innocent.txt", cwd), list)


def test_pipes_folders_and_dangling_links_are_refused_at_once(cwd: str) -> None:
    os.mkfifo(Path(cwd, "pipe.txt"))
    Path(cwd, "folder.d").mkdir()
    Path(cwd, "gone.txt").symlink_to(Path(cwd, "none"))
    found = attach("@pipe.txt @folder.d @gone.txt", cwd)
    errors = ["Could not read file: pipe.txt", "Could not read file: folder.d"]
    assert found == f"[Attachment errors: {'; '.join(errors)}; File not found: {Path(cwd, 'gone.txt')}]"


def test_a_folder_that_becomes_a_link_after_the_check_is_not_followed(cwd: str, tmp_path: Path) -> None:
    inside, outside, away = Path(cwd, "sub"), tmp_path / "outside", tmp_path / "away"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "f.txt").write_text(folder.name)

    def may_read(path: str) -> str | None:
        inside.rename(away)
        inside.symlink_to(outside)
        return None

    assert attach("@sub/f.txt", cwd, may_read) == "[Attachment errors: Could not read file: f.txt]"
    assert Path(cwd, "sub", "f.txt").read_text() == "outside"


def test_what_is_attached_together_is_bounded(cwd: str) -> None:
    with open(Path(cwd, "big.png"), "wb") as file:
        file.truncate(MAX_BYTES - 1)
    found = attach("@big.png @big.png @big.png @c.txt", cwd)
    assert isinstance(found, list)
    assert [type(block).__name__ for block in found] == ["ImageBlock", "ImageBlock", "TextBlock", "TextBlock"]
    assert attachment_errors(found) == "Too much to attach together: big.png (at most 50 MB)"


@given(st.text(max_size=60))
def test_any_text_is_taken_and_never_lost(text: str) -> None:
    found = attach(text, "/nonexistent")
    assert isinstance(found, str)
    if not file_tokens(text):
        assert found == text
    else:
        assert "[Attachment errors: " in found


def test_what_could_not_be_attached_is_told(cwd: str) -> None:
    gone = f"File not found: {cwd}/gone.txt"
    prompts = [attach(text, cwd) for text in ("look at @gone.txt", "@a.png and @gone.txt", "@a.png", "see [1]", "")]
    assert [attachment_errors(prompt) for prompt in prompts] == [gone, gone, "", "", ""]


def test_the_audio_warning_names_the_provider() -> None:
    assert audio_warning("ollama") == "Audio is not supported by ollama and will be dropped."
    assert attached_kinds("text") == []


def test_in_text_that_nobody_typed_a_word_that_names_no_file_stays(cwd: str) -> None:
    Path(cwd, "b.txt").write_text("bee", encoding="utf-8")
    diff = " @pytest.fixture\n+@app.route\n @b.txt"
    assert attach(" @pytest.fixture\n @app.get", cwd, is_typed=False) == " @pytest.fixture\n @app.get"
    [file, rest] = attach(diff, cwd, is_typed=False)
    assert ("bee" in file.text, rest.text) == (True, "@pytest.fixture\n+@app.route")
