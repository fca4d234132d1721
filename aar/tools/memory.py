"""memory_read and memory_write: notes that a model keeps from one session to the next, in the user's own folder.

A note is a Markdown file `KEY.md`, below `memory/global` or `memory/<digest of the session's folder>`. File tools do
not reach that place, and a project brings none along.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple

from aar.errors import ToolError
from aar.messages.tools import SideEffect
from aar.safety.opening import remove_from, replace_in
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.threads import in_thread

__all__ = ["LARGEST_NOTE", "MEMORY_READ", "MEMORY_WRITE", "MOST_NOTES", "memory_read", "memory_write", "notes_folder"]

LARGEST_NOTE = 32 * 1024  # bytes
MOST_NOTES = 200  # in one scope
MOST_FOUND = 50  # lines of one search
SHOWN_CHARS = 100  # of the first line of a note, and of a line that was found
LOCK_TIMEOUT = 2.0  # seconds; others hold it for one write
LOCK_PAUSE = 0.02

SCOPES = ("project", "global")

_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def notes_folder(home: str, cwd: str, scope: str) -> str:
    """Where the notes of a scope are. A folder that is reached through a link has the notes of the real one."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(cwd))).hexdigest()[:16]
    return os.path.join(os.path.realpath(home), "memory", "global" if scope == "global" else digest)


async def memory_read(ctx: ToolContext, key: str = "", query: str = "", scope: str = "") -> str:
    scopes = (scope,) if scope else SCOPES
    if key:
        name = _checked(key)
        return await in_thread(lambda: _read(ctx, name, scopes))
    return await in_thread(lambda: _search(ctx, query, scopes) if query else _listing(ctx, scopes))


async def memory_write(ctx: ToolContext, key: str, text: str, scope: str = "project") -> str:
    name, data = _checked(key), text.encode()
    if len(data) > LARGEST_NOTE:
        raise _wrong(f"a note has {LARGEST_NOTE:,} bytes at most, and this one {len(data):,}: split it, or say less")
    if not text.strip():
        return await in_thread(lambda: _forget(ctx, name, scope))
    return await in_thread(lambda: _write(ctx, name, data, scope))


def _checked(key: str) -> str:
    """The name of a file without its ending: it leads nowhere else, and is the same on every file system."""
    name = key.strip().lower().removesuffix(".md")
    if not _KEY.fullmatch(name):
        raise _wrong("a key has up to 64 of these characters: a-z, 0-9, - and _; it begins with a letter or a digit")
    return name


def _wrong(text: str) -> ToolError:
    return ToolError("invalid_arguments", text)


# --- reading, in a thread ---------------------------------------------------------------------


class _Note(NamedTuple):
    scope: str
    key: str
    text: str
    size: int
    day: str

    @property
    def label(self) -> str:
        return f"[{self.scope}] {self.key}"


def _read(ctx: ToolContext, key: str, scopes: Sequence[str]) -> str:
    for scope in scopes:
        for note in _notes(ctx, scope, [f"{key}.md"]):
            return f"{note.label}, written {note.day}:\n\n{note.text}"
    where = " and ".join(scopes)
    raise _wrong(f"there is no note '{key}' ({where}): call memory_read without arguments to see which there are")


def _listing(ctx: ToolContext, scopes: Sequence[str]) -> str:
    lines = [
        f"{note.label} ({note.size} bytes, {note.day}): {_cut(_first_line(note.text))}"
        for scope in scopes
        for note in _notes(ctx, scope)
    ]
    return "\n".join(lines) or "There are no notes."


def _search(ctx: ToolContext, query: str, scopes: Sequence[str]) -> str:
    """Lines with these words in them, and keys; upper and lower case are the same."""
    wanted = query.casefold()
    found = [line for scope in scopes for note in _notes(ctx, scope) for line in _places(note, wanted)]
    more = [f"... ({len(found) - MOST_FOUND} more lines)"] if len(found) > MOST_FOUND else []
    return "\n".join([*found[:MOST_FOUND], *more]) or f"No note has '{query[:SHOWN_CHARS]}' in it."


def _places(note: _Note, wanted: str) -> Iterator[str]:
    if wanted in note.key:
        yield f"{note.label}: {_cut(_first_line(note.text))}"
    for number, line in enumerate(note.text.splitlines(), 1):
        if wanted in line.casefold():
            yield f"{note.label}, line {number}: {_cut(line.strip())}"


def _notes(ctx: ToolContext, scope: str, names: Sequence[str] | None = None) -> Iterator[_Note]:
    """Those with these names, or all. What is no note is passed over: people may put things there, too."""
    with suppress(FileNotFoundError), _opened(ctx, scope) as folder:
        for name in _names(folder) if names is None else names:
            with suppress(OSError), open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    yield _note(scope, name.removesuffix(".md"), file)


def _note(scope: str, key: str, file: BinaryIO) -> _Note:
    status = os.fstat(file.fileno())
    text = file.read(LARGEST_NOTE).decode("utf-8", "replace")
    if status.st_size > LARGEST_NOTE:  # people may write what they like
        text += f"\n(only the first {LARGEST_NOTE:,} of {status.st_size:,} bytes)"
    return _Note(scope, key, text, status.st_size, time.strftime("%Y-%m-%d", time.localtime(status.st_mtime)))


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(one.name for one in entries if one.name.endswith(".md") and _KEY.fullmatch(one.name[:-3]))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _cut(line: str) -> str:
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]}..."


# --- writing, in a thread ---------------------------------------------------------------------


def _write(ctx: ToolContext, key: str, data: bytes, scope: str) -> str:
    name, place = f"{key}.md", notes_folder(ctx.home, ctx.cwd, scope)
    _make_private(place)
    with _opened(ctx, scope) as folder, _locked(folder):
        known = _names(folder)
        if name not in known and len(known) >= MOST_NOTES:
            raise _wrong(
                f"there are {MOST_NOTES} notes already ({scope}): delete one, with an empty text, or add to one"
            )
        replace_in(folder, name, data)
    return f"Wrote {len(data)} bytes to {os.path.join(place, name)}"


def _forget(ctx: ToolContext, key: str, scope: str) -> str:
    try:
        with _opened(ctx, scope) as folder, _locked(folder):
            remove_from(folder, f"{key}.md")
    except FileNotFoundError as error:
        raise _wrong(f"there is no note '{key}' ({scope}), so there is none to delete") from error
    return f"Deleted the note '{key}' ({scope})."


def _make_private(place: str) -> None:
    above = os.path.dirname(place)
    os.makedirs(os.path.dirname(above), mode=0o700, exist_ok=True)
    for folder in (above, place):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)


@contextmanager
def _opened(ctx: ToolContext, scope: str) -> Iterator[int]:
    if not ctx.home:
        raise ToolError("no_handler", "there is no place for notes here")
    descriptor = os.open(notes_folder(ctx.home, ctx.cwd, scope), _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Whoever counts notes and adds one is alone. The lock goes with its holder, however that ends."""
    import fcntl

    until = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise ToolError("timeout", "another process is writing notes: try again") from None
            time.sleep(LOCK_PAUSE)
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


# --- what the model is told -------------------------------------------------------------------

_KEY_SCHEMA = {"type": "string", "description": "Name of the note, such as build-commands"}
_SCOPE = {"type": "string", "enum": list(SCOPES)}

MEMORY_READ = ToolSpec(
    name="memory_read",
    description=(
        "Read notes that were kept in earlier sessions. With a key: that note. With a query: the lines of all notes "
        "that have these words. With neither: which notes there are. A note may be out of date: check what it says."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "key": _KEY_SCHEMA,
            "query": {"type": "string", "description": "Words to look for"},
            "scope": {**_SCOPE, "description": "Look only there (default: in this project, then in the global notes)"},
        },
    },
    side_effects=(SideEffect.READ,),
    prompt_snippet="Read notes of earlier sessions",
    handler=memory_read,
)

MEMORY_WRITE = ToolSpec(
    name="memory_write",
    description=(
        "Keep a note for later sessions: what would have to be found out again, in Markdown, its gist in line one. "
        "The text takes the place of the note's old one; an empty text deletes it. No secrets."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "key": _KEY_SCHEMA,
            "text": {"type": "string", "description": f"The whole note, up to {LARGEST_NOTE // 1024} KB"},
            "scope": {
                **_SCOPE,
                "description": "For this project alone, or for all",
                "default": "project",
            },
        },
        "required": ["key", "text"],
    },
    side_effects=(SideEffect.WRITE,),
    prompt_snippet="Keep a note for later sessions",
    handler=memory_write,
    execution="sequential",  # of two calls for one note, the later one counts
)
