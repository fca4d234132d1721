"""Shell-style patterns over whole paths: `*` and `**` match any characters, the slash included."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from posixpath import normpath

__all__ = ["PatternSet", "base_folder", "deny_forms", "escape", "expand", "is_fixed", "matches", "unescaped"]

_MAGIC = re.compile(r"[*?\[]")


def matches(pattern: str, path: str) -> bool:
    """Does the whole normalised path fit the pattern? `?` is one character, `[...]` a class; case counts."""
    return _compiled((pattern,), 0).match(path) is not None


def escape(path: str) -> str:
    """A pattern that fits exactly this path: names such as `app/[id]` are no patterns."""
    return _MAGIC.sub(r"[\g<0>]", path)


def base_folder(pattern: str) -> str | None:
    """`/p` for the pattern `/p/**`, which does not fit `/p` itself; else `None`."""
    return pattern[:-3] or "/" if pattern.endswith("/**") else None


def is_fixed(pattern: str) -> bool:
    """Does the pattern name one place, or all below one?"""
    place = base_folder(pattern) or pattern
    return _MAGIC.search(re.sub(r"\[[*?\[]\]", "", place)) is None


class PatternSet:
    """Several patterns asked at once."""

    def __init__(self, patterns: Iterable[str], *, fold: bool = False) -> None:
        """With `fold`, case does not count: deny rules must hold on file systems where it does not either."""
        self.patterns = tuple(dict.fromkeys(patterns))
        self._flags = re.IGNORECASE if fold else 0
        self._bases = frozenset(unescaped(base) for base in map(base_folder, self.patterns) if base is not None)

    def match(self, path: str) -> bool:
        return bool(self.patterns) and _compiled(self.patterns, self._flags).match(path) is not None

    def match_or_base(self, path: str) -> bool:
        """As `match`, and the folder `/p` of a pattern `/p/**` counts too."""
        return self.match(path) or path in self._bases

    def first(self, path: str) -> str | None:
        """The first pattern that fits, or `None`."""
        if not self.match(path):
            return None
        return next(one for one in self.patterns if _compiled((one,), self._flags).match(path))


def unescaped(pattern: str) -> str:
    """The path that `escape` made this pattern from."""
    return re.sub(r"\[([*?\[])\]", r"\1", pattern)


def expand(pattern: str, cwd: str, real_cwd: str) -> list[str]:
    """Absolute forms of a pattern from the settings: as spelled and with links in its fixed start resolved.

    `<cwd>` is the session's folder, `~/` the user's home, and a pattern that starts with a name, `./` or `../`
    is relative to the session's folder. Below the session's folder nothing is resolved, because what runs
    there could point a link elsewhere.
    """
    if pattern.startswith("<cwd>"):
        return _below(pattern[len("<cwd>") :], cwd, real_cwd)
    if pattern == "~" or pattern.startswith("~/"):
        pattern = escape(os.path.expanduser("~")) + pattern[1:]
    if pattern[:1] not in ("", "/", "\\", "*", "?", "[") and pattern[1:2] != ":":
        return [normpath(form) for form in _below("/" + pattern, cwd, real_cwd)]
    for folder in {cwd, real_cwd}:
        if pattern == escape(folder) or pattern.startswith(escape(folder).rstrip("/") + "/"):
            return _below(pattern[len(escape(folder).rstrip("/")) :], cwd, real_cwd)
    return [pattern, _with_real_start(pattern)] if pattern.startswith("/") else [pattern]


def deny_forms(patterns: Iterable[str]) -> list[str]:
    """The patterns without slashes at their end, and those that end with a plain name also for all below it."""
    forms: list[str] = []
    for pattern in patterns:
        bare = pattern.rstrip("/") or pattern
        is_folder = bare != pattern or _MAGIC.search(bare.rpartition("/")[2]) is None
        forms += [bare, bare.rstrip("/") + "/**"] if is_folder else [bare]
    return forms


def _below(rest: str, cwd: str, real_cwd: str) -> list[str]:
    return [escape(cwd).rstrip("/") + rest, escape(real_cwd).rstrip("/") + rest]


def _with_real_start(pattern: str) -> str:
    magic = _MAGIC.search(pattern)
    if magic is None:
        return escape(os.path.realpath(pattern))
    start = pattern.rfind("/", 0, magic.start())
    return escape(os.path.realpath(pattern[:start] or "/")).rstrip("/") + pattern[start:]


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...], flags: int) -> re.Pattern[str]:
    # `fnmatch.translate` writes atomic groups, so even a hostile pattern matches in bounded time.
    return re.compile("|".join(fnmatch.translate(one) for one in patterns), flags)
