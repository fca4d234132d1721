"""`@file` in a prompt: files become parts of the message.

A token starts the text or follows white space, so an address such as `user@host.com` stays what it is.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from collections.abc import Callable

from aar.messages.content import AudioBlock, ContentBlock, ImageBlock, ImageURL, Media, TextBlock

__all__ = [
    "MAX_BYTES",
    "MAX_BYTES_TOGETHER",
    "MayRead",
    "attach",
    "attached_kinds",
    "attachment_errors",
    "audio_warning",
    "block_of_file",
    "file_tokens",
    "is_binary",
    "read_attached",
]

MAX_BYTES = 20_000_000
"""A file must be smaller than this."""

MAX_BYTES_TOGETHER = 50_000_000
"""The files of one prompt must not be larger than this."""

_TOKEN = re.compile(r"(?<!\S)@(?!(?:Image|File|Path|Bash)\[)((?:[A-Za-z]:)?[\\/]?[^\s@]+\.[A-Za-z0-9]+)")

_ERRORS = "[Attachment errors: "

_SUFFIXES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tiff": "image/tiff",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".mov": "video/quicktime",
}

MayRead = Callable[[str], str | None]
"""Why a file may not be read, or `None`. Called with the path as written and with where it leads."""


def attach(
    text: str,
    cwd: str,
    may_read: MayRead = lambda path: None,
    *,
    max_bytes: int = MAX_BYTES,
    is_typed: bool = True,
) -> str | list[ContentBlock]:
    """The prompt with the files that it names: file blocks first, then the text that is left.

    Text without tokens is returned unchanged, and so is text, with the reasons added, when no file could be
    attached. In text that nobody typed, a diff for example, a token that names no file is a word like any other.
    Reads files, so call it in a thread.
    """
    tokens = [token for token in file_tokens(text) if is_typed or os.path.lexists(_full(token, cwd))]
    if not tokens:
        return text
    blocks: list[ContentBlock] = []
    errors: list[str] = []
    left = MAX_BYTES_TOGETHER
    for token in tokens:
        try:
            full, content = read_attached(token, cwd, may_read, max_bytes)
            if len(content) > left:
                raise ValueError(f"Too much to attach together: {os.path.basename(full)} (at most {_megabytes()})")
            blocks.append(_block(full, content))
            left -= len(content)
        except (ValueError, FileNotFoundError) as error:
            errors.append(str(error))
    rest = _TOKEN.sub(lambda found: "" if found[1] in tokens else found[0], text).strip()
    if errors:
        rest = "\n".join(part for part in (rest, f"{_ERRORS}{'; '.join(errors)}]") if part)
    if not blocks:
        return rest
    return [*blocks, TextBlock(text=rest)] if rest else blocks


def file_tokens(text: str) -> list[str]:
    """The paths behind the `@` tokens of a text, in order."""
    return _TOKEN.findall(text)


def attached_kinds(prompt: str | list[ContentBlock]) -> list[str]:
    """`image` or `audio` for each such block, in order: what a user interface confirms."""
    if isinstance(prompt, str):
        return []
    kinds = {ImageBlock: "image", AudioBlock: "audio"}
    return [kinds[type(block)] for block in prompt if type(block) in kinds]


def attachment_errors(prompt: str | list[ContentBlock]) -> str:
    """Why files that were named do not go along; empty when all of them do."""
    last = prompt if isinstance(prompt, str) else getattr(prompt[-1], "text", "") if prompt else ""
    _, mark, errors = last.rpartition(_ERRORS)
    return errors.removesuffix("]") if mark else ""


def audio_warning(provider: str) -> str:
    return f"Audio is not supported by {provider} and will be dropped."


def block_of_file(
    path: str, cwd: str, may_read: MayRead = lambda path: None, *, max_bytes: int = MAX_BYTES
) -> ContentBlock:
    """One file as a content block. Raises `FileNotFoundError` and `ValueError` with texts for the user."""
    return _block(*read_attached(path, cwd, may_read, max_bytes))


def _megabytes() -> str:
    return f"{MAX_BYTES_TOGETHER / 1_000_000:g} MB"


def _full(path: str, cwd: str) -> str:
    return os.path.abspath(os.path.join(cwd, os.path.expanduser(path)))


def read_attached(path: str, cwd: str, may_read: MayRead, max_bytes: int = MAX_BYTES) -> tuple[str, bytes]:
    """Where a file stands, and all of it. Raises `FileNotFoundError` and `ValueError` with texts for the user."""
    full = _full(path, cwd)
    return full, _read(full, os.path.basename(full), may_read, max_bytes)


def _block(full: str, content: bytes) -> ContentBlock:
    name = os.path.basename(full)
    suffix = os.path.splitext(name)[1].lower()
    mime = _mime(name, suffix, content)
    kind = mime.split("/")[0]
    if kind == "video":
        text = f"Video input is prepared but not yet implemented: {name}. Attach single frames as images instead."
        raise ValueError(text)
    if kind == "image":
        return ImageBlock(image_url=ImageURL(url=_data_uri(mime, content)))
    if kind == "audio":
        return AudioBlock(audio=Media(url=_data_uri(mime, content), format=suffix.removeprefix(".")))
    if is_binary(content):
        raise ValueError(f"Unsupported file type ({mime}): {name}")
    return TextBlock(text=f"[File: {full}]\n{content.decode('utf-8', errors='replace')}")


def _mime(name: str, suffix: str, content: bytes) -> str:
    """The table first. What the system guesses of an image, audio or video counts for binary content only: it
    takes TypeScript (`.ts`) for video."""
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    from mimetypes import guess_type

    guess = guess_type(name)[0] or "application/octet-stream"
    return guess if is_binary(content) else "text/plain"


def is_binary(content: bytes) -> bool:
    """Whether it is no text, by its beginning."""
    return b"\0" in content[:8192]


def _data_uri(mime: str, content: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}"


def _read(full: str, name: str, may_read: MayRead, max_bytes: int) -> bytes:
    """The file's bytes, from where the path leads at the time of the check."""
    try:
        real = os.path.realpath(full)
        for path in dict.fromkeys((full, real)):
            if reason := may_read(path):
                raise ValueError(f"Not allowed to read {name}: {reason}")
        descriptor = os.open(real, _READ)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not _is_at(descriptor, real):
                raise ValueError(f"Could not read file: {name}")
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(max_bytes)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"File not found: {full}") from error
    except OSError as error:
        raise ValueError(f"Could not read file: {name}") from error
    if len(content) >= max_bytes:
        raise ValueError(f"File is too large: {name} (files must be smaller than {max_bytes / 1_000_000:g} MB)")
    return content


def _is_at(descriptor: int, real: str) -> bool:
    """Whether the file that was opened stands at this path: a folder on the way may have become a link."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == real
    except OSError:  # a system that does not tell
        return os.path.realpath(real) == real


def _flags() -> int:
    """Without O_NONBLOCK a named pipe would wait for its writer; without O_NOFOLLOW the checked path could move."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_BINARY", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    return flags


_READ = _flags()
