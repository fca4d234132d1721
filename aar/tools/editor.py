"""Tools that work through an editor: files as they stand in its buffers, and commands in its terminals.

What the editor can do is behind two protocols, so that no tool knows how it is reached.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

import trio

from aar.errors import AarError, ToolError
from aar.messages.tools import SideEffect
from aar.safety.opening import open_folder
from aar.safety.paths import PathGuard
from aar.tools.files import FILE_TOOLS, edit_file, edited, read_file, require_writable, shown_lines
from aar.tools.noted_files import spelled_path, text_before
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.threads import in_thread

__all__ = ["EditorFiles", "EditorTerminals", "TerminalExit", "TerminalOutput", "editor_file_tools", "terminal_tool"]

READING_TIMEOUT = 10.0  # seconds an editor may take for a file; then the disk is read
WRITING_TIMEOUT = 60.0  # seconds an editor may take to write a file; it may ask its user
ENDING_TIMEOUT = 0.2  # seconds that each of kill and release may hold up a call that is left


class EditorFiles(Protocol):
    """Both raise `AarError` when the editor refuses. Paths are absolute."""

    async def read(self, ctx: ToolContext, path: str) -> str:
        """The text of a file with what is not saved yet."""

    async def write(self, ctx: ToolContext, path: str, text: str, old: str | None) -> None:
        """Replace a file. `old` is what it was, for showing the change; `None` where that is not known."""


class TerminalExit(NamedTuple):
    code: int | None = None
    signal: str | None = None


class TerminalOutput(NamedTuple):
    text: str = ""
    is_truncated: bool = False
    exit: TerminalExit | None = None


class EditorTerminals(Protocol):
    """Every method raises `AarError` when the editor refuses."""

    async def create(
        self, ctx: ToolContext, command: str, args: Sequence[str], cwd: str, env: dict[str, str], limit: int
    ) -> str:
        """Start a command in a terminal that the user sees; `limit` bytes of its output are kept. Gives its id."""

    async def wait(self, ctx: ToolContext, terminal_id: str) -> TerminalExit: ...
    async def output(self, ctx: ToolContext, terminal_id: str) -> TerminalOutput: ...
    async def kill(self, ctx: ToolContext, terminal_id: str) -> None: ...
    async def release(self, ctx: ToolContext, terminal_id: str) -> None: ...


# --- files --------------------------------------------------------------------------------------


def editor_file_tools(editor: EditorFiles, *, reads: bool, writes: bool) -> list[ToolSpec]:
    """read_file, write_file and edit_file as far as the editor takes part. Models see no difference."""
    tools: list[ToolSpec] = []
    if reads:
        tools.append(_reading(editor))
    if writes:
        tools += [_writing(editor), _editing(editor, reads=reads)]
    return tools


def _reading(editor: EditorFiles) -> ToolSpec:
    async def read(ctx: ToolContext, path: str, start_line: int = 0, end_line: int = 0) -> str:
        text = await _text_of(editor, ctx, path)
        if text is None:
            return await read_file(ctx, path, start_line, end_line)
        limit = ctx.config.max_output_chars
        return shown_lines(text.encode(), ctx.paths.resolve(path), int(start_line), int(end_line), limit)

    return replace(FILE_TOOLS["read_file"], handler=read)


def _writing(editor: EditorFiles) -> ToolSpec:
    async def write(ctx: ToolContext, path: str, content: str) -> str:
        await _write(editor, ctx, path, content, await text_before(ctx, path))
        return f"Wrote {len(content.encode())} bytes to {ctx.paths.resolve(path)}"

    return replace(FILE_TOOLS["write_file"], handler=write, execution="sequential")


def _editing(editor: EditorFiles, *, reads: bool) -> ToolSpec:
    async def edit(ctx: ToolContext, path: str, old_string: str, new_string: str) -> str:
        text = await _text_of(editor, ctx, path) if reads else None
        if text is None:
            return await edit_file(ctx, path, old_string, new_string)
        name = ctx.paths.resolve(path)
        await _write(editor, ctx, path, edited(text, old_string, new_string, name), text)
        return f"Edited {name}: replaced 1 occurrence"

    # One after another: each must see what the one before it wrote.
    return replace(FILE_TOOLS["edit_file"], handler=edit, execution="sequential")


async def _text_of(editor: EditorFiles, ctx: ToolContext, path: str) -> str | None:
    """What the editor says is in the file; `None` when the disk has to say it. Raises what opening it raises."""
    is_empty = await in_thread(lambda: _is_empty(ctx.paths, path))
    with trio.move_on_after(READING_TIMEOUT):
        try:
            text = await editor.read(ctx, spelled_path(ctx, path))
        except AarError:
            return None
        return text if text or is_empty else None  # some editors give an empty text for what they cannot read
    return None


def _is_empty(paths: PathGuard, path: str) -> bool:
    """Whether there is nothing in this file. Raises `FileNotFoundError`, and `ToolError` where it may not be read."""
    with paths.open_read(path) as file:
        return not os.fstat(file.fileno()).st_size


async def _write(editor: EditorFiles, ctx: ToolContext, path: str, text: str, old: str | None) -> None:
    await in_thread(lambda: _make_room(ctx.paths, path))
    with trio.move_on_after(WRITING_TIMEOUT) as limit:
        await editor.write(ctx, spelled_path(ctx, path), text, old)
    if limit.cancelled_caught:
        raise ToolError("exception", f"the editor did not write {path} within {WRITING_TIMEOUT:g} s")


def _make_room(paths: PathGuard, path: str) -> None:
    """Check that the file may be written, and make the folders above it: not every editor does."""
    target = paths.resolve(path)
    reason = paths.check(path, write=True) or paths.check(target, write=True)
    if reason is not None:
        raise ToolError("blocked", f"blocked by safety policy: {reason}")
    require_writable(paths, path)
    with open_folder(os.path.dirname(target), create=True):
        pass


# --- terminals ----------------------------------------------------------------------------------

DEFAULT_TIMEOUT = 60


def terminal_tool(terminals: EditorTerminals) -> ToolSpec:
    """`acp_terminal`: a command in a terminal of the editor, where the user can watch it."""

    async def acp_terminal(
        ctx: ToolContext,
        command: str,
        args: Sequence[str] = (),
        cwd: str = "",
        env: dict[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> str:
        folder = os.path.join(ctx.cwd, cwd) if cwd else ctx.cwd
        limit = ctx.config.max_output_chars
        terminal = await terminals.create(ctx, command, list(args), folder, env or {}, limit)
        try:
            return await _watched(terminals, ctx, terminal, timeout)
        except (trio.Cancelled, AarError):  # the latter: an editor that cannot say when it ends, or has left
            with trio.move_on_after(ENDING_TIMEOUT, shield=True):
                await _kill(terminals, ctx, terminal)
            raise
        finally:
            with trio.move_on_after(ENDING_TIMEOUT, shield=True):
                await _release(terminals, ctx, terminal)

    return ToolSpec(
        name="acp_terminal",
        description=(
            "Run a command in a terminal of the user's editor, where the user can watch it, and return its output. "
            f"It is stopped after {DEFAULT_TIMEOUT} seconds unless timeout says otherwise."
        ),
        input_schema=_TERMINAL_SCHEMA,
        side_effects=(SideEffect.EXECUTE,),
        prompt_snippet="Run a command in a terminal of the editor",
        handler=acp_terminal,
    )


_TERMINAL_SCHEMA = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The program to run"},
        "args": {"type": "array", "items": {"type": "string"}, "description": "Its arguments", "default": []},
        "cwd": {"type": "string", "description": "The folder to run it in (default: the working folder)"},
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Environment variables to add",
        },
        "timeout": {
            "type": "number",
            "description": f"Seconds (default {DEFAULT_TIMEOUT}); 0 is no limit of its own",
            "default": DEFAULT_TIMEOUT,
        },
    },
    "required": ["command"],
}


async def _watched(terminals: EditorTerminals, ctx: ToolContext, terminal: str, timeout: float) -> str:
    """Wait for the command's end, or make one, and say what it wrote and how it ended."""
    ended: TerminalExit | None = None
    with trio.move_on_after(timeout if timeout > 0 else float("inf")):
        ended = await terminals.wait(ctx, terminal)
    if ended is None:
        await _kill(terminals, ctx, terminal)
    said = await terminals.output(ctx, terminal)
    text = said.text + ("\n[output truncated]" if said.is_truncated else "")
    if ended is None:
        return f"{text}\n[error: terminal command timed out after {timeout:g}s]"
    if ended.code is None and ended.signal is None and said.exit is not None:
        ended = said.exit
    if ended.code:
        return f"{text}\n[exit code: {ended.code}]"
    return f"{text}\n[terminated by signal: {ended.signal}]" if ended.signal else text


async def _kill(terminals: EditorTerminals, ctx: ToolContext, terminal: str) -> None:
    with suppress(AarError):  # it has ended by itself, or the editor cannot: it is released in any case
        await terminals.kill(ctx, terminal)


async def _release(terminals: EditorTerminals, ctx: ToolContext, terminal: str) -> None:
    with suppress(AarError):
        await terminals.release(ctx, terminal)
