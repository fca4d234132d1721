"""Cutting known secrets out of a text, whole or cut short."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["MASK", "without_secrets"]

MASK = "[redacted]"

_SHOWN = 8  # characters: what is no longer than this tells little of a key


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """`text` with `MASK` in place of each secret, and of every piece of more than 8 characters that one starts with.

    A server's answer or a line of a log may be cut in the middle of a key.
    """
    for secret in sorted(secrets, key=len, reverse=True):  # a long one may hold a short one
        if secret:
            text = text.replace(secret, MASK)
        if len(secret) > _SHOWN + 1:
            text = _without_start(text, secret)
    return text


def _without_start(text: str, secret: str) -> str:
    parts: list[str] = []
    start = secret[: _SHOWN + 1]
    at = 0
    while (found := text.find(start, at)) >= 0:
        parts += (text[at:found], MASK)
        at = found + len(start)
        while at < len(text) and at - found < len(secret) and text[at] == secret[at - found]:
            at += 1
    return "".join([*parts, text[at:]])
