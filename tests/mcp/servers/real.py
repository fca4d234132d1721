"""A server written with the package `mcp`, over standard streams, or over HTTP: `real.py http` tells its address."""

from __future__ import annotations

import sys

import trio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("real", instructions="For tests.")
heard: list[str] = []


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG", format="png")


@server.tool()
def break_down() -> str:
    """Fail."""
    raise RuntimeError("no such luck")


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count aloud."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "counted"


@server.tool()
async def wait(ctx: Context) -> str:
    """Wait until cancelled."""
    await ctx.report_progress(0)
    try:
        await trio.sleep_forever()
    finally:
        heard.append("cancelled")
    return ""


@server.tool()
def what_was_heard() -> str:
    """What became of `wait`."""
    return ", ".join(heard) or "nothing"


@server.tool()
async def grow(ctx: Context) -> str:
    """Get another tool."""
    server.add_tool(lambda: "new", name="another", description="It is new.")
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
def header(name: str, ctx: Context) -> str:
    """A header of the request, over HTTP."""
    return str((ctx.headers or {}).get(name, "(none)"))


@server.resource("notes://today", mime_type="text/plain")
def notes() -> str:
    """Notes of today."""
    return "Buy milk."


@server.prompt()
def review(language: str) -> str:
    """Ask for a review."""
    return f"Review this {language} code."


async def over_http() -> None:
    from hypercorn.config import Config
    from hypercorn.trio import serve

    config = Config()
    config.bind = [f"127.0.0.1:{sys.argv[2] if len(sys.argv) > 2 else 0}"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 0.1
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(serve, server.streamable_http_app(stateless_http="stateless" in sys.argv), config)
        print(bound[0], flush=True)


if __name__ == "__main__":
    trio.run(over_http) if "http" in sys.argv else trio.run(server.run_stdio_async)
