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
    from typing import Any

MEMORY_BYTES = 1 << 30
CPU_SECONDS = 120
TOKEN = re.compile(r"(?s)\\x..|\\u.{4}|\\U.{8}|\\N\{[^}]*\}|\\\d+|\\.|\{[^}]*\}|[^\\]")
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
    needle = needed_text(order["pattern"])
    for name, path in order["files"]:
        data = read(path.encode("latin-1"), order["max_bytes"])
        if not may_match(data, needle, order["case_sensitive"]):
            continue
        lines = lines_of(data)
        hits = [at for at, line in enumerate(lines) if pattern.search(line)]
        total += len(hits)
        for at in hits[: order["max_results"] - len(found)]:
            found.append(f"{name}:{at + 1}: {clip(lines[at].rstrip(), order['max_line'])}")
    return {"total": total, "lines": found}


def lines_of(data: bytes) -> list[str]:
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def needed_text(pattern: str) -> bytes:
    """ASCII that every match must contain, or nothing: files without it need not be taken apart."""
    if re.search(r"[|()\[\]]|[^\x00-\x7f]", pattern):
        return b""
    runs = [""]
    for token in TOKEN.findall(pattern):
        if token[0] in "*?{":
            runs[-1] = runs[-1][:-1]  # what stands before it may be absent
        literal = token[-1] if token[0] != "\\" or not token[1].isalnum() else ""
        if token[0] in ".^$*+?{" or not literal:
            runs.append("")
        else:
            runs[-1] += literal
    return max(runs, key=len).encode()


def may_match(data: bytes, needle: bytes, case_sensitive: bool) -> bool:
    if case_sensitive:
        return needle in data
    # Some letters beyond ASCII equal ASCII ones when case does not count.
    return not data.isascii() or needle.lower() in data.lower()


def clip(line: str, limit: int) -> str:
    return line if len(line) <= limit else line[:limit] + "…"


def read(path: bytes, max_bytes: int) -> bytes:
    """The content of a regular text file that still is where it was found; nothing for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        real = os.readlink(b"/proc/self/fd/%d" % descriptor) if HAS_PROC else os.path.realpath(path)
        if real != path or not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return b""
        data = os.read(descriptor, status.st_size)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return b"" if b"\0" in data[:8192] else data


if __name__ == "__main__":
    main()
