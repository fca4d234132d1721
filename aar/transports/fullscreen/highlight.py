"""Code in colours, as far as Pygments, which Rich brings along, knows its language."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped, unused-ignore]

__all__ = ["PLAIN", "Runs", "highlighted", "language_of", "load"]

Runs = list[tuple[str | None, str]]
PLAIN = "md.code"

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
    runs: Runs = []
    for kind, text in lexer.get_tokens(code):
        style = _style_of(str(kind))
        if runs and runs[-1][0] == style:
            runs[-1] = (style, runs[-1][1] + text)
        else:
            runs.append((style, text))
    if "".join(text for _, text in runs) != code:  # a lexer that changes what it reads
        return [(PLAIN, code)]
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
