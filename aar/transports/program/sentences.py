"""Errors in the words of the person at the terminal.

The texts that sessions keep name Python classes, because programs compare them. People read the same without.
"""

from __future__ import annotations

import errno
import re

from aar.errors import AarError, ActorError, ClientGone, WouldDeadlock

__all__ = ["for_people", "sentence"]

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
