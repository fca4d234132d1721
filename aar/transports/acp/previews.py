"""The whole of a file before and after a change that a call asks for: what people want to see when they are asked."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

import trio

from aar.messages.events import ToolCall
from aar.transports.acp.tool_views import LARGEST_DIFF, Change, proposed_change

__all__ = ["whole_change"]

READING_TIMEOUT = 0.5  # seconds; a file on a disk that does not answer is shown as the call describes it


async def whole_change(
    call: ToolCall, cwd: str, forbidden: Callable[[str], str | None], threads: trio.CapacityLimiter
) -> Change | None:
    """The change that this call asks for, over the whole file where that can be read. `None`: it changes no file.

    `forbidden` says why a path may not be read.
    """
    proposed = proposed_change(call.tool_name, call.arguments, cwd)
    if proposed is None:
        return None
    with trio.move_on_after(READING_TIMEOUT):
        return await trio.to_thread.run_sync(
            _whole, call.tool_name, proposed, forbidden, abandon_on_cancel=True, limiter=threads
        )
    return proposed


def _whole(name: str, proposed: Change, forbidden: Callable[[str], str | None]) -> Change:
    if forbidden(proposed.path) is not None:
        return proposed
    try:
        text = _text_of(proposed.path)
    except (OSError, ValueError):
        return proposed
    if text is None or len(text) + len(proposed.new) > LARGEST_DIFF:
        return proposed
    if name == "write_file":  # where nobody is asked it may have been written by now; the tool says what was before
        return proposed if text == proposed.new else proposed._replace(old=text)
    old, new = (part.replace("\r\n", "\n") for part in (proposed.old or "", proposed.new))
    text = text.replace("\r\n", "\n")
    return proposed._replace(old=text, new=text.replace(old, new)) if old and text.count(old) == 1 else proposed


def _text_of(path: str) -> str | None:
    """`None` for what is no regular file, or too large to be shown. Raises `OSError`, `ValueError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_DIFF:
            return None
        return file.read(LARGEST_DIFF).decode()
