"""Copying to the clipboard of the terminal, as far as a program can: by OSC 52, which no terminal answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import NamedTuple

from aar.display import plain

__all__ = ["MOST_BYTES", "Copy", "copied"]

MOST_BYTES = 74_994
"""Of text: with more, the sequence is longer than the 100,000 bytes that terminals commonly take."""


class Copy(NamedTuple):
    """`codes` go to the terminal, and are empty when it could do nothing with them. `message` is for people."""

    codes: str
    message: str


def copied(text: str, environ: Mapping[str, str]) -> Copy:
    """What to send, and what can honestly be said about it. The text goes without escape sequences and controls."""
    text = plain(text).rstrip()
    if not text:
        return Copy("", "Nothing to copy: click a block first.")
    if reason := _why_not(environ):
        return Copy("", f"Not copied: {reason}")
    whole = text.encode("utf-8", errors="replace")
    data = whole[:MOST_BYTES]
    if len(data) < len(whole):
        data = data.decode("utf-8", errors="ignore").encode()  # no half of a character
        said = f"The first {len(data):,} of {len(whole):,} bytes were sent to the clipboard: terminals take no more"
    else:
        said = f"Sent to the clipboard: {len(text):,} character{'s' if len(text) != 1 else ''}"
    hint = "; tmux passes them on with `set -g set-clipboard on`" if environ.get("TMUX") else ""
    return Copy(f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\x07", f"{said}{hint}.")


def _why_not(environ: Mapping[str, str]) -> str:
    """Of terminals that are known to have no clipboard for programs."""
    term = environ.get("TERM", "")
    if term in ("linux", "dumb", ""):
        return "this terminal has no clipboard for programs."
    if environ.get("STY"):
        return "GNU screen does not pass it on. Select the text with the mouse and Shift."
    if environ.get("TERM_PROGRAM") == "Apple_Terminal":
        return "Terminal.app has no clipboard for programs. Select the text with the mouse and Fn."
    return ""
