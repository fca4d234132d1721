"""Untrusted text for people: made visible where they decide, made harmless where they only read."""

from __future__ import annotations

import re

__all__ = ["one_line", "plain", "plain_json", "visible"]

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_SURROGATES = "\ud800-\udfff"
_UNSEEN = (  # nothing, or a blank, stands where these are
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)

# Patterns are text until they are needed: compiling them takes longer than the rest of an import.
_HIDDEN = f"[{_CONTROLS}{_BIDI}{_SURROGATES}{_UNSEEN}]"
_ANSI = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC and its kin, only when they end on this line
    r"|\x1b[ -/]*[0-Z\\^-~]"  # two or three bytes: character sets, save, restore
)
_LOOSE = f"[{_CONTROLS}{_BIDI}]"
_LONE = f"[{_SURROGATES}]"


def visible(text: str) -> str:
    """The text with every character that hides or reorders others written as an escape such as `\\x1b` or `\\u202e`.

    Newlines and tabs stay. For questions that a person has to answer.
    """
    return re.sub(_HIDDEN, _escaped, text)


def one_line(text: str) -> str:
    """As `visible`, with newlines and tabs as escapes, too: what must not look like a line of ours."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def plain(text: str) -> str:
    """The text without escape sequences, C0 (newline and tab stay), C1 and bidirectional controls.

    A carriage return becomes a line end, so that no later text can overwrite what was shown.
    """
    without = re.sub(_ANSI, "", text).replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(_LONE, "\ufffd", re.sub(_LOOSE, "", without))


def plain_json(text: str) -> str:
    """The same JSON with every character that `visible` would escape written as JSON escapes it (`\\u009b`)."""
    return re.sub(_HIDDEN, _escaped_for_json, text)


def _escaped_for_json(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code == 0x0D:
        return "\\r"
    if code < 0x100:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
