"""Results of DuckDuckGo's page for browsers without scripts."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from tools.failing import ServiceError

__all__ = ["SEARCH_URL", "Result", "read_results"]

SEARCH_URL = "https://html.duckduckgo.com/html/"


@dataclass(frozen=True)
class Result:
    title: str
    url: str
    snippet: str

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.title, self.url, self.snippet]))


def read_results(html: str) -> list[Result]:
    """The results on a page, without advertisements.

    Raises:
        ServiceError: the page asks whether a human is there.
    """
    tree = LexborHTMLParser(html)
    if tree.css_first(".anomaly-modal__title, #challenge-form") is not None:
        raise ServiceError("DuckDuckGo wants to see a human: too many searches from here. Try again in some minutes")
    results = []
    for node in tree.css("div.result"):
        link, snippet = node.css_first("a.result__a"), node.css_first("a.result__snippet, .result__snippet")
        url = _real_url(link.attributes.get("href") or "") if link is not None else ""
        if link is not None and url:
            words = " ".join(snippet.text().split()) if snippet is not None else ""
            results.append(Result(" ".join(link.text().split()), url, words))
    return results


def _real_url(href: str) -> str:
    """Where a link leads: results go by way of DuckDuckGo and carry the address as `uddg`; advertisements do not."""
    parts = urlsplit(urljoin(SEARCH_URL, href))
    if not (parts.hostname or "").endswith("duckduckgo.com"):
        return parts.geturl() if parts.scheme in ("http", "https") else ""
    real = parse_qs(parts.query).get("uddg", [""])[0]
    return real if real.startswith(("http://", "https://")) and "duckduckgo.com/y.js" not in real else ""
