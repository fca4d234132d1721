"""Matches a regular expression against lines of files, in a process of its own.

`re` holds the interpreter while it matches and cannot be interrupted, so a bad pattern may hang: this process
can be killed. It is started as a script without site packages and knows nothing of the rest of the program.

Standard input: one JSON object with `pattern`, `case_sensitive`, `max_results`, `max_line`, `max_bytes` and `files`,
a list of [name to show, path]; a path is absolute, free of links, and its bytes are decoded as latin-1.
Standard output: one JSON object with `total` and `lines`, or with `error`.
"""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import sys

TYPE_CHECKING = False  # importing `typing` would take longer than many a search
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MEMORY_BYTES = 1 << 30
CPU_SECONDS = 120
HAS_PROC = os.path.isdir("/proc/self/fd")


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    order = json.load(sys.stdin)
    try:
        pattern = re.compile(order["pattern"], 0 if order["case_sensitive"] else re.IGNORECASE)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        answer = {"error": str(error) or type(error).__name__}
    else:
        answer = search(pattern, order)
    json.dump(answer, sys.stdout)


def search(pattern: re.Pattern[str], order: dict[str, Any]) -> dict[str, Any]:
    total = 0
    found: list[str] = []
    for name, path in order["files"]:
        for number, line in lines_of(path.encode("latin-1"), order["max_bytes"]):
            if pattern.search(line):
                total += 1
                if len(found) < order["max_results"]:
                    found.append(f"{name}:{number}: {clip(line.rstrip(), order['max_line'])}")
    return {"total": total, "lines": found}


def lines_of(path: bytes, max_bytes: int) -> Iterator[tuple[int, str]]:
    """Numbered lines without their endings."""
    lines = (read(path, max_bytes) or "").split("\n")
    if not lines[-1]:
        lines.pop()
    return ((number, line[:-1] if line.endswith("\r") else line) for number, line in enumerate(lines, 1))


def clip(line: str, limit: int) -> str:
    return line if len(line) <= limit else line[:limit] + "…"


def read(path: bytes, max_bytes: int) -> str | None:
    """The text of a regular file that still is where it was found; `None` for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        real = os.readlink(b"/proc/self/fd/%d" % descriptor) if HAS_PROC else os.path.realpath(path)
        if real != path or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            data = file.read(max_bytes + 1)
        except OSError:
            return None
    if len(data) > max_bytes or b"\0" in data[:8192]:
        return None
    return data.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
