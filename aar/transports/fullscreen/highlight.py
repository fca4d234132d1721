"""Code in colours, as far as Pygments, which Rich brings along, knows its language."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped, unused-ignore]

__all__ = ["PLAIN", "Runs", "highlighted", "language_of", "load"]

Runs = list[tuple[str | None, str]]
PLAIN = "md.code"
PATIENCE = 0.1
"""Seconds for the colours of one piece of code, while which nothing else goes on."""

_STYLES = {  # the kinds of Pygments by the beginning of their names, the first that fits
    "Token.Comment": "code.comment",
    "Token.Keyword": "code.keyword",
    "Token.Operator.Word": "code.keyword",
    "Token.Literal.String": "code.string",
    "Token.Literal.Number": "code.number",
    "Token.Name.Function": "code.name",
    "Token.Name.Class": "code.name",
    "Token.Name.Decorator": "code.name",
    "Token.Name.Builtin": "code.name",
    "Token.Name.Tag": "code.keyword",
    "Token.Generic.Inserted": "code.string",
    "Token.Generic.Deleted": "code.keyword",
}


def load() -> None:
    """Import what this and Markdown need. Takes a tenth of a second, so do it in a thread before it is wanted."""
    import markdown_it
    import pygments.lexers  # type: ignore[import-untyped, unused-ignore]

    del markdown_it, pygments
    _lexer("python")


def highlighted(code: str, language: str) -> Runs:
    """The same text in pieces with styles; one piece where the language is not known."""
    lexer = _lexer(language.lower()) if language.isascii() and len(language) < 30 else None
    if lexer is None or not code:
        return [(PLAIN, code)]
    try:
        runs = _runs(lexer, code)
    except Exception:  # a lexer of hundreds that others wrote, on text that a model made up: its end is not ours
        return [(PLAIN, code)]
    if "".join(text for _, text in runs) != code:  # one that changes what it reads, or takes too long
        return [(PLAIN, code)]
    return runs


def _runs(lexer: Lexer, code: str) -> Runs:
    runs: Runs = []
    deadline = time.monotonic() + PATIENCE
    for kind, text in lexer.get_tokens(code):
        if time.monotonic() > deadline:
            break
        style = _style_of(str(kind))
        if runs and runs[-1][0] == style:
            runs[-1] = (style, runs[-1][1] + text)
        else:
            runs.append((style, text))
    return runs


def language_of(path: str) -> str:
    """The language of a file by its name, as `highlighted` takes it; empty where there is none."""
    from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped, unused-ignore]

    found = find_lexer_class_for_filename(path.rpartition("/")[2][-100:])
    return str(found.aliases[0]) if found is not None and found.aliases else ""


@cache
def _style_of(kind: str) -> str:
    return next((style for start, style in _STYLES.items() if kind.startswith(start)), PLAIN)


@cache
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped, unused-ignore]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped, unused-ignore]

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
