"""From bytes to text that is worth reading: pages without their menus, other texts as they are."""

from __future__ import annotations

import re
from contextlib import suppress

from selectolax.lexbor import LexborHTMLParser, LexborNode

from tools.web.network import Page

__all__ = ["html_text", "page_text"]

MAX_TEXT = 20_000  # characters
TRUNCATED = "\n\n[... truncated]"
NOISE = (
    "script, style, nav, footer, header, aside, form, iframe, noscript, svg, button, input, select, textarea, template"
)
BLOCKS = (
    "<address> <article> <blockquote> <body> <br> <dd> <details> <dialog> <div> <dl> <dt> <fieldset> <figcaption> "
    "<figure> <h1> <h2> <h3> <h4> <h5> <h6> <hr> <html> <li> <main> <ol> <p> <pre> <section> <summary> <table> "
    "<tbody> <thead> <tr> <ul> "
)
TEXTUAL = re.compile(r"text/|application/([\w.+-]+\+)?(json|xml|javascript|x-javascript|yaml|x-yaml|toml|sql|x-sh)$")
HTML = frozenset({"text/html", "application/xhtml+xml"})
_META_CHARSET = re.compile(rb"<meta[^>]+charset=[\"']?([\w-]+)", re.IGNORECASE)


def page_text(page: Page) -> str:
    """Title, description, address and text of a page, the text at most 20,000 characters.

    Raises:
        ValueError: it is no text.
    """
    kind = page.content_type or _guessed(page.body)
    if kind in HTML:
        title, description, text = _html(decoded(page))
    elif TEXTUAL.match(kind):
        title, description, text = "", "", decoded(page).strip()
    else:
        raise ValueError(f"{page.url} is no text but {kind}")
    if page.cut or len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + TRUNCATED
    head = [("Title", title), ("Description", description), ("URL", page.url)]
    return "\n".join(f"{name}: {value}" for name, value in head if value) + f"\n\n{text}"


def decoded(page: Page) -> str:
    """The body as text: by the header, else by what the page says of itself, else as UTF-8."""
    named = _META_CHARSET.search(page.body[:2048])
    for charset in filter(None, (page.charset, named[1].decode() if named else "")):
        with suppress(LookupError, ValueError):
            return page.body.decode(charset, errors="replace")
    return page.body.decode("utf-8", errors="replace")


def html_text(html: str) -> str:
    """A piece of HTML as one line of text."""
    return " ".join(_text(LexborHTMLParser(html).root).split())


def _guessed(body: bytes) -> str:
    start = body[:1024].lstrip().lower()
    if b"\0" in start:
        return "application/octet-stream"
    return "text/html" if start.startswith((b"<!doctype html", b"<html")) else "text/plain"


def _html(source: str) -> tuple[str, str, str]:
    tree = LexborHTMLParser(source)
    found = tree.css_first("title")
    title = " ".join(found.text().split()) if found else _meta(tree, "og:title")
    description = _meta(tree, "description") or _meta(tree, "og:description")
    tree.strip_tags([*NOISE.split(", "), "head"])
    articles = tree.css("article")
    # Several articles are a list of them, and the first would stand for all.
    places = [articles[0] if len(articles) == 1 else None, tree.css_first("main"), tree.body]
    texts = (_text(place) for place in places if place is not None)
    return title, description, next((text for text in texts if text), "")


def _meta(tree: LexborHTMLParser, name: str) -> str:
    for node in tree.css("meta"):
        if name in (node.attributes.get("name"), node.attributes.get("property")):
            return " ".join((node.attributes.get("content") or "").split())
    return ""


def _text(root: LexborNode | None) -> str:
    """The words below a node, a line for each block. A stack and no recursion, since a page may nest without end."""
    pieces: list[str] = []
    waiting: list[LexborNode | str] = [root] if root is not None else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif node.is_text_node:
            pieces.append(re.sub(r"\s+", " ", node.text_content or ""))
        elif node.tag == "pre":
            pieces.append(f"\n{node.text()}\n")
        else:
            edge = "\n" if f"<{node.tag}>" in BLOCKS else " " if node.tag in ("td", "th") else ""
            inside = list(node.iter(include_text=True))
            pieces.append(edge + ("- " if node.tag == "li" else ""))
            waiting += [edge, *reversed(inside)]
    lines = (line.rstrip() if line.startswith("  ") else line.strip() for line in "".join(pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
