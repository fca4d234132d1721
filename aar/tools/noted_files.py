"""write_file and edit_file that also say what they changed: for transports that show changes to people."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from posixpath import normpath

from aar.errors import ToolError
from aar.tools.files import FILE_TOOLS, edit_file, edited, write_file
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.threads import in_thread

__all__ = ["Note", "LARGEST_NOTE", "noted_file_tools", "spelled_path", "text_before"]

LARGEST_NOTE = 512 * 1024
"""Bytes of a file that is still told about."""

Note = Callable[[ToolContext, str, str | None, str], None]
"""Called with the path as people know it, what the file was (`None`: there was none that could be told), what it is."""


def noted_file_tools(note: Note) -> list[ToolSpec]:
    """The two tools that change files. `note` is called after each change, before its result is known to anybody."""

    async def write(ctx: ToolContext, path: str, content: str) -> str:
        before = await text_before(ctx, path)
        done = await write_file(ctx, path, content)
        note(ctx, spelled_path(ctx, path), before, content)
        return done

    async def edit(ctx: ToolContext, path: str, old_string: str, new_string: str) -> str:
        before = await text_before(ctx, path)
        done = await edit_file(ctx, path, old_string, new_string)
        if before is not None and before.count(old_string) == 1:
            note(ctx, spelled_path(ctx, path), before, edited(before, old_string, new_string, path))
        return done

    return [replace(FILE_TOOLS["write_file"], handler=write), replace(FILE_TOOLS["edit_file"], handler=edit)]


async def text_before(ctx: ToolContext, path: str) -> str | None:
    """The text of a file before it is changed; `None` for none, one that may not be read, is too large, or no text."""

    def read() -> str | None:
        try:
            with ctx.paths.open_read(path) as file:
                data = file.read(LARGEST_NOTE + 1)
            return data.decode() if len(data) <= LARGEST_NOTE else None
        except (OSError, ValueError, ToolError):
            return None

    return await in_thread(read)


def spelled_path(ctx: ToolContext, path: str) -> str:
    """Absolute, as people see it: with links that lead into the project, unless that would name another file."""
    spelled = normpath(os.path.join(ctx.cwd, path))
    resolved = ctx.paths.resolve(path)
    return spelled if os.path.realpath(spelled) == resolved else resolved
