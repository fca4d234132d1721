"""RSS and Atom feeds as text."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from tools.web.network import Page
from tools.web.pages import html_text

__all__ = ["feed_text"]

MAX_SUMMARY = 500  # characters


def feed_text(page: Page, limit: int) -> str:
    """Title, description, link and the first `limit` entries.

    Raises:
        ValueError: it is no feed.
    """
    import feedparser  # type: ignore[import-untyped]

    # A stream, because a string could be taken for an address or a file name and be opened.
    kind = page.content_type or "application/xml"
    headers = {"content-type": f"{kind}; charset={page.charset}" if page.charset else kind}
    feed = feedparser.parse(BytesIO(page.body), response_headers=headers, sanitize_html=False)
    if not feed.version:
        raise ValueError(f"{page.url} is no RSS or Atom feed")
    about, entries = feed.feed, feed.entries[:limit]
    head = [("Feed", about.get("title")), ("Description", about.get("subtitle")), ("Link", about.get("link"))]
    lines = [f"{name}: {html_text(value)}" for name, value in head if value]
    numbered = [_entry(number, entry) for number, entry in enumerate(entries, 1)]
    return "\n\n".join(["\n".join([*lines, f"Entries: {len(entries)}"]), *numbered])


def _entry(number: int, entry: Any) -> str:
    summary = html_text(entry.get("summary") or "")
    if len(summary) > MAX_SUMMARY:
        summary = summary[:MAX_SUMMARY] + "..."
    published = entry.get("published") or entry.get("updated")
    lines = [
        f"{number}. {html_text(entry.get('title') or '(no title)')}",
        entry.get("link") or "",
        f"Published: {published}" if published else "",
        summary,
    ]
    return "\n".join(filter(None, lines))
