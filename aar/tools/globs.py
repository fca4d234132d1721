"""Glob patterns over relative paths, matched in bounded time whatever the pattern."""

from __future__ import annotations

import fnmatch
import re

__all__ = ["Glob"]


class Glob:
    """`*` and `?` stay within one name, `**` stands for any number of folders; at the end, for all below."""

    def __init__(self, pattern: str) -> None:
        segments = [one for one in pattern.replace("\\", "/").split("/") if one not in ("", ".")]
        if pattern.startswith("/"):
            segments = ["/"]  # nothing below the working folder has an absolute path
        # A run of `**` means the same as one. `fnmatch.translate` writes atomic groups: no backtracking.
        runs = [one for at, one in enumerate(segments) if one != "**" or segments[at - 1 : at] != ["**"]]
        self._segments = [None if one == "**" else re.compile(fnmatch.translate(one)) for one in runs]
        if runs and runs[-1] == "**":
            self._segments.append(re.compile(r"(?s:.+)\Z"))

    def matches(self, path: str) -> bool:
        """Does the whole path, relative and with `/`, fit?"""
        names = path.split("/")
        at = segment = 0
        retry: tuple[int, int] | None = None
        while at < len(names):
            if segment < len(self._segments):
                wanted = self._segments[segment]
                if wanted is None:
                    segment += 1
                    retry = (segment, at)
                    continue
                if wanted.match(names[at]):
                    segment, at = segment + 1, at + 1
                    continue
            if retry is None:
                return False
            # The last `**` takes one name more; earlier ones need never be tried again.
            segment, at = retry[0], retry[1] + 1
            retry = (segment, at)
        return all(one is None for one in self._segments[segment:])
