"""What is printed while the screen is taken goes to the log: an extension's `print` must not write over the chat."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator

__all__ = ["keep_printed"]

LONGEST = 2_000
"""Characters of a line that are kept."""


class _Printed(io.TextIOBase):
    """A stream of text. Whole lines become records of the log."""

    def __init__(self, name: str) -> None:
        self._log = logging.getLogger(f"aar.{name}")
        self._line = ""
        self._is_telling = False  # a log without handlers writes to standard error, which is here

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *lines, rest = f"{self._line}{text}".split("\n")
        self._line = rest[:LONGEST]
        if not self._is_telling:
            self._is_telling = True
            try:
                self._tell(lines)
            finally:
                self._is_telling = False
        return len(text)

    def _tell(self, lines: list[str]) -> None:
        for line in lines:
            if line.strip():
                self._log.warning("%s", line[:LONGEST])


@contextlib.contextmanager
def keep_printed() -> Iterator[None]:
    """Inside this block `sys.stdout` and `sys.stderr` are no terminal. The descriptors are as they were."""
    with contextlib.redirect_stdout(_Printed("stdout")), contextlib.redirect_stderr(_Printed("stderr")):
        yield
