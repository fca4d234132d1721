"""read_file, write_file, edit_file and list_directory: files within the session's rules."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from aar.messages.tools import SideEffect
from aar.safety.display import visible
from aar.safety.paths import PathGuard
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.threads import in_thread

__all__ = [
    "FILE_TOOLS",
    "MAX_FILE_BYTES",
    "edit_file",
    "edited",
    "read_file",
    "require_writable",
    "shown_lines",
    "version_of",
    "write_file",
]

MAX_FILE_BYTES = 32 * 1024 * 1024
"""No more of a file is held in memory."""

WHOLE_FILE_LINES = 500
PREVIEW_LINES = 50
MAX_ENTRIES = 20_000

# --- reading ------------------------------------------------------------------------------------


async def read_file(ctx: ToolContext, path: str, start_line: int = 0, end_line: int = 0) -> str:
    limit = ctx.config.max_output_chars
    start, end = int(start_line), int(end_line)  # 1.0 is an integer to JSON schema
    return await in_thread(lambda: _read(ctx.paths, path, start, end, limit))


def _read(paths: PathGuard, path: str, start: int, end: int, limit: int) -> str:
    with paths.open_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(MAX_FILE_BYTES + 1) or b""  # some files of the system have nothing to say right now
    clipped = len(data) > MAX_FILE_BYTES
    data = data[:MAX_FILE_BYTES]
    text = shown_lines(data, paths.resolve(path), start, end, limit)
    if not clipped:
        return text
    note = f"(only the first {MAX_FILE_BYTES:,} of {size:,} bytes were read)"
    return f"{note}\n{text}"


def shown_lines(data: bytes, name: str, start: int, end: int, limit: int) -> str:
    """The lines from `start` to `end` with their numbers, 0 for the first and the last; a preview of a long file."""
    total = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    if start > 0 or end > 0:
        return _range(data, total, max(start, 1), end, limit)
    if total <= WHOLE_FILE_LINES:
        return _numbered(data, 1, total, limit)
    return (
        f"File {name} has {total} lines — too large to return in full.\n"
        "Use start_line / end_line to read a specific section.\n"
        f"First {PREVIEW_LINES} lines preview:\n\n"
    ) + _numbered(data, 1, PREVIEW_LINES, limit)


def _range(data: bytes, total: int, start: int, end: int, limit: int) -> str:
    if start > total:
        return f"start_line {start} is beyond end of file ({total} lines)."
    last = min(end, total) if end > 0 else total
    if last < start:
        return f"end_line {end} is before start_line {start}: no lines to show ({total} lines in the file)."
    return f"[lines {start}–{last} of {total}]\n" + _numbered(data, start, last, limit)


def _numbered(data: bytes, first: int, last: int, limit: int) -> str:
    """Lines with their numbers. Stops once there is more than `limit` characters: nobody will see the rest."""
    parts: list[str] = []
    length = 0
    for number, line in enumerate(islice(_lines(data, first), last - first + 1), first):
        text = f"{number:6d}\t{line[: 4 * limit + 4].decode('utf-8', 'replace')}"
        parts.append(text)
        length += len(text)
        if length > limit:
            break
    return "".join(parts)


def _lines(data: bytes, first: int) -> Iterator[bytes]:
    """Lines with their own endings, from the line with number `first` on."""
    at = 0
    for _ in range(first - 1):
        at = data.index(b"\n", at) + 1
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        yield data[at:end]
        at = end


# --- writing ------------------------------------------------------------------------------------


async def write_file(ctx: ToolContext, path: str, content: str) -> str:
    return await in_thread(lambda: _write(ctx.paths, path, content))


def _write(paths: PathGuard, path: str, content: str) -> str:
    data = content.encode()
    with paths.changing(path):
        require_writable(paths, path)
        return f"Wrote {len(data)} bytes to {paths.replace(path, data)}"


async def edit_file(ctx: ToolContext, path: str, old_string: str, new_string: str) -> str:
    return await in_thread(lambda: _edit(ctx.paths, path, old_string, new_string))


def _edit(paths: PathGuard, path: str, old: str, new: str) -> str:
    with paths.changing(path):  # edits of one step run side by side: each must see what the others wrote
        return _edit_alone(paths, path, old, new)


def _edit_alone(paths: PathGuard, path: str, old: str, new: str) -> str:
    name = paths.resolve(path)
    with paths.open_read(path) as file:
        seen = version_of(os.fstat(file.fileno()))
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{name} is larger than {MAX_FILE_BYTES:,} bytes: too large to edit")
    data = edited(data.decode(), old, new, name).encode()
    require_writable(paths, path)
    if version_of(os.stat(name)) != seen:  # by a command that runs beside us: its work would be lost
        raise ValueError(f"{name} was changed by somebody else during the edit: read it again")
    paths.replace(path, data)
    return f"Edited {name}: replaced 1 occurrence"


def edited(text: str, old: str, new: str, name: str) -> str:
    """The text with the one place of `old` replaced; line ends stay as they are. Raises `ValueError`."""
    crlf = "\r\n" in text
    if crlf:
        text, old, new = (each.replace("\r\n", "\n") for each in (text, old, new))
    _require_one(text, old, name)
    text = text.replace(old, new)
    return text.replace("\n", "\r\n") if crlf else text


def version_of(status: os.stat_result) -> tuple[int, ...]:
    """What tells whether a file is still the same, and as it was."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def require_writable(paths: PathGuard, path: str) -> None:
    """A file is replaced by a new one, which would step around the write protection of the old one."""
    if paths.check(path, write=True) is not None:
        return  # `replace` says why
    name = paths.resolve(path)
    with suppress(FileNotFoundError):
        mode = os.stat(name, follow_symlinks=False).st_mode
        if stat.S_ISREG(mode) and not (mode & 0o222 and os.access(name, os.W_OK)):
            raise PermissionError(f"{name} is write-protected")


def _require_one(text: str, old: str, name: str) -> None:
    count = text.count(old)
    if count == 1 and text.find(old, text.find(old) + 1) > 0:
        count = 2  # places that overlap count once for `count`
    if count == 0:
        raise ValueError(f"old_string not found in {name}")
    if count > 1:
        raise ValueError(f"old_string found {count} times in {name} — must be unique")
    if not old:
        raise ValueError(f"old_string is empty and {name} as well: use write_file")


# --- listing ------------------------------------------------------------------------------------


async def list_directory(ctx: ToolContext, path: str = ".") -> str:
    return await in_thread(lambda: _list(ctx.paths, path))


def _list(paths: PathGuard, path: str) -> str:
    with paths.open_folder(path) as folder, os.scandir(folder) as entries:
        found = [line for one in islice(entries, MAX_ENTRIES) for line in _entry(one)]
        more = sum(1 for _ in entries)
    header = f"Contents of {paths.resolve(path)}:\n\n"
    if not found:
        return header + "(empty directory)"
    lines = [text for _, _, text in sorted(found)]
    return header + "\n".join([*lines, f"... ({more} more entries)"] if more else lines)


def _entry(entry: os.DirEntry[str]) -> Iterator[tuple[bool, str, str]]:
    """How it sorts, and its line; nothing for what has gone since the folder was read."""
    name = visible(entry.name).replace("\n", "\\n")
    with suppress(FileNotFoundError):
        if _is_folder(entry):
            yield False, entry.name.lower(), f"d {name}"
        else:
            yield True, entry.name.lower(), f"f {name}  ({entry.stat(follow_symlinks=False).st_size} bytes)"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in a ring
        return False


# --- what the model is told ---------------------------------------------------------------------


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description, "default": 0}


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_PATH = "Path of the file, absolute or relative to the working folder"

FILE_TOOLS = {
    spec.name: spec
    for spec in (
        ToolSpec(
            name="read_file",
            description=(
                "Read a file with numbered lines. Files of more than 500 lines give a preview: "
                "read a section of them with start_line and end_line."
            ),
            input_schema=_object(
                ["path"],
                path=_text(_PATH),
                start_line=_number("First line to read, counted from 1; 0 is the start"),
                end_line=_number("Last line to read, inclusive; 0 is the end of the file"),
            ),
            side_effects=(SideEffect.READ,),
            prompt_snippet="Read file contents (supports line ranges; large files return a preview)",
            handler=read_file,
        ),
        ToolSpec(
            name="write_file",
            description="Create or overwrite a file with the given content. Missing folders are created.",
            input_schema=_object(["path", "content"], path=_text(_PATH), content=_text("The whole new content")),
            side_effects=(SideEffect.WRITE,),
            prompt_snippet="Create or overwrite a file",
            handler=write_file,
        ),
        ToolSpec(
            name="edit_file",
            description=(
                "Replace one exact piece of text in a file. old_string must occur exactly once: "
                "include enough of the lines around it."
            ),
            input_schema=_object(
                ["path", "old_string", "new_string"],
                path=_text(_PATH),
                old_string=_text("The exact text to replace, with its indentation"),
                new_string=_text("The text to put in its place"),
            ),
            side_effects=(SideEffect.WRITE,),
            prompt_snippet="Replace an exact unique string in a file",
            handler=edit_file,
        ),
        ToolSpec(
            name="list_directory",
            description="List a folder: subfolders first, then files with their sizes.",
            input_schema=_object([], path={**_text("The folder (default: the working folder)"), "default": "."}),
            side_effects=(SideEffect.READ,),
            prompt_snippet="List files and directories at a path",
            handler=list_directory,
        ),
    )
}
