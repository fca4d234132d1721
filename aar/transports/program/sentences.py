"""Errors, and what tools do, in the words of the person at the terminal.

The texts that sessions keep name Python classes, because programs compare them. People read the same without.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from aar.display import plain
from aar.errors import AarError, ActorError, ClientGone, WouldDeadlock

if TYPE_CHECKING:
    from aar.messages.events import ErrorEvent, ToolCall

__all__ = ["BADGES", "badges", "cut", "for_people", "sentence", "told_error"]

BADGES = {"read": "read", "write": "write", "execute": "exec", "network": "net", "external": "ext"}
"""Effects that a tool declares, and how they are called in short."""

_CLASS_FIRST = re.compile(r"\AProvider error \(\w+\): (?=\S)")
_CLASS_INSIDE = re.compile(r"(?<=\AProvider returned an unexpected response) \(\w+\)(?=\.)")
_ADVICE = {
    errno.EACCES: ". Allow this user to use it, or name another place (AAR_HOME moves ~/.aar).",
    errno.EROFS: ". Name a place that can be written (AAR_HOME moves ~/.aar).",
    errno.ENOTDIR: ". A folder is needed there: move the file away, or name another place (AAR_HOME moves ~/.aar).",
    errno.ENOSPC: ". Free some space, then try again.",
    errno.EMFILE: ". Close some programs, or raise the limit (`ulimit -n`).",
}
_KEPT = "What was said until then is kept: `aar chat --continue` goes on with it."


def for_people(message: str) -> str:
    """The message of an error event or of a notice, without the names of Python classes."""
    return _CLASS_INSIDE.sub("", _CLASS_FIRST.sub("", message))


def sentence(error: BaseException) -> str:
    """What happened and what to do next; empty for what the user knows already."""
    match error:
        case ClientGone() | BrokenPipeError():
            return ""
        case ActorError() if not isinstance(error, WouldDeadlock):
            return f"A part of Aar stopped working ({error}). {_KEPT} Please report it if it happens again."
        case AarError():
            return for_people(str(error)) or f"It failed and did not say why ({type(error).__name__})."
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}{_ADVICE.get(error.errno or 0, '')}"
        case _:
            text = f"internal error ({type(error).__name__}): {error}."
            return f"{text} Please report it; with --log-level debug the log says where."


def told_error(error: ErrorEvent, again: str) -> str:
    """What went wrong; what the server or the system said of it, where that says more; and whether to try again."""
    detail = str(error.data.get("detail") or "")
    message = for_people(error.message)
    said = [detail] if message in detail else [message, detail if detail not in message else ""]
    lines = [*said, again if error.recoverable else ""]
    return "\n".join(plain(line) for line in lines if line)


def badges(call: ToolCall) -> str:
    """`[read][write]` for the effects that the tool declares."""
    effects = call.data.get("side_effects", [])
    return "".join(f"[{BADGES[str(effect)]}]" for effect in effects if str(effect) in BADGES)


def cut(text: str, limit: int, mark: str) -> str:
    """The first `limit` characters, and a mark when there were more."""
    return text if len(text) <= limit else text[:limit] + mark
