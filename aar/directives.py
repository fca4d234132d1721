"""Directives in what a person types: `@Image[..]`, `@File[..]`, `@Path[..]` and `@Bash[..]`.

They are for people alone: text that came from elsewhere is never looked at here. What a directive brings stands in
front of the text as parts of its own, where nothing in it is looked at again.
"""

from __future__ import annotations

import base64
import os
import re
import warnings
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import islice
from typing import NamedTuple

import trio

from aar.attachments import MAX_BYTES_TOGETHER, MayRead, is_binary, read_attached
from aar.errors import ConfigError, InvalidMessage, ProviderError, ToolError
from aar.messages.content import ContentBlock, Document, DocumentBlock, ImageBlock, ImageURL, TextBlock
from aar.messages.settings import AgentConfig

__all__ = [
    "KINDS",
    "Directive",
    "Expanded",
    "check_size",
    "ended_well",
    "expand",
    "find_directives",
    "takes_images",
    "weight_of",
]

KINDS = ("Image", "File", "Path", "Bash")

IMAGE_SIDE = 1024  # pixels; a larger picture is made so small
JPEG_QUALITY = 75
FILE_LINES = 500
FILE_CHARACTERS = 200_000
FOLDER_ENTRIES = 500
SHARE = 0.8  # of the model's context that may be taken once a message with directives has been said
_IMAGE_TOKENS = 1_600  # what a picture of that size costs, about
_CHARACTERS_PER_TOKEN = 4

_BEGIN = re.compile(rf"(?<!\S)@({'|'.join(KINDS)})\[")
_PLACE = "\0"  # stands around the number of a directive while the rest of the text is looked at

_FAILED = re.compile(r"(?:\A|\n)(?:Exit code: -?\d+|\(timed out\))\Z")

RunShell = Callable[[str], Awaitable[str]]


class Directive(NamedTuple):
    """`start` and `end` are its place in the text, with the marks around it."""

    kind: str
    argument: str
    start: int
    end: int

    @property
    def written(self) -> str:
        return f"@{self.kind}[{self.argument}]"


class Expanded(NamedTuple):
    """`parts` go in front of the text. `text` has a mark for each directive, which `finish` takes away again."""

    parts: list[ContentBlock]
    text: str
    words: list[str]

    def finish(self, text: str) -> str:
        for number, word in enumerate(self.words):
            text = text.replace(f"{_PLACE}{number}{_PLACE}", word)
        return text


def find_directives(text: str) -> list[Directive]:
    """All directives, in order. Brackets within one come in pairs. Raises `InvalidMessage` for one without an end."""
    found: list[Directive] = []
    at = 0
    while begun := _BEGIN.search(text, at):
        end = _end_of(text, begun.end())
        if end is None:
            raise InvalidMessage(f"@{begun[1]}[ has no closing bracket: write @{begun[1]}[...]")
        argument = text[begun.end() : end].strip()
        if not argument:
            raise InvalidMessage(f"@{begun[1]}[] is empty: put something between the brackets")
        found.append(Directive(begun[1], argument, begun.start(), end + 1))
        at = end + 1
    return found


def _end_of(text: str, at: int) -> int | None:
    depth = 0
    for place in range(at, len(text)):
        if text[place] == "[":
            depth += 1
        elif text[place] == "]":
            if not depth:
                return place
            depth -= 1
    return None


async def expand(
    text: str, directives: Sequence[Directive], *, cwd: str, may_read: MayRead, run_shell: RunShell | None
) -> Expanded:
    """What the directives bring. Files are read in a thread, commands run one after the other.

    Raises `InvalidMessage` when one of them cannot be had: an answer without it is not what was wanted.
    """
    parts: list[ContentBlock] = []
    words: list[str] = []
    pieces: list[str] = []
    at, left = 0, MAX_BYTES_TOGETHER
    for number, one in enumerate(directives):
        brought = await _brought(one, cwd, may_read, run_shell)
        left -= sum(map(weight_of, brought.parts))
        if left < 0:
            raise InvalidMessage(f"{one.written}: too much together. Nothing was sent")
        parts += brought.parts
        words.append(brought.word)
        pieces += [text[at : one.start].replace(_PLACE, ""), f"{_PLACE}{number}{_PLACE}"]
        at = one.end
    return Expanded(parts, "".join([*pieces, text[at:].replace(_PLACE, "")]), words)


class _Brought(NamedTuple):
    word: str  # what stands in the text instead
    parts: tuple[ContentBlock, ...] = ()


async def _brought(one: Directive, cwd: str, may_read: MayRead, run_shell: RunShell | None) -> _Brought:
    try:
        if one.kind == "Path":
            return _Brought(_expanded_path(one.argument))
        if one.kind == "Bash":
            return await _output(one.argument, run_shell)
        read = _picture if one.kind == "Image" else _text
        path = _expanded_path(one.argument)
        part = await trio.to_thread.run_sync(read, path, cwd, may_read, abandon_on_cancel=True)
        return _Brought(path, (part,))
    except (ValueError, OSError, ToolError) as error:
        raise InvalidMessage(f"{one.written}: {error}. Nothing was sent") from error


def _expanded_path(text: str) -> str:
    return os.path.expanduser(os.path.expandvars(text))


async def _output(command: str, run_shell: RunShell | None) -> _Brought:
    if run_shell is None:
        raise InvalidMessage("no commands are run here")
    output = (await run_shell(command)).rstrip("\n") or "(no output)"
    return _Brought(f"`{command}`", (TextBlock(text=f"[Output of `{command}`]\n{output}\n"),))


# --- files, in a thread -----------------------------------------------------------------------


def _text(path: str, cwd: str, may_read: MayRead) -> ContentBlock:
    folder = os.path.realpath(os.path.join(cwd, path))
    if os.path.isdir(folder):
        return _listing(folder, may_read)
    full, content = read_attached(path, cwd, may_read)
    if is_binary(content):
        raise ValueError(f"{os.path.basename(full)} is no text; use @Image[...] for a picture")
    lines = content.decode("utf-8", errors="replace").splitlines(keepends=True)
    text = "".join(lines[:FILE_LINES])
    if len(lines) > FILE_LINES:
        text += f"[... {len(lines) - FILE_LINES} of {len(lines)} lines are left out]\n"
    if len(text) > FILE_CHARACTERS:
        text = text[:FILE_CHARACTERS] + f"\n[... {len(text) - FILE_CHARACTERS} characters are left out]\n"
    return TextBlock(text=f"[File: {full}]\n{text}")


def _listing(folder: str, may_read: MayRead) -> ContentBlock:
    """The names in a folder, those of folders with a slash behind them."""
    if reason := may_read(folder):
        raise ValueError(f"Not allowed to read {os.path.basename(folder)}: {reason}")
    with os.scandir(folder) as entries:
        some = list(islice(entries, FOLDER_ENTRIES + 1))
    names = sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in some[:FOLDER_ENTRIES])
    more = ["[... more entries are left out]"] if len(some) > FOLDER_ENTRIES else []
    return TextBlock(text="\n".join([f"[Folder: {folder}]", *names, *more, ""]))


def _picture(path: str, cwd: str, may_read: MayRead) -> ContentBlock:
    full, content = read_attached(path, cwd, may_read)
    if content.startswith(b"%PDF-"):
        url = f"data:application/pdf;base64,{base64.b64encode(content).decode('ascii')}"
        return DocumentBlock(document=Document(url=url, name=os.path.basename(full)))
    url = f"data:image/jpeg;base64,{base64.b64encode(_small_jpeg(content)).decode('ascii')}"
    return ImageBlock(image_url=ImageURL(url=url))


def _small_jpeg(content: bytes) -> bytes:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise ValueError("pictures need Pillow: pip install pillow") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(BytesIO(content))
        with opened:
            opened.draft("RGB", (IMAGE_SIDE, IMAGE_SIDE))  # of a JPEG no more is decoded than is needed
            image = ImageOps.exif_transpose(opened).convert("RGBA")
            image.thumbnail((IMAGE_SIDE, IMAGE_SIDE), Image.Resampling.LANCZOS)
            plain = Image.new("RGB", image.size, "white")
            plain.paste(image, mask=image.getchannel("A"))
            out = BytesIO()
            plain.save(out, "JPEG", quality=JPEG_QUALITY)
            return out.getvalue()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError("it has too many pixels") from None
    except (OSError, ValueError, SyntaxError) as error:
        raise ValueError("it is no picture that can be read") from error


# --- how much it is ---------------------------------------------------------------------------


def weight_of(part: ContentBlock) -> int:
    """Characters that a part has."""
    match part:
        case TextBlock():
            return len(part.text)
        case ImageBlock():
            return len(part.image_url.url)
        case DocumentBlock():
            return len(part.document.url)
    return 0


def check_size(parts: Sequence[ContentBlock], said: int, window: int) -> None:
    """Raises `InvalidMessage` when these parts, after `said` tokens, would take too much of a `window` of tokens.

    A `window` of 0 is one whose size nobody knows.
    """
    tokens = said + sum(_tokens(part) for part in parts)
    if window and tokens > window * SHARE:
        raise InvalidMessage(
            f"That would fill {tokens * 100 // window} % of the model's context, and {SHARE:.0%} is the most that "
            "files and commands may. Nothing was sent: name less, or begin a new session"
        )


def _tokens(part: ContentBlock) -> int:
    return weight_of(part) // _CHARACTERS_PER_TOKEN if isinstance(part, TextBlock) else _IMAGE_TOKENS


def ended_well(output: str) -> bool:
    """Whether a command that said this ended without an error; see `SessionHandle.run_shell`."""
    return _FAILED.search(output.rstrip()) is None


def takes_images(config: AgentConfig) -> bool:
    """Whether the model is known to take images, or nothing is known of it."""
    from aar.providers import open_provider  # only where there is an image to be taken

    with suppress(ProviderError, ConfigError):
        return open_provider(config.resolve_provider()).capabilities()["vision"]
    return True
