"""The commands that serve, as they are called; see `commands.py`. Their flags cost the start of no other command."""

import sys

from aar.transports.program.flags import SettingFlags
from aar.transports.program.listen_flags import HttpFlags, ServeFlags

__all__ = ["acp", "mcp", "serve"]


def serve(*, web: ServeFlags = ServeFlags(), flags: SettingFlags = SettingFlags()) -> int:
    """Serve the web API: programs chat with Aar over HTTP, and read along."""
    from aar.transports.program.signals import leave_on_signals

    leave_on_signals()
    from aar.transports.web.serve import serve

    return serve(web=web, flags=flags)


def acp(*, http: HttpFlags = HttpFlags(), flags: SettingFlags = SettingFlags()) -> int:
    """Serve an editor over the Agent Client Protocol, or programs over HTTP."""
    if http.http:
        from aar.transports.program.signals import leave_on_signals

        leave_on_signals()
        from aar.transports.acp_http.serve import serve_http

        return serve_http(http=http, flags=flags)
    if http.given():
        from aar.transports.program.exits import USAGE, complain

        complain(f"{http.given()[0]} is for serving over HTTP: add --http.")
        return USAGE
    from aar.transports.program.signals import leave_on_signals

    leave_on_signals(code=0)  # before anybody is told how to end it
    _tell_a_person("Editors start this and talk to it over standard input. To talk yourself: aar chat. Ctrl+C ends it.")
    from aar.transports.acp.serve import acp

    return acp(flags=flags, mcp=http.mcp)


def mcp(*, http: HttpFlags = HttpFlags(), flags: SettingFlags = SettingFlags()) -> int:
    """Offer Aar to other agents as an MCP server, over standard input and output or over HTTP."""
    if http.given() and not http.http:
        from aar.transports.program.exits import USAGE, complain

        complain(f"{http.given()[0]} is for serving over HTTP: add --http.")
        return USAGE
    from aar.transports.program.signals import leave_on_signals

    leave_on_signals()
    if not http.http:
        _tell_a_person(
            "MCP clients start this and talk to it over standard input. To talk yourself: aar chat. Ctrl+C ends it."
        )
    from aar.transports.mcp_server.serve import serve_mcp

    return serve_mcp(http=http, flags=flags)


def _tell_a_person(text: str) -> None:
    """For somebody who typed a command that programs start: it would seem to hang."""
    if sys.stdin is not None and sys.stdin.isatty():
        from aar.transports.program.exits import complain

        complain(text)
