"""The three tools: search, fetch, read_rss."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

import trio
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

from tools.failing import told
from tools.web.cache import Cache, cache_folder
from tools.web.feeds import feed_text
from tools.web.network import Page, Web, web_url
from tools.web.pages import decoded, page_text
from tools.web.search import SEARCH_URL, read_results

__all__ = ["WebTools", "web_server"]

T = TypeVar("T")

MINUTES = 60.0


@dataclass
class WebTools:
    """What the tools do, without MCP around it. `search_url`: where the search form is sent to."""

    web: Web
    cache: Cache
    search_url: str = SEARCH_URL
    _workers: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(4))

    async def search(self, query: str, limit: int = 10) -> str:
        """Numbered results, or that there are none."""
        if not query.strip():
            raise ValueError("The query is empty")

        async def ask() -> str:
            page = await self.web.request("POST", self.search_url, {"q": query, "b": ""})
            return await self._work(self._results, page, limit)

        return await self._cached(f"search {limit} {query}", 5 * MINUTES, ask)

    async def fetch(self, url: str) -> str:
        """The text of a page."""
        address = str(web_url(url))

        async def ask() -> str:
            return await self._work(page_text, await self.web.request("GET", address))

        return await self._cached(f"fetch {address}", 30 * MINUTES, ask)

    async def read_rss(self, feed_url: str, limit: int = 20) -> str:
        """The newest entries of a feed."""
        address = str(web_url(feed_url))

        async def ask() -> str:
            return await self._work(feed_text, await self.web.request("GET", address), limit)

        return await self._cached(f"rss {limit} {address}", 5 * MINUTES, ask)

    @staticmethod
    def _results(page: Page, limit: int) -> str:
        results = read_results(decoded(page))[:limit]
        return "\n\n".join(f"{n}. {result}" for n, result in enumerate(results, 1)) or "No results found."

    async def _cached(self, key: str, seconds: float, ask: Callable[[], Awaitable[str]]) -> str:
        key = f"{'any' if self.web.allow_private else 'public'} {key}"
        kept: str | None = await self._work(self.cache.get, key, seconds)
        if kept is not None:
            return kept
        text = await ask()
        await self._work(self.cache.put, key, text)
        return text

    async def _work(self, function: Callable[..., T], *arguments: object) -> T:
        return await trio.to_thread.run_sync(function, *arguments, limiter=self._workers, abandon_on_cancel=True)


def web_server(environ: Mapping[str, str] = os.environ) -> MCPServer:
    """The server `web-tools`, as its variables say: WEB_TOOLS_CACHE, WEB_TOOLS_ALLOW_PRIVATE, WEB_TOOLS_SEARCH_URL."""
    tools = WebTools(
        Web(allow_private=environ.get("WEB_TOOLS_ALLOW_PRIVATE", "").lower() in ("1", "true", "yes")),
        Cache(Path(environ.get("WEB_TOOLS_CACHE") or cache_folder())),
        environ.get("WEB_TOOLS_SEARCH_URL") or SEARCH_URL,
    )
    return serve_tools(tools)


def serve_tools(tools: WebTools) -> MCPServer:
    server = MCPServer("web-tools", instructions="Search the web, read pages, read feeds.", log_level="WARNING")
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=True)

    @server.tool(annotations=reading, structured_output=False)
    @told
    async def search(query: str, limit: Annotated[int, Field(ge=1, le=30)] = 10) -> str:
        """Search the web. Gives title, address and a few words of each result; use fetch to read one."""
        return await tools.search(query, limit)

    @server.tool(annotations=reading, structured_output=False)
    @told
    async def fetch(url: str) -> str:
        """Read a web page or a text on the web (http or https): its title, description and text, without menus."""
        return await tools.fetch(url)

    @server.tool(annotations=reading, structured_output=False)
    @told
    async def read_rss(feed_url: str, limit: Annotated[int, Field(ge=1, le=50)] = 20) -> str:
        """Read an RSS or Atom feed: its newest entries with link, date and summary."""
        return await tools.read_rss(feed_url, limit)

    return server
