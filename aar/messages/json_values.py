"""How many values a piece of JSON has, found out before it is read: reading millions would stop everything else.

A thread is no way out: the parser does not let go of the interpreter before it is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["ENDS", "counts", "id_at_the_ends", "values"]

ENDS = 256  # bytes at both ends of a message in which its id is looked for

_PIECE = 16 * 1024  # bytes that are looked at in one go
_MARKS = (b",", b"{", b"[")
_ID = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")'
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST = re.compile(_ID + rb"\s*\}\s*$")


def counts(data: bytes) -> Iterator[int]:
    """The number of values so far, once every 16 KiB: commas and opening brackets outside of texts.

    That is at least the number of values, and not much more. Whoever asks leaves as soon as there are too many, and may
    let others have their turn in between.
    """
    found, is_text, rest = 0, False, b""
    for start in range(0, len(data), _PIECE):
        plain = rest + data[start : start + _PIECE]
        if b"\\" in plain:
            plain = plain.replace(b"\\\\", b"").replace(b'\\"', b"")
        rest = b"\\" if plain.endswith(b"\\") else b""  # what it escapes comes with the next piece
        parts = plain.split(b'"')
        outside = b"".join(parts[is_text::2])
        found += sum(map(outside.count, _MARKS))
        is_text ^= len(parts) % 2 == 0
        yield found


def values(data: bytes) -> int:
    """At least the number of values in a piece of JSON, and not much more."""
    return max(counts(data), default=0)


def id_at_the_ends(head: bytes, tail: bytes) -> int | str | None:
    """The id of a JSON-RPC message that begins and ends like this, where it stands at one of its ends."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if found is None:
        return None
    return found[1].decode(errors="replace").strip('"') if found[1].startswith(b'"') else int(found[1])
