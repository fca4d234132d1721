"""The page for browsers: three files of this package, with headers that let it load nothing else."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAGE_PATHS", "PageFile", "page_file"]

_FOLDER = Path(__file__).with_name("page")
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/page/style.css": ("style.css", "text/css; charset=utf-8"),
}
PAGE_PATHS = frozenset(_FILES)

_HEADERS = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-cache"),
)


class PageFile(NamedTuple):
    kind: str
    data: bytes
    headers: tuple[tuple[str, str], ...] = _HEADERS


@cache
def page_file(path: str) -> PageFile:
    """The file behind one of `PAGE_PATHS`."""
    name, kind = _FILES[path]
    return PageFile(kind, (_FOLDER / name).read_bytes())
